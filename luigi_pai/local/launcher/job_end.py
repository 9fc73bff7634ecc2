"""The end of a job, and what follows the end of an attempt: a retry, or the end of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.launcher.attempt_end import end_attempt, failure_diagnostics
from luigi_pai.local.releases.launcher_rules import RetryDecision
from luigi_pai.local.store.database import now_ms
from luigi_pai.local.store.records import COMPLETED, WAITING

if TYPE_CHECKING:
    from luigi_pai.local.launcher.attempt import AttemptRun
    from luigi_pai.local.launcher.completion import Outcome
    from luigi_pai.local.launcher.services import Services
    from luigi_pai.local.store.records import Job

__all__ = ["complete_job", "complete_stopped_job", "conclude_attempt"]


def complete_job(job: Job, exit_code: int, diagnostics: str | None, services: Services) -> None:
    """Save that a job has ended."""
    job.sub_state = COMPLETED
    job.completed = now_ms()
    job.exit_code = exit_code
    job.exit_type = job.release.launcher.exit_type(exit_code)
    job.diagnostics = diagnostics
    services.store.save_job(job)
    services.store.delete_secrets(job)
    message = f"the job ended with exit code {exit_code}"
    services.events.record(job, "JobEnded", message, warning=bool(exit_code))


def complete_stopped_job(job: Job, services: Services) -> None:
    """Save that a job has ended because a user stopped it."""
    launcher = job.release.launcher
    complete_job(job, launcher.exit_stopped, launcher.stopped_text, services)


def conclude_attempt(run: AttemptRun, outcome: Outcome | None, services: Services) -> bool:
    """Save the end of an attempt, and what follows from it.

    Args:
        run: the attempt.
        outcome: how it ended by itself; None if it was stopped or lost.
        services: the services of the server.

    Returns:
        Whether the job has another attempt.
    """
    job = run.job
    end_attempt(run, outcome, services)
    if outcome is None and job.execution_type == "STOP":
        complete_stopped_job(job, services)
        return False
    decision = _decide_retry(job, outcome)
    if outcome is not None and not decision.retry:
        complete_job(job, outcome.exit_code, failure_diagnostics(job, outcome, services), services)
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
