"""The v1 dialect, of OpenPAI 0.7 to 0.14: paths and bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from luigi_pai.api.job_replies import job_status, listed_jobs
from luigi_pai.errors import JobNotFound, PaiHttpError

if TYPE_CHECKING:
    from luigi_pai.api.session import Session
    from luigi_pai.api.status import JobStatus
    from luigi_pai.spec.job import PaiJob

__all__ = ["V1Dialect"]

_JOBS = "/api/v1/jobs"


class V1Dialect:
    """The calls of the v1 dialect. Errors are those of ``Session.request``.

    Args:
        session: the connection to the rest-server.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def submit(self, job: PaiJob) -> None:
        """Post a job; the server has taken it when this returns (202, or 201 from 0.12 on)."""
        self._session.request("POST", _JOBS, body=job.to_json())

    def status(self, name: str) -> JobStatus:
        """Return what the server says of a job now."""
        reply = self._session.request("GET", _path(name), authorize=False)
        return job_status(name, reply)

    def list(self, username: str) -> list[JobStatus]:
        """Return all jobs of a user that the server still knows, in its order."""
        reply = self._session.request("GET", f"{_JOBS}?username={quote(username, safe='')}", authorize=False)
        return listed_jobs(reply)

    def stop(self, name: str) -> None:
        """Ask the server to stop a job.

        Raises:
            JobNotFound: the server knows no job of this name.
        """
        try:
            self._session.request("PUT", f"{_path(name)}/executionType", body={"value": "STOP"})
        except PaiHttpError as error:
            if (error.status, error.code) != (404, "UnknownError"):
                raise
            # 0.7 hands on what the launcher behind it says of a job that it does not know
            raise JobNotFound(
                f"there is no job {name!r} to stop",
                status=404,
                code=error.code,
                server_message=error.server_message,
            ) from None


def _path(name: str) -> str:
    return f"{_JOBS}/{quote(name, safe='')}"
