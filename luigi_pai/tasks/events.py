"""The events of jobs, which handlers of a task are called with, as with those of Luigi."""

from __future__ import annotations

from typing import Any

__all__ = ["PaiEvent", "trigger"]


class PaiEvent:
    """Names of the events of a task's job, for ``Task.event_handler``.

    A handler is called in the process that watches the job, which waits for it. One that raises is
    logged, and changes nothing. ::

        @PaiTask.event_handler(PaiEvent.FAILED)
        def tell(task, status, error): ...

    Attributes:
        SUBMITTED: the job was submitted; called with the task and the ``JobStatus``.
        TAKEN_OVER: a waiting or running job of an earlier run was found; with task and status.
        WAITING: why the job waits is known, or has changed; with task, status and the reason, a text.
        RUNNING: the job runs, also when the cluster has started it again; with task and status.
        SUCCEEDED: it has succeeded; with task and status.
        FAILED: it has failed, was stopped, or is no longer on the server; with task, last status and
            the ``PaiJobError``. With ``max_attempts`` each failed attempt is an event.
    """

    SUBMITTED = "event.pai.submitted"
    TAKEN_OVER = "event.pai.taken_over"
    WAITING = "event.pai.waiting"
    RUNNING = "event.pai.running"
    SUCCEEDED = "event.pai.succeeded"
    FAILED = "event.pai.failed"


def trigger(task: Any, event: str, *arguments: object) -> None:
    """Call the handlers of an event with a task and further arguments; Luigi logs those that raise."""
    task.trigger_event(event, task, *arguments)
