"""The end of an attempt: what is saved of it and its tasks, and why it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.container.redaction import redactor
from luigi_pai.local.launcher.completion import ALL_ENDED

if TYPE_CHECKING:
    from luigi_pai.local.launcher.attempt import AttemptRun
    from luigi_pai.local.launcher.completion import Outcome
    from luigi_pai.local.launcher.services import Services
    from luigi_pai.local.store.records import Job

__all__ = ["end_attempt", "failure_diagnostics"]


def end_attempt(run: AttemptRun, outcome: Outcome | None, services: Services) -> None:
    """Save how an attempt and its tasks ended.

    Args:
        run: the attempt.
        outcome: how it ended by itself; None if it was stopped or lost.
        services: the services of the server.
    """
    attempt, job = run.attempt, run.job
    launcher = job.release.launcher
    run.save_tasks()
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
        services.events.record(
            job, "TaskEnded", message, warning=bool(task.exit_code), container_id=task.container_id
        )
    services.store.end_attempt(attempt)


def failure_diagnostics(job: Job, outcome: Outcome, services: Services) -> str | None:
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
