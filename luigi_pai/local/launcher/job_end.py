"""The end of an attempt and of a job: what is saved, why it failed, and whether there is a retry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.container.task_files import redactor
from luigi_pai.local.launcher.completion import ALL_ENDED
from luigi_pai.local.releases import RetryDecision
from luigi_pai.local.store.database import now_ms
from luigi_pai.local.store.records import COMPLETED, WAITING

if TYPE_CHECKING:
    from luigi_pai.local.launcher.attempt import AttemptRun
    from luigi_pai.local.launcher.completion import Outcome
    from luigi_pai.local.launcher.task_runner import Services
    from luigi_pai.local.store.records import Job


def _complete_job(job: Job, exit_code: int, diagnostics: str | None, services: Services) -> None:
    """Save that a job has ended."""
    job.sub_state = COMPLETED
    job.completed = now_ms()
    job.exit_code = exit_code
    job.exit_type = job.release.launcher.exit_type(exit_code)
    job.diagnostics = diagnostics
    services.store.save_job(job)
    services.store.delete_secrets(job)
    message = f"the job ended with exit code {exit_code}"
    services.store.record_event(job, "JobEnded", message, warning=bool(exit_code))


def complete_stopped_job(job: Job, services: Services) -> None:
    """Save that a job has ended because a user stopped it."""
    launcher = job.release.launcher
    _complete_job(job, launcher.exit_stopped, launcher.stopped_text, services)


def conclude_attempt(run: AttemptRun, outcome: Outcome | None, services: Services) -> bool:
    """Save the end of an attempt, and of the job unless it is retried; return whether it is retried.

    Without an outcome the attempt was stopped or lost.
    """
    job = run.job
    _end_attempt(run, outcome, services)
    if outcome is None and job.execution_type == "STOP":
        complete_stopped_job(job, services)
        return False
    decision = _decide_retry(job, outcome)
    if outcome is not None and not decision.retry:
        _complete_job(job, outcome.exit_code, _failure_diagnostics(job, outcome, services), services)
        return False
    job.retries += 1
    job.counted_retries += decision.counted
    job.sub_state = WAITING
    services.store.save_job(job)
    return True


def _decide_retry(job: Job, outcome: Outcome | None) -> RetryDecision:
    """Decide about another attempt; one without an outcome is always retried, uncounted."""
    if outcome is None:
        return RetryDecision(retry=True)
    if job.execution_type == "STOP":
        return RetryDecision(retry=False)
    return job.release.launcher.decide_retry(job.spec["retryCount"], outcome.exit_code, job.counted_retries)


def _end_attempt(run: AttemptRun, outcome: Outcome | None, services: Services) -> None:
    """Save the end of an attempt and its tasks; without an outcome it was stopped or lost."""
    attempt, job = run.attempt, run.job
    launcher = job.release.launcher
    if outcome is not None:
        attempt.exit_code = outcome.exit_code
        all_ended = outcome.rule.startswith(ALL_ENDED)
        attempt.trigger_message = outcome.rule if all_ended else f"{outcome.rule} in the TaskRole"
        if outcome.trigger is not None:
            attempt.trigger_role, attempt.trigger_index = outcome.trigger.role, outcome.trigger.index
    elif job.execution_type == "STOP":
        attempt.exit_code = launcher.exit_stopped
    else:
        attempt.exit_code = launcher.exit_lost
    lost, over = launcher.exit_lost, launcher.exit_attempt_over
    if over is not None:
        run.end_tasks(lost if lost is not None and attempt.exit_code == lost else over)
    for task in run.tasks:
        message = f"task {task.name} ended with exit code {task.exit_code}"
        services.store.record_event(
            job, "TaskEnded", message, warning=bool(task.exit_code), container_id=task.container_id
        )
    services.store.end_attempt(attempt)


def _failure_diagnostics(job: Job, outcome: Outcome, services: Services) -> str | None:
    """Return why a job failed: the rule in the words of 0.7's launcher, the task, and the end of its log.

    Secrets are redacted. None for a success.
    """
    if not outcome.exit_code or outcome.trigger is None:
        return None
    task = outcome.trigger
    redact = redactor(services.store.secrets(job))
    log = redact(services.folders.of_task(task.folder).last_lines())
    text = f"[{task.role}]: {outcome.rule}.\ntask {task.name} ended with exit code {outcome.exit_code}"
    return f"{text}; the last lines of its log:\n{log}" if log else f"{text}; its log is empty"
