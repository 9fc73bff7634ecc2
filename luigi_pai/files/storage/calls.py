"""Calls of the operating system that may hang, as they do while the server of a mount is away."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_MOST = 256
"""Maximum number of calls at once. Those that hang are among them, and no more threads are started then."""


class _Call(threading.Thread, Generic[T]):
    """A thread that makes a call. As a daemon it does not keep a process alive that ends meanwhile."""

    def __init__(self, work: Callable[[], T], room: threading.Semaphore) -> None:
        super().__init__(name="storage", daemon=True)
        self._work = work
        self._room = room
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._result: T

    def run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001  raised by ``result``
            self._error = error
        finally:
            self._room.release()
            self._done.set()

    def result(self, timeout: float) -> T:
        if not self._done.wait(timeout):
            raise TimeoutError(errno.ETIMEDOUT, f"no answer within {timeout:g} s (read_timeout)")
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback leads back here
        return self._result


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
    call = _Call(work, room)
    try:
        call.start()
    except BaseException:
        room.release()
        raise
    return call.result(timeout)
