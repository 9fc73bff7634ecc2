"""What differs between launchers, the services that run jobs and decide about retries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RETRY_ALWAYS", "RETRY_FAILURES", "LauncherRules", "RetryDecision"]

RETRY_ALWAYS = -2
"""A retry limit: whatever the exit code, without end."""
RETRY_FAILURES = -1
"""A retry limit: every failure that is not permanent, without end."""


@dataclass(frozen=True)
class RetryDecision:
    """Whether an attempt is followed by another one.

    Attributes:
        retry: whether there is another attempt.
        counted: whether the attempt counts against the retry limit.
    """

    retry: bool
    counted: bool = False


@dataclass(frozen=True)
class LauncherRules:
    """The rules of one launcher.

    Attributes:
        exit_stopped: exit code of a job that a user stopped.
        stopped_text: diagnostics of such a job.
        stopped_codes: exit codes of jobs whose state is STOPPED.
        shows_stopping: whether a job that is being stopped is STOPPING; if not, it stays RUNNING.
        exit_lost: exit code of an attempt whose processes are gone without an exit code; None for none.
        exit_attempt_over: exit code of a task that ran when its attempt was decided; None for none.
        exit_no_ports: exit code of an attempt that got no ports; None if the job waits for them.
        exit_type: returns the launcher's word for an exit code.
        decide_retry: decides about another attempt, given the retry limit, the exit code, and how many
            retries have been counted.
        container_id: returns the id of a task's container, given the application id of the attempt and
            the task's number within it, from 0.
        has_events: whether events of jobs are recorded.
    """

    exit_stopped: int
    stopped_text: str
    stopped_codes: tuple[int, ...]
    shows_stopping: bool
    exit_lost: int | None
    exit_attempt_over: int | None
    exit_no_ports: int | None
    exit_type: Callable[[int], str]
    decide_retry: Callable[[int, int, int], RetryDecision]
    container_id: Callable[[str, int], str]
    has_events: bool
