"""Conversion of a server's replies about jobs to JobStatus, for both dialects.

1.8 has all fields of 0.7 and more (API.md of either release). A field missing in the reply is None.
"""

from __future__ import annotations

import math
from typing import Any

from luigi_pai.api.status import JobState, JobStatus, TaskStatus
from luigi_pai.errors import InvalidReply

__all__ = ["job_status", "listed_jobs"]


def job_status(name: str, reply: Any) -> JobStatus:
    """Return the status in the reply for one job.

    Args:
        name: of the job, as requested.
        reply: the JSON of the reply.

    Raises:
        InvalidReply: it has no state.
    """
    status = reply.get("jobStatus") if isinstance(reply, dict) else None
    if not isinstance(status, dict) or not isinstance(status.get("state"), str):
        raise InvalidReply(f"the server's reply for job {name!r} has no jobStatus.state")
    roles = reply.get("taskRoles")
    fields = {**status, "tags": reply["tags"]} if "tags" in reply else status
    return _status_of(name, fields, tasks=tuple(_tasks(roles)) if isinstance(roles, dict) else ())


def listed_jobs(rows: Any, *, full_names: bool = False) -> list[JobStatus]:
    """Return the jobs of a list, in its order.

    Args:
        rows: the JSON of the reply, or of its ``data``.
        full_names: names may be ``USER~NAME``, as some v2 releases send them.

    Raises:
        InvalidReply: it is not a list.
    """
    if not isinstance(rows, list):
        raise InvalidReply(f"the server sent {type(rows).__name__} instead of a list of jobs")
    return [
        _status_of(_plain_name(row) if full_names else row["name"], row)
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("name"), str)
    ]


def _plain_name(row: dict[str, Any]) -> str:
    """Return the name of a job in a list without its USER~."""
    name: str = row["name"]
    return name.removeprefix(f"{row.get('username')}~")


def _status_of(name: str, fields: dict[str, Any], tasks: tuple[TaskStatus, ...] = ()) -> JobStatus:
    exit_type, exit_reason, exit_solution = _exit_spec(fields.get("appExitSpec"))
    tracking_url = _text(fields.get("appTrackingUrl"))
    return JobStatus(
        name=name,
        state=JobState.of(fields.get("state")),
        raw_state=str(fields.get("state") or ""),
        username=_text(fields.get("username")),
        retries=_integer(fields.get("retries")) or 0,
        exit_code=_integer(fields.get("appExitCode")),
        diagnostics=_text(fields.get("appExitDiagnostics")),
        exit_type=exit_type or _text(fields.get("appExitType")),
        exit_reason=exit_reason,
        exit_solution=exit_solution,
        exit_task=_exit_task(fields),
        created_ms=_integer(fields.get("createdTime")) or _integer(fields.get("submissionTime")),
        launched_ms=_integer(fields.get("launchedTime")) or _integer(fields.get("appLaunchedTime")) or None,
        completed_ms=_integer(fields.get("completedTime")) or None,
        # v2 servers send 0 and 1 only
        progress=_number(fields.get("appProgress")) if "attemptId" not in fields else None,
        tracking_url=tracking_url,
        virtual_cluster=_text(fields.get("virtualCluster")),
        sub_state=_text(fields.get("subState")),
        attempt=_integer(fields.get("attemptId")),
        tasks=tasks,
        retry_causes=_retry_causes(fields.get("retryDetails")),
        tags=tuple(tag for tag in fields.get("tags") or () if isinstance(tag, str)),
        takes_tags="tags" in fields,
        gpus=_integer(fields.get("totalGpuNumber")),
        legacy=fields.get("legacy") is True,
    )


def _retry_causes(details: Any) -> tuple[tuple[str, int], ...]:
    given = details if isinstance(details, dict) else {}
    counts = ((cause, _integer(given.get(cause)) or 0) for cause in ("user", "platform", "resource"))
    return tuple((cause, count) for cause, count in counts if count)


def _exit_task(fields: dict[str, Any]) -> tuple[str, int] | None:
    role, index = fields.get("appExitTriggerTaskRoleName"), _integer(fields.get("appExitTriggerTaskIndex"))
    return (role, index) if isinstance(role, str) and role and index is not None else None


def _exit_spec(spec: Any) -> tuple[str | None, str | None, str | None]:
    """Return the class of an end, its explanation, and what may help."""
    if not isinstance(spec, dict):
        return None, None, None
    return _text(spec.get("phrase")), _sentence(spec.get("reason")), _sentence(spec.get("solution"))


def _tasks(roles: dict[str, Any]) -> list[TaskStatus]:
    return [
        _task(role, task)
        for role, about in roles.items()
        if isinstance(about, dict)
        for task in about.get("taskStatuses") or ()
        if isinstance(task, dict)
    ]


def _task(role: str, fields: dict[str, Any]) -> TaskStatus:
    exit_type, exit_reason, exit_solution = _exit_spec(fields.get("containerExitSpec"))
    return TaskStatus(
        role=role,
        index=_integer(fields.get("taskIndex")) or 0,
        log_url=_address(fields.get("containerLog")),
        state=_text(fields.get("taskState")),
        exit_code=_integer(fields.get("containerExitCode")),
        attempt=_integer(fields.get("attemptId")),
        diagnostics=_text(fields.get("containerExitDiagnostics")),
        exit_type=exit_type,
        exit_reason=exit_reason,
        exit_solution=exit_solution,
        launched_ms=_integer(fields.get("launchedTime")) or None,
        completed_ms=_integer(fields.get("completedTime")) or None,
    )


def _address(value: Any) -> str | None:
    """Return the URL of a page; from 1.4 on, ``containerLog`` is a path of the API instead."""
    text = _text(value)
    return text if text and text.startswith(("http://", "https://")) else None


def _sentence(value: Any) -> str | None:
    """Return a text, or several joined: ``solution`` is a list."""
    if isinstance(value, list):
        return "; ".join(text for text in value if isinstance(text, str) and text) or None
    return _text(value)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _integer(value: Any) -> int | None:
    """Return a number that a server sends as a number or as a string."""
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
