"""Logs of a job's tasks: the last lines."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from luigi_pai.errors import PaiApiError
from luigi_pai.redaction import printable

if TYPE_CHECKING:
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.status import JobStatus, TaskStatus

__all__ = ["deciding_task", "last_lines", "log_end"]

logger = logging.getLogger(__name__)

_STREAMS = ("all", "stderr", "stdout", "runtime.log")  # the most complete first
_LAST_LINES = 20


def deciding_task(status: JobStatus) -> TaskStatus | None:
    """Return the task that caused the end of a job, or the first failed one."""
    decided = [task for task in status.tasks if (task.role, task.index) == status.exit_task]
    return next(iter(decided + status.failed_tasks()), None)


def last_lines(api: RestApi, status: JobStatus) -> tuple[TaskStatus, str] | None:
    """Return the task that caused the end of a job, and the last lines of its log.

    None if there is no log (1.4 and later have them), or if it cannot be read: that error must not
    replace the one of the job.
    """
    task = deciding_task(status)
    if task is None or not api.dialect.can.logs:
        return None
    try:
        lines = log_end(api, status, task, _LAST_LINES)
    except PaiApiError as error:
        logger.debug("No log of %s: %s", status.name, error)
        return None
    return (task, lines) if lines.strip() else None


def log_end(api: RestApi, status: JobStatus, task: TaskStatus, count: int) -> str:
    """Return the last lines of a task's most complete log that is not empty, printable.

    Raises:
        PaiApiError: it cannot be read.
    """
    files = api.dialect.task_logs(status, task.role, task.index, tail=True)
    named = {file.name: file for file in files}
    logs = (api.log_files.text(named[name]) for name in _STREAMS if name in named)
    text = next((log for log in logs if log.strip()), "")
    return "\n".join(printable(text.rstrip()).split("\n")[-count:])
