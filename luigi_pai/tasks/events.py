"""Events and tags of a task's job. The events are handled like Luigi's own events."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import PaiApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.status import JobStatus

__all__ = ["PaiEvent", "add_tags", "trigger"]

logger = logging.getLogger("luigi-interface")


class PaiEvent:
    """Names of the events of a task's job, for ``Task.event_handler``.

    A handler is called in the process that watches the job; the process waits until the handler
    returns. An error that a handler raises is logged, and has no effect on the job or the task. ::

        @PaiTask.event_handler(PaiEvent.FAILED)
        def tell(task, status, error): ...

    Attributes:
        SUBMITTED: the job was submitted. Arguments: the task, the ``JobStatus``.
        TAKEN_OVER: a waiting or running job of an earlier run was found. Arguments: task, status.
        WAITING: the reason why the job waits was found, or has changed. Arguments: task, status, reason.
        RUNNING: the job runs, at first or again after a retry by the cluster. Arguments: task, status.
        SUCCEEDED: the job has succeeded. Arguments: task, status.
        FAILED: the job has failed, was stopped, or is no longer on the server. Arguments: task, last
            status, the ``PaiJobError``. With ``max_attempts`` each failed attempt triggers this event.
    """

    SUBMITTED = "event.pai.submitted"
    TAKEN_OVER = "event.pai.taken_over"
    WAITING = "event.pai.waiting"
    RUNNING = "event.pai.running"
    SUCCEEDED = "event.pai.succeeded"
    FAILED = "event.pai.failed"


def trigger(task: Any, event: str, *arguments: object) -> None:
    """Call the handlers of an event with a task and further arguments. Luigi logs the handlers' errors."""
    task.trigger_event(event, task, *arguments)


def add_tags(api: RestApi, status: JobStatus, tags: Sequence[str]) -> None:
    """Add each missing tag to a job by a request; nothing is sent if the server does not support tags.

    The first error is logged, and no further tag is added. The job runs without the missing tags.

    Args:
        api: of the cluster.
        status: of the job, with its present tags.
        tags: that the job should have.
    """
    if not status.takes_tags:
        return
    for tag in tags:
        if tag in status.tags:
            continue
        try:
            api.add_tag(status.name, tag)
        except PaiApiError as error:
            logger.warning("Job %s runs without the tag %s: %s", status.name, tag, error)
            return
