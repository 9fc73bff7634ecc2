"""The error for a failed or stopped job: the task that ended it, and the last lines of that task's log."""

from __future__ import annotations

import functools
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from luigi_pai.api.dialects.launcher_text import last_logged_line, reason_and_report
from luigi_pai.api.logs.source import SHORT
from luigi_pai.api.watched import Deadline
from luigi_pai.api.wire.transport import at_most
from luigi_pai.errors import PaiApiError, PaiJobFailed, PaiJobTimeout
from luigi_pai.redaction import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.status import JobStatus, TaskStatus

logger = logging.getLogger(__name__)

NEXT_SUBMISSION = "run the task again to submit the job again"
_MOST_LOGS = 10  # URLs of tasks' output in one error
_MOST_FAILED = 5  # failed tasks that are listed
_LONGEST_DIAGNOSTICS = 4000  # characters of the server's diagnostics, and of a log, in an error
_STREAMS = ("all", "stderr", "stdout", "runtime.log")  # the most complete first
_LAST_LINES = 20
_NO_RUNTIME = "No module named 'pai_runtime'"
_RUNTIME_HINT = "the container has no pai_runtime.py; set runtime = True on the task"


def deciding_task(status: JobStatus) -> TaskStatus | None:
    """Return the task that ended a job; None if it is not known.

    This is the task that the server names. If the server names none, it is a failed task, preferably one
    with the job's exit code. If no task failed and the job has only one task, it is that one.
    """
    decided = [task for task in status.tasks if (task.role, task.index) == status.exit_task]
    failed = status.failed_tasks()
    same_code = [task for task in failed if task.exit_code == status.exit_code]
    only = status.tasks if len(status.tasks) == 1 else ()
    return next(iter([*decided, *same_code, *failed, *only]), None)


def last_lines(api: RestApi, status: JobStatus) -> tuple[TaskStatus, str] | None:
    """Return the task that ended a job and the last lines of its log; None if there are none.

    The result is also None if the log cannot be read (0.15 to 1.3 do not serve logs, and nodes of 0.7 to 0.14
    may be unreachable), because an error about the log must not hide the job's error.
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
    """Return the last lines of a task's most complete non-empty log, without unprintable characters.

    Raises:
        PaiApiError: The log cannot be read.
    """
    files = api.dialect.task_logs(status, task.role, task.index)
    named = {file.name: file for file in files}
    logs = (api.log_files.read(named[name], tail=True) for name in _STREAMS if name in named)
    log = next((log for log in logs if log.strip()), "")
    return "\n".join(printable(log.rstrip(), of_log=True).split("\n")[-count:])


def log_end_of(book: Book, entry: Entry, count: int) -> str:
    """Return the last lines of a submission's log; transient errors are retried.

    Raises:
        PaiApiError: The log cannot be read.
    """

    def read() -> str:
        status, index = book.status(entry.job), entry.index or 0
        tasks = [task for task in status.tasks if task.index == index]
        return log_end(book.api, status, tasks[0], count) if tasks else ""

    return book.api.repeat(read, subject=f"log of job {entry.job}")


def job_failure(
    api: RestApi,
    status: JobStatus,
    *,
    missed: Deadline | None = None,
    secrets: Sequence[str] = (),
    next_step: str | None = None,
) -> PaiJobFailed:
    """Return the error for a failed or stopped job, with the cause, log lines, URLs and advice.

    Args:
        api: The REST API of the job's cluster, to read the job's log.
        status: The job's last status.
        missed: The missed deadline for which the job was stopped; None if it missed none.
        secrets: Secret values in the job. They are redacted, like the account's password and token, because
            the job's log may contain them.
        next_step: The last line of the error.
    """
    # the diagnostics may contain the end of a log, with secrets
    redacted = functools.partial(api.session.redacted, secrets=secrets)
    status = replace(status, diagnostics=status.diagnostics and redacted(status.diagnostics))
    task, log = last_lines(api, status) or (None, "")
    log = redacted(log)
    reason, report = map(redacted, reason_and_report(status.diagnostics or ""))
    lines = [_summary(status) + (f": {_end_of(printable(reason))}" if reason else "")]
    if missed is not None:
        verb = "waited" if missed is Deadline.QUEUE else "ran"
        lines.append(f"it was stopped because it {verb} for longer than {missed.value}")
    failed = _failed_tasks(status)
    if failed and len(status.tasks) > 1:
        shown = ", ".join(_with_exit_code(each) for each in failed[:_MOST_FAILED])
        more = f" and {len(failed) - _MOST_FAILED} more" if len(failed) > _MOST_FAILED else ""
        lines.append(f"failed task{'' if len(failed) == 1 else 's'}: {shown}{more}")
    if status.exit_reason:
        lines.append(f"which means: {status.exit_reason}")
    if status.exit_solution:
        lines.append(f"what may help: {status.exit_solution}")
    if task is not None:
        lines.append(f"last lines of {task}:\n{_end_of(log)}")
    has_log = task is not None and (status.command_exit_code is not None or api.dialect.version == "v1")
    if report and not has_log:  # the report would only repeat the end of the log above
        lines.append(f"the cluster's report:\n{_end_of(printable(report))}")
    lines += [_RUNTIME_HINT] * (_NO_RUNTIME in log + report)
    lines.append(f"job page: {api.page(status.name)}")
    lines += _output_pages([each for each in failed or status.tasks if each.log_url])
    lines += [next_step] if next_step else []
    # lines within an entry get four blanks
    message = "\n  ".join(line.replace("\n", "\n    ") for line in lines)
    kind = PaiJobFailed if missed is None else PaiJobTimeout
    last = log.rstrip().rpartition("\n")[2].strip()
    return kind(message, status, last or last_logged_line(status.diagnostics or ""))


def _failed_tasks(status: JobStatus) -> list[TaskStatus]:
    """Return the failed tasks, starting with the one that ended the job; [] if that one is unknown."""
    decided = deciding_task(status)
    return [] if decided is None else [decided, *(task for task in status.failed_tasks() if task != decided)]


def _with_exit_code(task: TaskStatus) -> str:
    return str(task) if task.exit_code is None else f"{task} with exit code {task.exit_code}"


def _output_pages(logged: Sequence[TaskStatus]) -> Iterator[str]:
    """Yield lines with the URLs of the tasks' output; the last line counts any that are left out."""
    for task in logged[:_MOST_LOGS]:
        yield f"output of {task}: {task.log_url}"
    if len(logged) > _MOST_LOGS:
        yield f"and {len(logged) - _MOST_LOGS} tasks more, on the job page"


def _summary(status: JobStatus) -> str:
    summary = f"job {status.name!r} ended as {status.raw_state}"
    if status.exit_code is not None:
        summary += f" with exit code {status.exit_code}"
    command_code = status.command_exit_code
    if command_code is not None and command_code != status.exit_code:
        summary += f", its command with {command_code}"
    if status.exit_type:
        summary += f" ({status.exit_type})"
    if status.retries:
        summary += f" after {status.retries} retr{'y' if status.retries == 1 else 'ies'}"
    return summary


def _end_of(message: str) -> str:
    message = message.strip()
    cut = "... " if len(message) > _LONGEST_DIAGNOSTICS else ""
    return f"{cut}{message[-_LONGEST_DIAGNOSTICS:]}"
