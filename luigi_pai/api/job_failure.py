"""What an error says of a job that did not succeed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from luigi_pai.api.logs import deciding_task, last_lines, printable
from luigi_pai.api.watcher import Deadline
from luigi_pai.errors import PaiJobFailed, PaiJobTimeout
from luigi_pai.redaction import redact_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.status import JobStatus, TaskStatus

__all__ = ["NEXT_SUBMISSION", "job_failure"]

NEXT_SUBMISSION = "run the task again to submit the next attempt"
_MOST_LOGS = 10  # addresses of tasks' output in one error
_MOST_FAILED = 5  # failed tasks that are listed
_OWN_EXIT_CODE = re.compile(r"^\s*originUserExitCode: (\d+)$", re.MULTILINE)  # of the runtime of v2 clusters
_LONGEST_DIAGNOSTICS = 4000  # characters of the server's text, and of a log, that an error repeats


def job_failure(
    cluster: Cluster,
    status: JobStatus,
    *,
    missed: Deadline | None = None,
    secrets: Sequence[str] = (),
    next_step: str | None = None,
) -> PaiJobFailed:
    """Return the error for a job that failed or was stopped: what happened, why, where to look, what to do.

    Args:
        cluster: asked for the last lines of a log, where it gives logs out.
        status: of the job, at its end.
        missed: the deadline for which it was stopped.
        secrets: of the job; its own log may show them, the error does not.
        next_step: what to do next, for the last line.
    """
    status = _without_secrets(status, secrets)
    last = last_lines(cluster, status)
    lines = [_what_happened(status, log_is_known=last is not None)]
    if missed is not None:
        verb = "waited" if missed is Deadline.QUEUE else "ran"
        lines.append(f"it was stopped because it {verb} for longer than {missed.value}")
    lines += _failed_tasks(status)
    if status.exit_reason:
        lines.append(f"which means: {status.exit_reason}")
    if status.exit_solution:
        lines.append(f"what may help: {status.exit_solution}")
    if last is not None:
        task, log = last
        shown = _end_of(redact_values(log, secrets))
        lines.append(f"last lines of {task}:\n{shown}")
    lines.append(f"job page: {cluster.page(status.name)}")
    lines += _output_pages(status)
    lines += [next_step] if next_step else []
    kind = PaiJobFailed if missed is None else PaiJobTimeout
    return kind(_indented(lines), status)


def _indented(lines: Sequence[str]) -> str:
    """Join the lines of an error: all but the first are indented, and texts of several lines further."""
    first, *others = [line.split("\n") for line in lines]
    text = ["\n    ".join(first)]
    text += ["\n    ".join(other) for other in others]
    return "\n  ".join(text)


def _failed_tasks(status: JobStatus) -> Iterator[str]:
    """Yield which tasks failed, the one that decided the end first."""
    decided = deciding_task(status)
    if decided is None or len(status.tasks) == 1:
        return
    failed = [decided, *(task for task in status.failed_tasks() if task != decided)]
    shown = ", ".join(_with_exit_code(task) for task in failed[:_MOST_FAILED])
    more = f" and {len(failed) - _MOST_FAILED} more" if len(failed) > _MOST_FAILED else ""
    yield f"failed task{'' if len(failed) == 1 else 's'}: {shown}{more}"


def _with_exit_code(task: TaskStatus) -> str:
    return str(task) if task.exit_code is None else f"{task} with exit code {task.exit_code}"


def _output_pages(status: JobStatus) -> Iterator[str]:
    """Yield where the output of tasks is, of failed ones first."""
    failed = [task for task in [deciding_task(status)] if task is not None]
    failed += [task for task in status.failed_tasks() if task not in failed]
    logged = [task for task in [*failed, *(t for t in status.tasks if t not in failed)] if task.log_url]
    for task in logged[:_MOST_LOGS]:
        yield f"output of {task}: {task.log_url}"
    if len(logged) > _MOST_LOGS:
        yield f"and {len(logged) - _MOST_LOGS} tasks more, on the job page"


def _without_secrets(status: JobStatus, secrets: Sequence[str]) -> JobStatus:
    """Return a status whose diagnostics, which may repeat the end of a log, show no secret."""
    if not status.diagnostics:
        return status
    return replace(status, diagnostics=redact_values(status.diagnostics, secrets))


def _what_happened(status: JobStatus, *, log_is_known: bool) -> str:
    text = f"job {status.name!r} ended as {status.raw_state}"
    if status.exit_code is not None:
        text += f" with exit code {status.exit_code}"
    own = _OWN_EXIT_CODE.search(status.diagnostics or "")
    if own and own[1] != str(status.exit_code):
        text += f", its command with {own[1]}"
    if status.exit_type:
        text += f" ({status.exit_type})"
    if status.retries:
        text += f" after {status.retries} retr{'y' if status.retries == 1 else 'ies'}"
    if status.diagnostics and not (own and log_is_known):  # such diagnostics repeat the log
        text += f": {_end_of(printable(status.diagnostics))}"
    return text


def _end_of(text: str) -> str:
    text = text.strip()
    cut = "... " if len(text) > _LONGEST_DIAGNOSTICS else ""
    return f"{cut}{text[-_LONGEST_DIAGNOSTICS:]}"
