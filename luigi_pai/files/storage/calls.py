"""Calls of the operating system that may hang, as they do while the server of a mount is away."""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class _Call(threading.Thread, Generic[T]):
    """A thread that makes a call. As a daemon it does not keep a process alive that ends meanwhile."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(name="storage", daemon=True)
        self._work = work
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._result: T

    def run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001  raised by ``result``
            self._error = error
        self._done.set()

    def result(self, timeout: float) -> T:
        if not self._done.wait(timeout):
            raise TimeoutError(errno.ETIMEDOUT, f"no answer within {timeout:g} s (read_timeout)")
        if self._error is not None:
            raise self._error
        return self._result


def within(timeout: float, work: Callable[[], T]) -> T:
    """Return the result of a function, or raise its error.

    Nothing can interrupt a call to a mount whose server is away, not even Ctrl-C. So the function runs in a
    thread of its own.

    Args:
        timeout: seconds to wait.
        work: the function. It may go on, and change files, after a TimeoutError.

    Raises:
        TimeoutError: the function takes longer than ``timeout``.
    """
    call = _Call(work)
    call.start()
    return call.result(timeout)
