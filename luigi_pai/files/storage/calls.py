"""Calls of the operating system that may hang, as they do while the server of a mount is away."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_MOST = 256
"""Maximum number of calls at once. Those that hang are among them, and no more threads are started then."""


class _Room:
    """The number of further calls that this process may make at once."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)  # the calls of the parent are not made here

    def renew(self) -> None:
        self.left = threading.Semaphore(_MOST)


_room = _Room()


def within(timeout: float, work: Callable[[], T]) -> T:
    """Return the result of a function, or raise its error.

    Nothing can interrupt a call to a mount whose server is away, not even Ctrl-C. So the function runs in a
    thread of its own.

    Args:
        timeout: seconds to wait.
        work: the function. It may go on, and change files, after a TimeoutError.

    Raises:
        TimeoutError: the function takes longer than ``timeout``, or too many other calls do.
    """
    room = _room.left
    if not room.acquire(timeout=timeout):
        raise TimeoutError(errno.ETIMEDOUT, f"no answer to {_MOST} earlier calls")
    answer: Future[T] = Future()

    def call() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  raised by ``result``
            room.release()
            answer.set_exception(error)
        else:
            room.release()
            answer.set_result(result)

    try:
        # a daemon, so that it does not keep a process alive that ends meanwhile
        threading.Thread(target=call, name="storage", daemon=True).start()
    except BaseException:
        room.release()
        raise
    if not wait((answer,), timeout).done:
        raise TimeoutError(errno.ETIMEDOUT, f"no answer within {timeout:g} s (read_timeout)")
    return answer.result()
