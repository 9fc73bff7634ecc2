"""The logs of a job's tasks, as far as its servers give them out."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from luigi_pai.errors import PaiApiError

if TYPE_CHECKING:
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.status import JobStatus, TaskStatus

__all__ = ["deciding_task", "last_lines", "printable"]

logger = logging.getLogger(__name__)

_STREAMS = ("all", "stderr", "stdout", "runtime.log")  # the one that says most first
_LAST_LINES = 20
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[^\S\n\t ]|[\x00-\x08\x0e-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Return a text of a job without what a terminal would obey: escapes and control characters.

    Of a line that was written over with carriage returns, as progress bars are, the last state stays.
    """
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPE.sub("", text).split("\n"))
    return "\n".join(_CONTROL.sub("", line) for line in lines)


def deciding_task(status: JobStatus) -> TaskStatus | None:
    """Return the task that made a job end as it did, or the first that failed."""
    decided = [task for task in status.tasks if (task.role, task.index) == status.exit_task]
    return next(iter(decided + status.failed_tasks()), None)


def last_lines(cluster: Cluster, status: JobStatus) -> tuple[TaskStatus, str] | None:
    """Return the task that decided the end of a job, and the last lines of its log.

    None where there are none to be had: only servers from 1.4 on give logs out,
    and what fails here is not what went wrong.
    """
    task = deciding_task(status)
    if task is None or not cluster.dialect.can.logs:
        return None
    try:
        files = cluster.dialect.task_logs(status, task.role, task.index, tail=True)
        named = {file.name: file for file in files}
        logs = (cluster.log_files.text(named[name]) for name in _STREAMS if name in named)
        text = next((log for log in logs if log.strip()), "")
    except PaiApiError as error:
        logger.debug("No log of %s: %s", status.name, error)
        return None
    lines = printable(text.rstrip()).split("\n")[-_LAST_LINES:]
    return (task, "\n".join(lines)) if any(lines) else None
