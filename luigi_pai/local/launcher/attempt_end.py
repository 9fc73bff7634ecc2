"""The end of an attempt, written down: how it ended, how its tasks ended, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.container.exit_specs import EXIT_JOB_ENDED, EXIT_LOST
from luigi_pai.local.container.redaction import hider
from luigi_pai.local.launcher.completion import ALL_ENDED, stopped_code

if TYPE_CHECKING:
    from luigi_pai.local.container.task_files import JobFolders
    from luigi_pai.local.launcher.attempt import AttemptRun
    from luigi_pai.local.launcher.completion import Outcome
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Job
    from luigi_pai.local.views.job_events import JobNotes

__all__ = ["end_attempt", "last_words"]


def end_attempt(run: AttemptRun, outcome: Outcome | None, store: Store, notes: JobNotes) -> None:
    """Write down how an attempt, and on v2 each of its tasks, ended.

    Args:
        run: the attempt.
        outcome: how it ended by itself; None if it was stopped or lost.
        store: where to write.
        notes: where events go.
    """
    attempt, job = run.attempt, run.job
    run.write_tasks()
    if outcome is not None:
        attempt.exit_code = outcome.exit_code
        all_ended = outcome.rule.startswith(ALL_ENDED)
        attempt.trigger_message = outcome.rule if all_ended else f"{outcome.rule} in the TaskRole"
        if outcome.trigger is not None:
            attempt.trigger_role, attempt.trigger_index = outcome.trigger.role, outcome.trigger.index
    elif job.execution_type == "STOP":
        attempt.exit_code = stopped_code(job.generation)
    elif job.generation > 1:
        attempt.exit_code = EXIT_LOST
    if job.generation > 1:
        run.end_tasks(EXIT_LOST if attempt.exit_code == EXIT_LOST else EXIT_JOB_ENDED)
        for task in run.tasks:
            said = f"task {task.name} ended with exit code {task.exit_code}"
            notes.happened(
                job, "TaskEnded", said, warning=bool(task.exit_code), container_id=task.container_id
            )
    store.end_attempt(attempt)


def last_words(job: Job, outcome: Outcome, store: Store, folders: JobFolders) -> str | None:
    """Return why an attempt failed: by which rule, as 0.7's launcher says it, which task, the end of its log.

    The log is without secrets.
    """
    if not outcome.exit_code or outcome.trigger is None:
        return None
    task = outcome.trigger
    last = hider(store.secrets(job))(folders.of_task(task.folder).last_lines())
    text = f"[{task.role}]: {outcome.rule}.\ntask {task.name} ended with exit code {outcome.exit_code}"
    return f"{text}; the last lines of its log:\n{last}" if last else f"{text}; its log is empty"
