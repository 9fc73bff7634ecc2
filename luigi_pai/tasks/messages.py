"""Messages that Luigi's scheduler, and so its web page, sends to a running task."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from luigi_pai.tasks.luigi_page import page_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.api.clock import Clock


def answered_within(
    task: object, seconds: float, clock: Clock, answer: Callable[[str], str]
) -> Iterator[str]:
    """Wait, answer the messages of the scheduler to a running task that come meanwhile, and yield each.

    Args:
        task: the task.
        seconds: how long to wait.
        clock: of the cluster.
        answer: returns the response to a message.
    """
    messages = getattr(task, "scheduler_messages", None)
    if messages is None:
        clock.sleep(seconds)
        return
    end = clock.monotonic() + seconds
    while (left := end - clock.monotonic()) > 0:
        try:
            message = clock.get(messages, left)
        except queue.Empty:
            return
        text = str(message).strip()
        message.respond(page_text(answer(text)))
        yield text
