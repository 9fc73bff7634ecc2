"""The task that caused the end of a job, and the last lines of its log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from luigi_pai.api.logs.source import SHORT
from luigi_pai.api.wire.transport import at_most
from luigi_pai.errors import PaiApiError
from luigi_pai.redaction import printable

if TYPE_CHECKING:
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.status import JobStatus, TaskStatus

logger = logging.getLogger(__name__)

_STREAMS = ("all", "stderr", "stdout", "runtime.log")  # the most complete first
_LAST_LINES = 20


def deciding_task(status: JobStatus) -> TaskStatus | None:
    """Return the task that caused the end of a job; None if it is not known.

    It is the task that the server names. If the server names none, it is a failed task, preferably one with
    the job's exit code. If no task has failed, it is the job's only task.
    """
    decided = [task for task in status.tasks if (task.role, task.index) == status.exit_task]
    failed = status.failed_tasks()
    same_code = [task for task in failed if task.exit_code == status.exit_code]
    only = status.tasks if len(status.tasks) == 1 else ()
    return next(iter([*decided, *same_code, *failed, *only]), None)


def last_lines(api: RestApi, status: JobStatus) -> tuple[TaskStatus, str] | None:
    """Return the task that caused the end of a job, and the last lines of its log; None if no line is found.

    The result is also None if the log cannot be read (0.15 to 1.3 serve no logs, nodes of 0.7 to 0.14 may be
    out of reach), because an error about the log must not hide the job's error.
    """
    task = deciding_task(status)
    if task is None:
        return None
    try:
        with at_most(SHORT):
            lines = log_end(api, status, task, _LAST_LINES)
    except PaiApiError as error:
        logger.debug("No log of %s: %s", status.name, error)
        return None
    return (task, lines) if lines.strip() else None


def log_end(api: RestApi, status: JobStatus, task: TaskStatus, count: int) -> str:
    """Return the last lines of the most complete non-empty log of a task, as printable text.

    Raises:
        PaiApiError: the log cannot be read.
    """
    files = api.dialect.task_logs(status, task.role, task.index)
    named = {file.name: file for file in files}
    logs = (api.log_files.text(named[name], tail=True) for name in _STREAMS if name in named)
    text = next((log for log in logs if log.strip()), "")
    return "\n".join(printable(text.rstrip(), of_log=True).split("\n")[-count:])
