"""Parses diagnostics from the launcher in OpenPAI 0.7 to 0.14: the task that ended a job, and why."""

from __future__ import annotations

import json
import re
from typing import Any

from luigi_pai.json_bodies import check_size

_LAST_TASK = re.compile(r"\[LastCompletedTask\]: \[TaskStatus\]:\s*")
_REASON = re.compile(r"^\s*\[ApplicationCompletionReason\]:\s*(.*)", re.MULTILINE)
_OF_THE_LAUNCHER = re.compile(
    r"^\s*(?:\[(?:ExitStatus|ApplicationCompletionReason)\]:|_{40,}$)", re.MULTILINE
)
_NOISE = re.compile(  # lines of underscores, Java stacks, headings, values that are also in other fields
    r"\s*(?:$|_{40,}$|at [\w.$]+\(|Stack trace: |Exception from container-launch|Container id: |Exit code: |"
    r"Container exited with a non-zero exit code|\[Exit(?:Code|Type|CustomizedDiagnostics)\]:|"
    r"\[ExitStatus\]: LAUNCHER_EXIT_STATUS_UNDEFINED|\[ExitDiagnostics\]:\s*$)"
)


def last_completed_task(diagnostics: str) -> dict[str, Any] | None:
    """Return the launcher's record of the task that ended a job; None if there is none.

    The record has ``taskRoleName``, ``taskIndex``, ``containerExitCode`` and ``containerExitDiagnostics``.
    """
    found = _LAST_TASK.search(diagnostics)
    if found is None:
        return None
    try:
        check_size(diagnostics)
        task, _end = json.JSONDecoder(strict=False).raw_decode(diagnostics, found.end())
    except (ValueError, RecursionError):
        return None
    return task if isinstance(task, dict) else None


def reason_and_report(diagnostics: str) -> tuple[str, str]:
    """Return why a job ended, as one line, and the rest of the diagnostics; both may be empty.

    In diagnostics from 0.7 to 0.14, the reason is the rule that ended the job. The rest is the container's
    report, without JSON records, Java stacks and lines of underscores. Diagnostics from other releases are
    returned whole: a single line as the reason, several lines as the rest.
    """
    if _OF_THE_LAUNCHER.search(diagnostics) is None:
        report = diagnostics.strip()
        return ("", report) if "\n" in report else (report, "")
    reason, task = _REASON.search(diagnostics), last_completed_task(diagnostics)
    report = diagnostics
    if task is not None:
        report = str(task.get("containerExitDiagnostics") or "")
    elif reason is not None:
        report = diagnostics[: reason.start()]
    lines = [line.strip() for line in report.splitlines() if not _NOISE.match(line)]
    return ("" if reason is None else reason[1].strip()), "\n".join(lines)


def last_logged_line(diagnostics: str) -> str:
    """Return the program's last line if the diagnostics quote its log; empty for the launcher's."""
    _reason, report = ("", "") if _OF_THE_LAUNCHER.search(diagnostics) else reason_and_report(diagnostics)
    lines = [line.strip() for line in report.splitlines()[1:]]
    return next((line for line in reversed(lines) if line[:1].isalpha() and not line.endswith(":")), "")
