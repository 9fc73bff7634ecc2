"""How attempts and jobs end: when they end, with what result, what is recorded, and which jobs are retried.

The rules come from the user manual for OpenPAI 0.7's launcher, and 1.8 has the same rules. The release's
`Release.decide_retry` decides whether there is another attempt.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.local.container.task_files import redactor
from luigi_pai.local.store.database import now_ms
from luigi_pai.local.store.records import COMPLETED, WAITING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.local.launcher.attempt import AttemptRun
    from luigi_pai.local.launcher.task_runner import Services
    from luigi_pai.local.store.records import Job, Task

FIRST_FAILURE = "FailedTaskCount 1 has reached MinFailedTaskCount 1"
"""The rule by which the first failure ends an attempt."""
ALL_ENDED = "CompletedTaskCount"
"""The start of `Outcome.rule` if all tasks ended before another rule applied."""

_FIRST_DELAY = 0.1
_LONGEST_DELAY = 30.0


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended.

    Attributes:
        exit_code: the job's exit code if there is no other attempt.
        trigger: the task that made its role reach ``minFailedTaskCount`` or ``minSucceededTaskCount``; if no
            role reached one of its counts, the last task to end; None if there are no tasks.
        rule: what the launcher calls the count that was reached, or the end of all tasks.
    """

    exit_code: int
    trigger: Task | None
    rule: str


def attempt_outcome(
    roles: Mapping[str, Mapping[str, Any]], ended: Sequence[Task], total: int
) -> Outcome | None:
    """Return an attempt's outcome; None if the attempt continues.

    The first role that reaches one of its counts decides. If all tasks end before that, the exit code is 0.

    ``roles`` maps names to roles; ``ended`` lists the ended tasks in the order they ended; ``total`` is the
    number of tasks.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for task in ended:
        word = "Failed" if task.exit_code else "Succeeded"
        counts[task.role, word] += 1
        count = counts[task.role, word]
        if count == roles[task.role][f"min{word}TaskCount"]:
            rule = f"{word}TaskCount {count} has reached Min{word}TaskCount {count}"
            return Outcome(task.exit_code or 0, task, rule)
    if len(ended) < total:
        return None
    rule = (
        f"{ALL_ENDED} {total} has reached TotalTaskCount {total} and no user specified conditions in "
        "FrameworkAttemptCompletionPolicy have ever been triggered"
    )
    return Outcome(0, ended[-1] if ended else None, rule)


def retry_delay(retries: int) -> float:
    """Return how long to wait before retry 1, 2, ..., in seconds: 0.1, doubled each time, at most 30."""
    return min(_FIRST_DELAY * float(2 ** min(retries - 1, 20)), _LONGEST_DELAY)


def _complete_job(job: Job, exit_code: int, diagnostics: str | None, services: Services) -> None:
    """Record that a job ended."""
    job.sub_state = COMPLETED
    job.completed = now_ms()
    job.exit_code = exit_code
    job.exit_type = job.release.exit_type(exit_code)
    job.diagnostics = diagnostics
    services.store.save_job(job)
    services.store.delete_secrets(job)
    message = f"the job ended with exit code {exit_code}"
    services.store.record_event(job, "JobEnded", message, warning=bool(exit_code))


def complete_stopped_job(job: Job, services: Services) -> None:
    """Record that a job ended because a user stopped it."""
    _complete_job(job, job.release.exit_stopped, job.release.stopped_message, services)


def conclude_attempt(run: AttemptRun, outcome: Outcome | None, services: Services) -> bool:
    """Record that an attempt ended, and return whether the job is retried. If not, record the job's end too.

    If ``outcome`` is None, the attempt was stopped or lost. After a lost attempt, the job is retried
    regardless of its retryCount, and the retry does not count towards it.
    """
    job = run.job
    is_stopped = job.execution_type == "STOP"
    _end_attempt(run, outcome, services)
    if outcome is not None:
        limit, retries = job.spec["retryCount"], job.counted_retries
        decision = job.release.decide_retry(limit, outcome.exit_code, retries)
        if is_stopped or not decision.retry:
            _complete_job(job, outcome.exit_code, _failure_diagnostics(job, outcome, services), services)
            return False
        job.counted_retries += decision.counted
    elif is_stopped:
        complete_stopped_job(job, services)
        return False
    job.retries += 1
    job.sub_state = WAITING
    services.store.save_job(job)
    return True


def _end_attempt(run: AttemptRun, outcome: Outcome | None, services: Services) -> None:
    """Record that an attempt and its tasks ended. ``outcome`` is None for a stopped or lost attempt."""
    attempt, job = run.attempt, run.job
    release = job.release
    if outcome is not None:
        attempt.exit_code = outcome.exit_code
        all_ended = outcome.rule.startswith(ALL_ENDED)
        attempt.trigger_message = outcome.rule if all_ended else f"{outcome.rule} in the TaskRole"
        if outcome.trigger is not None:
            attempt.trigger_role, attempt.trigger_index = outcome.trigger.role, outcome.trigger.index
    elif job.execution_type == "STOP":
        attempt.exit_code = release.exit_stopped
    else:
        attempt.exit_code = release.exit_lost
    is_lost = attempt.exit_code == release.exit_lost
    code = release.exit_lost if is_lost else release.exit_attempt_over
    for task in run.tasks:
        if task.exit_code is None and code is not None:  # the task did not end by itself
            task.exit_code, task.completed = code, now_ms()
            services.store.save_task(task)
        message = f"task {task.name} ended with exit code {task.exit_code}"
        services.store.record_event(
            job, "TaskEnded", message, warning=bool(task.exit_code), container_id=task.container_id
        )
    services.store.end_attempt(attempt)


def _failure_diagnostics(job: Job, outcome: Outcome, services: Services) -> str | None:
    """Return which rule (in 0.7's words) and which task made a job fail, and the end of the task's log.

    Secrets are redacted. Returns None if the job succeeded.
    """
    if not outcome.exit_code or outcome.trigger is None:
        return None
    task = outcome.trigger
    redact = redactor(services.store.secrets(job))
    log = redact(services.folders.task_files(task.folder).last_lines())
    reason = f"[{task.role}]: {outcome.rule}.\ntask {task.name} ended with exit code {outcome.exit_code}"
    return f"{reason}; the last lines of its log:\n{log}" if log else f"{reason}; its log is empty"
