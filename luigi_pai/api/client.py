"""PaiClient: submit, status, list and stop jobs of one user on one cluster."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit, urlunsplit

from luigi_pai.api.session import Account, Session
from luigi_pai.api.v1 import V1Dialect
from luigi_pai.errors import PaiHttpError

if TYPE_CHECKING:
    from luigi_pai.api.status import JobStatus
    from luigi_pai.spec.job import PaiJob

__all__ = ["PaiClient"]

_REST_PORT, _PORTAL_PORT = 9186, 9286  # of OpenPAI 0.x, where it is asked past its reverse proxy
_LAUNCHER_HINT = (
    "the launcher behind the server refused the job and its reason was lost; it is known to refuse "
    "memoryMB or cpuNumber of 0, negative gpuNumber, over-long names, and ports that begin at a fixed number"
)


@dataclass(frozen=True)
class Sighting:
    """What a look for a job's newest attempt found.

    Attributes:
        at: when, on the monotonic clock, in seconds.
        attempt: number of the newest attempt, from 1; 0 when there was none.
        status: its status then, or None.
        reusable: whether ``run()`` may build on it in place of a look of its own.
    """

    at: float
    attempt: int
    status: JobStatus | None
    reusable: bool = False

    @property
    def age(self) -> float:
        """Seconds since."""
        return time.monotonic() - self.at


class PaiClient:
    """Jobs of one user on one cluster. Safe to share between threads and over a fork.

    Every method raises the errors of ``PaiApiError``'s branch of the tree.

    Args:
        account: the user, and how to reach the cluster.
        portal_url: the web portal; guessed from the account's URL where not given.

    Attributes:
        sightings: what was last seen of each job, by its name; for ``Attempts``.
    """

    def __init__(self, account: Account, portal_url: str | None = None) -> None:
        self.account = account
        self.sightings: dict[str, Sighting] = {}
        self._portal = (portal_url or _portal_of(account.url)).rstrip("/")
        self._session = Session(account)
        self._dialect = V1Dialect(self._session)
        self._ended: dict[str, JobStatus] = {}

    def submit(self, job: PaiJob) -> None:
        """Submit a job; the server has taken it when this returns.

        Raises:
            NameConflict: the name is in use.
            ServerFault: it may be taken, or not.
            ClusterUnreachable: with ``answer_lost``, it may be taken, or not.
            PaiHttpError: the server refused it, in its own words.
        """
        try:
            self._dialect.submit(job)
        except PaiHttpError as error:
            if error.code == "UnknownError" and error.server_message == "Bad Request":
                raise PaiHttpError(
                    f"{error}; {_LAUNCHER_HINT}",
                    status=error.status,
                    code=error.code,
                    server_message=error.server_message,
                ) from None
            raise

    def status(self, name: str) -> JobStatus:
        """Return what the server says of a job.

        An end is final: once seen, it is remembered, and no request is made for
        it again. (The bare replies of mocked tests, which do not say whose job
        it is and from when, are believed but not remembered.)

        Raises:
            JobNotFound: the server knows no job of this name.
        """
        if name in self._ended:
            return self._ended[name]
        status = self._dialect.status(name)
        if status.finished and status.identified:
            self._ended[name] = status
        return status

    def list(self) -> list[JobStatus]:
        """Return all jobs of the user that the server still knows, in its order."""
        return self._dialect.list(self.account.username)

    def stop(self, name: str) -> None:
        """Ask the server to stop a job."""
        self._dialect.stop(name)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._session.close()

    @property
    def answered(self) -> bool:
        """Whether the server has ever answered this client, with anything."""
        return self._session.answered

    def job_page(self, name: str, username: str | None = None) -> str:
        """Return the address of a job's page in the web portal; of this user's job, or of another's."""
        query = urlencode({"username": username or self.account.username, "jobName": name})
        return f"{self._portal}/job-detail.html?{query}"


def _portal_of(url: str) -> str:
    """Guess the portal: what the rest-server is mounted below, or on the same host where OpenPAI has it."""
    parts = urlsplit(url.rstrip("/"))
    if parts.path:
        return urlunsplit((parts.scheme, parts.netloc, re.sub(r"/rest-server$", "", parts.path), "", ""))
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    if parts.port == _REST_PORT:
        host += f":{_PORTAL_PORT}"
    return urlunsplit((parts.scheme, host, "", "", ""))
