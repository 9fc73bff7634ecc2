"""What an error says of a job that did not succeed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.api.client import PaiClient
    from luigi_pai.api.status import JobStatus

__all__ = ["failure_text", "without_secrets"]

_MOST_LOGS = 10  # addresses of tasks' output in one error
_OWN_EXIT_CODE = re.compile(r"^\s*originUserExitCode: (\d+)$", re.MULTILINE)  # of the runtime of v2 clusters
_LONGEST_DIAGNOSTICS = 4000  # characters of the server's text, and of a log, that an error repeats


def failure_text(client: PaiClient, status: JobStatus, secrets: Sequence[str] = ()) -> str:
    """Return what happened to a job, why, where to look, and what to do next.

    Args:
        client: the cluster; asked for the last lines of a log, where it gives logs out.
        status: of the job, at its end.
        secrets: of the job; its own log may show them, this text does not.
    """
    status = without_secrets(status, secrets)
    last = client.last_lines(status)
    lines = [_what_happened(status, log_is_known=last is not None)]
    if status.exit_reason:
        lines.append(f"which means: {status.exit_reason}")
    if status.exit_solution:
        lines.append(f"what may help: {status.exit_solution}")
    if last is not None:
        task, log = last
        shown = _end_of(_hidden(log, secrets))
        lines.append(f"last lines of {task}:\n    " + "\n    ".join(shown.splitlines()))
    lines.append(f"job page: {client.job_page(status.name)}")
    logged = [task for task in status.tasks if task.log_url]
    lines += [f"output of {task.role}[{task.index}]: {task.log_url}" for task in logged[:_MOST_LOGS]]
    if len(logged) > _MOST_LOGS:
        lines.append(f"and {len(logged) - _MOST_LOGS} tasks more, on the job page")
    lines.append("run the task again to submit the next attempt")
    return "\n  ".join(lines)


def without_secrets(status: JobStatus, secrets: Sequence[str]) -> JobStatus:
    """Return a status whose diagnostics, which may repeat the end of a log, show no secret."""
    if not status.diagnostics:
        return status
    return replace(status, diagnostics=_hidden(status.diagnostics, secrets))


def _hidden(text: str, secrets: Sequence[str]) -> str:
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "******")
    return text


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
        text += f": {_end_of(status.diagnostics)}"
    return text


def _end_of(text: str) -> str:
    text = text.strip()
    cut = "... " if len(text) > _LONGEST_DIAGNOSTICS else ""
    return f"{cut}{text[-_LONGEST_DIAGNOSTICS:]}"
