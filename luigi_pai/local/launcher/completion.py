"""When an attempt of a job is over, and with what result.

The rules of OpenPAI 0.7's launcher (its user manual), which 1.8's shares.
Whether there is another attempt is for the release's launcher to say
(`LauncherRules.decide_retry`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.store.records import Task

FIRST_FAILURE = "FailedTaskCount 1 has reached MinFailedTaskCount 1"
"""The rule by which the first failure ends an attempt."""
ALL_ENDED = "CompletedTaskCount"
"""Begins the rule of an attempt whose tasks all ended before another rule decided about it."""

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


def attempt_outcome(roles: Sequence[dict[str, Any]], ended: Sequence[Task], total: int) -> Outcome | None:
    """Return the outcome of an attempt that the first trigger in time decided, or None while it goes on.

    Args:
        roles: the task roles of the job, defaults filled in.
        ended: the tasks that have ended, in the order of their ends.
        total: how many tasks the attempt has.
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


def retry_delay(retries: int) -> float:
    """Return the seconds before a retry, 1 for the first: doubled each time, from 0.1 to at most 30."""
    return min(_FIRST_DELAY * float(2 ** min(retries - 1, 20)), _LONGEST_DELAY)
