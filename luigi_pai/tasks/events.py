"""Events of a task's job. They are handled like Luigi's own events."""

from __future__ import annotations

from typing import Any

__all__ = ["PaiEvent", "trigger"]


class PaiEvent:
    """Names of the events of a task's job, for ``Task.event_handler``.

    A handler is called in the process that watches the job, which waits until the handler returns. If a
    handler raises an error, the error is logged and does not affect the job or the task. ::

        @PaiTask.event_handler(PaiEvent.FAILED)
        def tell(task, status, error): ...

    Attributes:
        SUBMITTED: the job was submitted. Arguments: the task, the ``JobStatus``.
        TAKEN_OVER: the run found an earlier run's waiting or running job. Arguments: task, status.
        WAITING: the reason why the job is waiting is known or has changed. Arguments: task, status, reason.
        RUNNING: the job has started, or has restarted after a retry by the cluster. Arguments: task, status.
        SUCCEEDED: the job has succeeded. Arguments: task, status.
        FAILED: the job has failed, was stopped, or is no longer on the server. Arguments: task, last
            status, the ``PaiJobError``. With ``max_attempts``, each failed attempt triggers this event.
    """

    SUBMITTED = "event.pai.submitted"
    TAKEN_OVER = "event.pai.taken_over"
    WAITING = "event.pai.waiting"
    RUNNING = "event.pai.running"
    SUCCEEDED = "event.pai.succeeded"
    FAILED = "event.pai.failed"


def trigger(task: Any, event: str, *arguments: object) -> None:
    """Call an event's handlers with a task and other arguments. Luigi logs the handlers' errors."""
    task.trigger_event(event, task, *arguments)
