"""Messages that Luigi's scheduler, and so its web page, sends to a running task."""

from __future__ import annotations

import queue
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.api.polling import Polling
from luigi_pai.errors import PaiError
from luigi_pai.tasks.luigi_page import page_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.api.clock import Clock
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.watching import Watcher

_NOT_YET = "the job is not submitted yet; send the message again later"
_VALID = "send: stop; or poll_interval = SECONDS, such as poll_interval = 30"
_INTERVAL = re.compile(r"poll_interval\s*=\s*(\d+(?:\.\d+)?)", re.IGNORECASE)
_SHORTEST, _LONGEST = 0.1, 3600.0  # seconds


class Messages:
    """Waits for a task, and answers its messages meanwhile.

    ``stop`` stops the job, ``poll_interval = SECONDS`` sets how often it is looked up.

    Args:
        task: the task, on which a worker of Luigi sets the queue of its messages.
        api: of the cluster.
    """

    def __init__(self, task: Any, api: RestApi) -> None:
        self._task = task
        self._api = api
        self._watched: tuple[str, Watcher] | None = None

    def concern(self, job: str, watcher: Watcher) -> None:
        """Apply further messages to a watched job."""
        self._watched = job, watcher

    def end(self) -> None:
        """Apply further messages to no job."""
        self._watched = None

    def pause(self, seconds: float) -> None:
        """Wait, and answer messages meanwhile; one that changes the interval ends the wait."""
        before = self._polling()
        for _ in answered_within(self._task, seconds, self._api.clock, self._answer):
            if self._polling() != before:
                return

    def _polling(self) -> Polling | None:
        return None if self._watched is None else self._watched[1].polling

    def _answer(self, message: str) -> str:
        """Do what a message says and return the response."""
        interval = _INTERVAL.fullmatch(message)
        if message.lower() != "stop" and interval is None:
            return f"{message!r} is not a valid message; {_VALID}"
        if self._watched is None:
            return _NOT_YET
        name, watcher = self._watched
        if interval is not None:
            return _with_interval(name, watcher, float(interval[1]))
        try:
            self._api.stop_surely(name)
        except PaiError as error:
            return f"{name} could not be stopped: {error}"
        return f"{name} is being stopped"


def _with_interval(name: str, watcher: Watcher, seconds: float) -> str:
    if not _SHORTEST <= seconds <= _LONGEST:
        return f"poll_interval = {seconds:g} is not valid; use {_SHORTEST:g} to {_LONGEST:g} seconds"
    watcher.polling = Polling(seconds, seconds, watcher.polling.patience)
    return f"{name} is looked up every {seconds:g} s from now on"


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
