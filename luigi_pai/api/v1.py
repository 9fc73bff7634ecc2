"""The v1 dialect, of OpenPAI 0.7 to 0.14: paths, bodies, and replies read as JobStatus."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from luigi_pai.api.status import JobState, JobStatus, TaskStatus
from luigi_pai.errors import InvalidReply, JobNotFound, PaiHttpError

if TYPE_CHECKING:
    from luigi_pai.api.session import Session
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
        return _job_status(name, reply)

    def list(self, username: str) -> list[JobStatus]:
        """Return all jobs of a user that the server still knows, in its order."""
        reply = self._session.request("GET", f"{_JOBS}?username={quote(username, safe='')}", authorize=False)
        if not isinstance(reply, list):
            raise InvalidReply(f"the server answered a list of jobs with {type(reply).__name__}")
        return [_list_row(row) for row in reply if isinstance(row, dict) and isinstance(row.get("name"), str)]

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


def _job_status(name: str, reply: Any) -> JobStatus:
    status = reply.get("jobStatus") if isinstance(reply, dict) else None
    if not isinstance(status, dict) or not isinstance(status.get("state"), str):
        raise InvalidReply(f"the server's answer for job {name!r} has no jobStatus.state")
    roles = reply.get("taskRoles")
    return _status_of(name, status, tasks=tuple(_tasks(roles)) if isinstance(roles, dict) else ())


def _list_row(row: dict[str, Any]) -> JobStatus:
    return _status_of(str(row["name"]), row)


def _status_of(name: str, fields: dict[str, Any], tasks: tuple[TaskStatus, ...] = ()) -> JobStatus:
    return JobStatus(
        name=name,
        state=JobState.of(fields.get("state")),
        raw_state=str(fields.get("state") or ""),
        username=_text(fields.get("username")),
        retries=_integer(fields.get("retries")) or 0,
        exit_code=_integer(fields.get("appExitCode")),
        diagnostics=_text(fields.get("appExitDiagnostics")),
        exit_type=_text(fields.get("appExitType")),
        created_ms=_integer(fields.get("createdTime")),
        completed_ms=_integer(fields.get("completedTime")) or None,
        progress=_number(fields.get("appProgress")),
        tracking_url=_text(fields.get("appTrackingUrl")),
        virtual_cluster=_text(fields.get("virtualCluster")),
        sub_state=_text(fields.get("subState")),
        tasks=tasks,
    )


def _tasks(roles: dict[str, Any]) -> list[TaskStatus]:
    return [
        TaskStatus(
            role=role, index=_integer(task.get("taskIndex")) or 0, log_url=_text(task.get("containerLog"))
        )
        for role, about in roles.items()
        if isinstance(about, dict)
        for task in about.get("taskStatuses") or ()
        if isinstance(task, dict)
    ]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _integer(value: Any) -> int | None:
    """Return a number that a server wrote as a number or as a string."""
    number = _number(value)
    return None if number is None else int(number)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
