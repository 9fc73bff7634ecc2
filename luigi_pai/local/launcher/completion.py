"""When an attempt of a job is over, with what result, and whether there is another attempt.

The rules of OpenPAI 0.7's launcher (its RetryPolicyDescriptor and user manual),
and of 1.8's: its exit specification (`exit_specs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.local.container import exit_specs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.store.records import Task

__all__ = [
    "ALL_ENDED",
    "EXIT_STOPPED_V1",
    "FIRST_FAILURE",
    "Again",
    "Outcome",
    "attempt_outcome",
    "exit_type",
    "retry",
    "retry_delay",
    "stopped_code",
]

EXIT_STOPPED_V1 = 214
FIRST_FAILURE = "FailedTaskCount 1 has reached MinFailedTaskCount 1"
"""The rule by which the first failure ends an attempt."""
ALL_ENDED = "CompletedTaskCount"
"""Begins the rule of an attempt whose tasks all ended before another rule decided about it."""
_EXITS_TRANSIENT = (137, 143, 154, 205)
"""0.7's launcher takes SIGKILL, SIGTERM and 154 for a machine that went down; 205 a command says itself."""
_EXIT_PERMANENT = 206
_RETRY_ALWAYS = -2
_RETRY_FAILURES = -1


_FIRST_DELAY = 0.1
_LONGEST_DELAY = 30.0


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended.

    Attributes:
        exit_code: the job's exit code if there is no further attempt.
        trigger: the task that decided it; if all simply ended, the last one; None if there was none.
        rule: which count the task reached, in the launchers' words.
    """

    exit_code: int
    trigger: Task | None
    rule: str


@dataclass(frozen=True)
class Again:
    """Whether there is another attempt, and whether it counts against retryCount."""

    again: bool
    counted: bool = False


def attempt_outcome(roles: Sequence[dict[str, Any]], ended: Sequence[Task], total: int) -> Outcome | None:
    """Say whether an attempt is over, and how.

    Args:
        roles: the task roles of the job, defaults filled in.
        ended: the tasks that have ended, in the order of their ends.
        total: how many tasks the attempt has.

    Returns:
        The outcome of the first trigger in time, or None while the attempt goes on.
    """
    policies = {role["name"]: role for role in roles}
    failed = dict.fromkeys(policies, 0)
    succeeded = dict.fromkeys(policies, 0)
    for task in ended:
        policy = policies[task.role]
        if task.exit_code:
            failed[task.role] += 1
            if failed[task.role] == policy["minFailedTaskCount"]:
                return Outcome(task.exit_code, task, _rule("Failed", failed[task.role]))
        else:
            succeeded[task.role] += 1
            if succeeded[task.role] == policy["minSucceededTaskCount"]:
                return Outcome(0, task, _rule("Succeeded", succeeded[task.role]))
    if len(ended) < total:
        return None
    rule = (
        f"{ALL_ENDED} {total} has reached TotalTaskCount {total} and no user specified conditions in "
        "FrameworkAttemptCompletionPolicy have ever been triggered"
    )
    return Outcome(0, ended[-1] if ended else None, rule)


def _rule(word: str, count: int) -> str:
    return f"{word}TaskCount {count} has reached Min{word}TaskCount {count}"


def stopped_code(generation: int) -> int:
    """Return the exit code of a job that a user stopped."""
    return EXIT_STOPPED_V1 if generation == 1 else exit_specs.EXIT_STOPPED


def exit_type(exit_code: int, generation: int = 1) -> str:
    """Return the launcher's word for an exit code: whether to try again; on v2, whether it is good."""
    if generation > 1:
        return "Failed" if exit_code else "Succeeded"
    return {
        0: "SUCCEEDED",
        **dict.fromkeys(_EXITS_TRANSIENT, "TRANSIENT_NORMAL"),
        _EXIT_PERMANENT: "NON_TRANSIENT",
        EXIT_STOPPED_V1: "NON_TRANSIENT",
    }.get(exit_code, "UNKNOWN")


def retry(retry_count: int, exit_code: int, counted_retries: int, generation: int = 1) -> Again:
    """Decide about another attempt.

    Args:
        retry_count: the job's retryCount (jobRetryCount), or a task's taskRetryCount: -1 sets no bound,
            -2 retries even a success. On v1 -2 leaves the exit codes' classes, too; on v2, where only
            taskRetryCount can be negative, a permanent failure stays one.
        exit_code: how the attempt ended.
        counted_retries: the retries so far that retryCount bounds.
        generation: 1 or 2: whose classes of exit codes count.
    """
    if generation > 1:
        if not exit_code:
            always = retry_count == _RETRY_ALWAYS
            return Again(again=always, counted=always)
        reaction = exit_specs.reaction(exit_code)
        counted = reaction == "RETRY_TO_MAX"
        is_bounded = retry_count not in (_RETRY_ALWAYS, _RETRY_FAILURES)
        to_the_bound = not is_bounded or counted_retries < retry_count
        again = to_the_bound if counted else reaction != "NEVER_RETRY"
        return Again(again=again, counted=counted)
    if retry_count == _RETRY_ALWAYS:
        return Again(again=True, counted=True)
    kind = exit_type(exit_code)
    if kind == "TRANSIENT_NORMAL":
        return Again(again=True)
    if kind != "UNKNOWN":
        return Again(again=False)
    return Again(again=retry_count == _RETRY_FAILURES or counted_retries < retry_count, counted=True)


def retry_delay(retries: int) -> float:
    """Return how many seconds the given retry, 1 for the first, waits: longer each time, up to a bound."""
    return min(_FIRST_DELAY * float(2 ** min(retries - 1, 20)), _LONGEST_DELAY)
