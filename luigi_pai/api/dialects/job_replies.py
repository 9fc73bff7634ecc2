"""Converts a server's responses about jobs to JobStatus, for both dialects.

1.8 has all of 0.7's fields and more (see API.md in both releases). Fields missing from a response are None.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from luigi_pai.api.dialects.launcher_text import last_completed_task
from luigi_pai.api.status import JobState, JobStatus, TaskStatus
from luigi_pai.errors import InvalidReply
from luigi_pai.jobspec.paths import list_of, mapping_of
from luigi_pai.redaction import printable

_LARGEST = 253_402_300_799_999  # ms, the end of the year 9999; larger numbers are ignored
_CONTROLLER = ("Attempt", "Completed")  # prefixes of FrameworkController's sub-states


def job_status(name: str, body: Any) -> JobStatus:
    """Return the status in the response for one job.

    Args:
        name: The job's name, as requested.
        body: The JSON of the response.

    Raises:
        InvalidReply: The response has no state.
    """
    fields = body.get("jobStatus") if isinstance(body, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get("state"), str):
        raise InvalidReply(f"the server's response for job {name!r} has no jobStatus.state")
    if "tags" in body:
        fields = {**fields, "tags": body["tags"]}
    status = _status_of(name, fields, tuple([_task(*task) for task in tasks_of(body)]))
    if status.exit_task is None and status.diagnostics and status.finished:
        return _with_last_task(status, status.diagnostics)
    return status


def tasks_of(body: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the role and the fields of each task in the response for one job."""
    return [
        (role, task)
        for role, about in mapping_of(body, "taskRoles").items()
        for task in list_of(about, "taskStatuses")
        if isinstance(task, dict)
    ]


def task_index(task: dict[str, Any]) -> int:
    """Return a task's index from its fields."""
    return _values(task)[1].get("taskIndex", 0)


def listed_job(row: Any) -> JobStatus | None:
    """Return the status from an entry in a list of jobs; None if the entry has no name.

    The name's ``USER~`` prefix, which some v2 releases send, is removed.
    """
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        return None
    return _status_of(row["name"].removeprefix(f"{row.get('username')}~"), row)


class JobRow(NamedTuple):
    """The fields for a job's state in a list entry, under the server's names.

    Creating a row takes a tenth of the time of creating a ``JobStatus``, and lists may have 20,000 old jobs.
    """

    name: str
    username: Any
    state: Any
    subState: Any
    retries: Any
    appExitCode: Any
    createdTime: Any
    submissionTime: Any
    launchedTime: Any
    appLaunchedTime: Any
    completedTime: Any
    virtualCluster: Any
    legacy: Any

    def status(self) -> JobStatus:
        """Return the job's status, without its tags and diagnostics."""
        return _status_of(self.name, self._asdict())


_ALIKE = [JobRow._fields.index(name) for name in ("username", "state", "subState", "virtualCluster")]
_same = lru_cache(maxsize=1000)(lambda value: value)  # equal strings of many jobs share memory


def listed_row(entry: Any) -> JobRow | None:
    """Return the row for an entry in a list of jobs; None if it has no name. See ``listed_job``."""
    if not isinstance(entry, dict) or not isinstance(name := entry.get("name"), str):
        return None
    values = list(map(entry.get, JobRow._fields))
    if "~" in name:
        values[0] = name.removeprefix(f"{values[1]}~")
    try:
        for field in _ALIKE:
            values[field] = _same(values[field])
    except TypeError:  # a list or an object, which no server sends
        return None
    return JobRow._make(values)


def listed_jobs(rows: Any) -> list[Any]:
    """Return the jobs in a list, in its order.

    Args:
        rows: The response, whose entries were converted by ``listed_job`` or ``listed_row``.

    Raises:
        InvalidReply: The response is not a list.
    """
    if not isinstance(rows, list):
        raise InvalidReply(f"the server sent {type(rows).__name__} instead of a list of jobs")
    return [row for row in rows if row is not None]


def _status_of(name: str, fields: dict[str, Any], tasks: tuple[TaskStatus, ...] = ()) -> JobStatus:
    strings, numbers = _values(fields)
    exit_type, exit_reason, exit_solution = _exit_spec(fields.get("appExitSpec"))
    role, index = strings.get("appExitTriggerTaskRoleName"), numbers.get("appExitTriggerTaskIndex")
    word = fields.get("state")
    state = JobState.of(word, strings.get("subState"))
    return JobStatus(
        name=name,
        state=state,
        raw_state=strings.get("state", "") if word == "SUCCEED" or state is JobState.UNKNOWN else state.value,
        username=strings.get("username"),
        retries=numbers.get("retries", 0),
        exit_code=numbers.get("appExitCode"),
        diagnostics=strings.get("appExitDiagnostics"),
        exit_type=exit_type or strings.get("appExitType"),
        exit_reason=exit_reason,
        exit_solution=exit_solution,
        exit_task=None if role is None or index is None else (role, index),
        created_ms=numbers.get("createdTime") or numbers.get("submissionTime"),
        launched_ms=_start(strings, numbers),
        completed_ms=numbers.get("completedTime") or None,
        # in v2 responses (they have attemptId) it is 0 or 1, which says no more than the state
        progress=_number(fields.get("appProgress")) if "attemptId" not in fields else None,
        virtual_cluster=strings.get("virtualCluster"),
        attempt=numbers.get("attemptId"),
        tasks=tasks,
        retry_causes=_retry_causes(fields.get("retryDetails")),
        tags=tuple([printable(tag) for tag in list_of(fields, "tags") if isinstance(tag, str)]),
        takes_tags="tags" in fields,
        gpus=numbers.get("totalGpuNumber"),
        legacy=fields.get("legacy") is True,
    )


def _start(strings: dict[str, str], numbers: dict[str, int]) -> int | None:
    """Return when a job started or, if the cluster restarted it, when it last did so; None if unknown.

    In 1.3 and later, launchedTime is the first start (models/v2/job/k8s.js). In 1.0 and later,
    appLaunchedTime is the start of the current attempt. In earlier releases, it means something else: when
    the job was created on 0.15 to 0.17 (same file), or when YARN received it on 0.7 to 0.14 (models/job.js).
    Their sub-states differ.
    """
    first, last = numbers.get("launchedTime") or None, numbers.get("appLaunchedTime") or None
    if last == numbers.get("createdTime") or not strings.get("subState", "").startswith(_CONTROLLER):
        return first
    return (last or first) if numbers.get("retries") else (first or last)


def _with_last_task(status: JobStatus, diagnostics: str) -> JobStatus:
    """Add the task that ended the job to the status if only the diagnostics name it (0.7 to 0.14)."""
    last = last_completed_task(diagnostics)
    if last is None:
        return status
    role, numbers = str(last.get("taskRoleName")), _values(last)[1]
    decided = role, numbers.get("taskIndex", 0)
    code = numbers.get("containerExitCode")
    tasks = [
        replace(task, exit_code=code)
        if (task.role, task.index) == decided and task.exit_code is None
        else task
        for task in status.tasks
    ]
    return replace(status, exit_task=decided, tasks=tuple(tasks))


def _retry_causes(details: Any) -> tuple[tuple[str, int], ...]:
    counts = _values(mapping_of(details))[1]
    return tuple([(cause, counts[cause]) for cause in ("user", "platform", "resource") if counts.get(cause)])


def _exit_spec(given: Any) -> tuple[str | None, str | None, str | None]:
    """Return an exit spec's type, reason and advice; None for each that is missing."""
    spec = mapping_of(given)
    return _values(spec)[0].get("phrase"), _sentence(spec.get("reason")), _sentence(spec.get("solution"))


def _task(role: str, fields: dict[str, Any]) -> TaskStatus:
    strings, numbers = _values(fields)
    exit_type, exit_reason, exit_solution = _exit_spec(fields.get("containerExitSpec"))
    # 1.1 and 1.2 have no launchedTime, and in a queued task, the other field is the start of its wait
    launched = numbers.get("launchedTime")
    if launched is None and strings.get("taskState") != "WAITING":
        launched = numbers.get("currentAttemptLaunchedTime")
    page = strings.get("containerLog", "")  # a URL; from 1.4 on, a path of the API
    return TaskStatus(
        role=role if role.isprintable() else printable(role),
        index=numbers.get("taskIndex", 0),
        log_url=page if page.startswith(("http://", "https://")) else None,
        state=strings.get("taskState"),
        exit_code=numbers.get("containerExitCode"),
        attempt=numbers.get("attemptId"),
        diagnostics=strings.get("containerExitDiagnostics"),
        exit_type=exit_type,
        exit_reason=exit_reason,
        exit_solution=exit_solution,
        launched_ms=launched or None,
        completed_ms=numbers.get("completedTime") or None,
    )


def _sentence(value: Any) -> str | None:
    """Return a string, or the joined strings of a list (``solution`` is a list); None for other values."""
    if isinstance(value, list):
        value = "; ".join(part for part in value if isinstance(part, str) and part)
    return printable(value) if isinstance(value, str) and value else None


def _values(fields: dict[str, Any]) -> tuple[dict[str, str], dict[str, int]]:
    """Return the fields with non-empty strings, and the fields with numbers, as integers.

    Strings are made printable because they are logged and displayed. Servers may send numbers as strings.
    """
    strings, numbers = {}, {}
    for name, value in fields.items():
        if type(value) is int:
            number: float | None = value
        elif isinstance(value, str) and value:
            strings[name] = value if value.isprintable() else printable(value)
            number = _number(value) if value.lstrip("+-").replace(".", "", 1).isdecimal() else None
        else:
            number = _number(value) if isinstance(value, float) else None
        if number is not None and abs(number) <= _LARGEST:
            numbers[name] = int(number)
    return strings, numbers


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
