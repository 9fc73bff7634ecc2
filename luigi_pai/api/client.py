"""PaiClient: submit, status, list and stop jobs of one user on one cluster."""

from __future__ import annotations

import logging
import math
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode, urljoin, urlsplit, urlunsplit

from luigi_pai.api.session import Account, Session
from luigi_pai.api.v1 import V1Dialect
from luigi_pai.api.v2 import V2Dialect
from luigi_pai.errors import PaiApiError, PaiHttpError
from luigi_pai.spec.job import PaiJob
from luigi_pai.spec.names import v2_name

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable

    from luigi_pai.api.status import JobStatus, TaskStatus
    from luigi_pai.spec.protocol import JobProtocol

__all__ = ["PaiClient"]

logger = logging.getLogger("luigi-interface")

T = TypeVar("T")

_V2_ONLY = ("NoApiError", "InvalidProtocolError")  # 1.1 and later; 0.15 to 1.0, to a v1 job
_LIST_KEPT = 10.0  # seconds
_LOGS = ("all", "stderr", "stdout", "runtime.log")  # the one that says most first
_LAST_LINES = 20

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

    It speaks the dialect it is told to, or else learns it: it begins with v1, and a
    server that does not know v1 says so with the first answer. That costs a v1
    cluster no request. Every method raises the errors of ``PaiApiError``'s branch of
    the tree.

    Args:
        account: the user, and how to reach the cluster.
        portal_url: the web portal; guessed from the account's URL where not given.
        api_version: ``auto``, ``v1`` (OpenPAI 0.7 to 0.14) or ``v2`` (0.15 to 1.8).
        fs_uri: what ``$PAI_DEFAULT_FS_URI`` stands for, for v1 jobs on a v2 cluster.

    Attributes:
        sightings: what was last seen of each job, by its name; for ``Attempts``.
        v2: the calls of the v2 dialect that v1 has not: logs, events, tags, storages.
    """

    def __init__(
        self,
        account: Account,
        portal_url: str | None = None,
        api_version: str = "auto",
        fs_uri: str | None = None,
    ) -> None:
        self.account = account
        self.sightings: dict[str, Sighting] = {}
        self._portal = (portal_url or _portal_of(account.url)).rstrip("/")
        self._session = Session(account)
        self._v1 = V1Dialect(self._session)
        self.v2 = V2Dialect(self._session)
        self._learns = api_version == "auto"
        self._speaks_v2 = api_version == "v2"
        self._fs_uri = fs_uri
        self._ended: dict[str, JobStatus] = {}
        self._listed: tuple[float, list[JobStatus]] = (-math.inf, [])

    @property
    def speaks_v2(self) -> bool:
        """Whether the cluster is asked in the v2 dialect, as far as it is known by now."""
        return self._speaks_v2

    def job_name(self, name: str) -> str:
        """Return the name that a job has on this cluster: v2 knows fewer characters than v1."""
        return v2_name(name) if self._speaks_v2 else name

    def submit(self, job: PaiJob | JobProtocol) -> bool:
        """Submit a job; the server has taken it when this returns True.

        Returns:
            False if the server turned out to speak v2 only. Nothing was submitted,
            and whatever was looked up in the v1 dialect is void: look again first.

        Raises:
            NameConflict: the name is in use.
            SpecError: the job cannot be said in the v2 dialect; nothing was sent.
            ServerFault: it may be taken, or not.
            ClusterUnreachable: with ``answer_lost``, it may be taken, or not.
            PaiHttpError: the server refused it, in its own words.
        """
        if self._speaks_v2 or not isinstance(job, PaiJob):
            self.v2.submit(self._protocol_text(job))
            return True
        try:
            self._v1.submit(job)
        except PaiHttpError as error:
            if self._learn(error):
                return False
            if error.code == "UnknownError" and error.server_message == "Bad Request":
                raise PaiHttpError(
                    f"{error}; {_LAUNCHER_HINT}",
                    status=error.status,
                    code=error.code,
                    server_message=error.server_message,
                ) from None
            raise
        return True

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
        status = self._ask(lambda dialect: dialect.status(self.job_name(name)))
        if status.finished and status.identified:
            self._ended[name] = status
        return status

    def list(self) -> list[JobStatus]:
        """Return all jobs of the user that the server still knows, in its order."""
        return self._ask(lambda dialect: dialect.list(self.account.username))

    def recent_list(self) -> builtins.list[JobStatus]:
        """Return ``list()``, of up to some seconds ago: v2 servers limit lists to 60 a minute."""
        taken, jobs = self._listed
        if time.monotonic() - taken > _LIST_KEPT:
            jobs = self.list()
            self._listed = time.monotonic(), jobs
        return jobs

    def stop(self, name: str) -> None:
        """Ask the server to stop a job."""
        self._ask(lambda dialect: dialect.stop(self.job_name(name)))

    def last_lines(self, status: JobStatus) -> tuple[str, str] | None:
        """Return the task that decided the end of a job, as ``ROLE[INDEX]``, and the last lines of its log.

        None where there are none to be had: only servers from 1.4 on give logs out,
        and what fails here is not what went wrong.
        """
        task = _deciding_task(status)
        if task is None or not self._speaks_v2:
            return None
        try:
            files = self.v2.logs(
                status.name,
                task.role,
                task.index,
                job_attempt=status.attempt or 0,
                task_attempt=task.attempt or 0,
                tail=True,
            )
            named = {file.name: urljoin(f"{self._portal}/", file.uri) for file in files}
            logs = (self._session.text(named[name]) for name in _LOGS if name in named)
            text = next((log for log in logs if log.strip()), "")
        except PaiApiError as error:
            logger.debug("No log of %s: %s", status.name, error)
            return None
        lines = text.rstrip().splitlines()[-_LAST_LINES:]
        return (f"{task.role}[{task.index}]", "\n".join(lines)) if lines else None

    def _ask(self, call: Callable[[V1Dialect | V2Dialect], T]) -> T:
        """Ask in the dialect that the server is known, or thought, to speak; ask again if it is the other."""
        if not self._speaks_v2:
            try:
                return call(self._v1)
            except PaiHttpError as error:
                if not self._learn(error):
                    raise
        return call(self.v2)

    def _learn(self, error: PaiHttpError) -> bool:
        """Return whether an answer to a question in the v1 dialect says that the server speaks v2 only.

        Raises:
            PaiHttpError: it says so, and the configuration forbids it.
        """
        if error.code not in _V2_ONLY:
            return False
        if not self._learns:
            raise PaiHttpError(
                f"{error}; this cluster speaks the v2 dialect (OpenPAI 0.15 and later): take "
                "api_version = v1 out of [OpenPai] in luigi.cfg",
                status=error.status,
                code=error.code,
                server_message=error.server_message,
            ) from None
        if not self._speaks_v2:
            logger.info("%s speaks the v2 dialect (OpenPAI 0.15 and later)", self.account.url)
            self._speaks_v2 = True
            self.sightings.clear()
            self._ended.clear()
        return True

    def _protocol_text(self, job: PaiJob | JobProtocol) -> str:
        """Return what is posted to a v2 cluster.

        Raises:
            SpecError: the job cannot be said so.
        """
        from luigi_pai.spec.convert import convert  # noqa: PLC0415  costs what no v1 cluster needs
        from luigi_pai.spec.submission import submission_text  # noqa: PLC0415
        from luigi_pai.spec.validate_protocol import check_protocol  # noqa: PLC0415

        if not isinstance(job, PaiJob):
            return submission_text(job)
        conversion = convert(job, fs_uri=self._fs_uri)
        for loss in conversion.losses:
            logger.warning("Job %s on a v2 cluster: %s", job.jobName, loss)
        check_protocol(conversion.protocol)
        return submission_text(conversion.protocol)

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


def _deciding_task(status: JobStatus) -> TaskStatus | None:
    """Return the task that made a job end as it did, or the first that failed."""
    decided = [task for task in status.tasks if (task.role, task.index) == status.exit_task]
    failed = [task for task in status.tasks if task.exit_code]
    return next(iter(decided + failed), None)


def _portal_of(url: str) -> str:
    """Guess the portal: what the rest-server is mounted below, 9286 beside 9186, or the same address."""
    parts = urlsplit(url.rstrip("/"))
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    netloc = f"{host}:{_PORTAL_PORT}" if parts.port == _REST_PORT and not parts.path else parts.netloc
    return urlunsplit((parts.scheme, netloc, re.sub(r"/rest-server$", "", parts.path), "", ""))
