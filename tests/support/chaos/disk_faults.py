"""Files that fail: changes on a storage, in local claims or a journal, from a certain one on, for a while."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING, Any

from chaos.file_operations import intercept

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from random import Random

__all__ = ["ERRORS", "HANG", "fail_files", "outage"]

HANG = "HANG"
_HANGS = 2.5  # seconds; longer than read_timeout of the rounds
_NEED_ROOM = ("append", "fsync", "link", "mkdir", "open", "write_all")
ERRORS = ("ENOSPC", "EDQUOT", "EIO", "ESTALE", "EROFS", HANG)
"""The kinds of outages. A full disk takes half of a write. A hang may do the change."""


def outage(random: Random, error: str = "", longest: int = 60) -> dict[str, Any]:
    """Draw an outage.

    Args:
        random: The source of random numbers.
        error: The kind of the outage; drawn if empty.
        longest: The largest number of changes that fail.

    Returns:
        ``error``: its kind; ``first``, ``count``: the changes that fail, from 1; ``done``: whether they are
        made all the same, as when a response is lost.
    """
    error = error or random.choice(ERRORS)
    return {
        "error": error,
        "first": random.randint(1, 60),
        "count": random.choice((1, 1, 3, 10))
        if error == HANG
        else min(random.choice((1, 2, 5, 20, 60)), longest),
        "done": error in ("EIO", "ESTALE", HANG) and random.random() < 0.5,
    }


def fail_files(about: Mapping[str, Any], file: Path) -> None:
    """Let changes of files fail in this process and its forks.

    Args:
        about: of ``outage``; empty for none.
        file: that counts the changes of all forks.
    """
    if not about:
        return
    counts = os.open(file, os.O_CREAT | os.O_APPEND | os.O_RDWR)
    first, last = about["first"], about["first"] + about["count"]

    def failing(change: Callable[..., Any], half: Callable[..., Any] | None) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            os.write(counts, b".")
            is_full = about["error"] in ("ENOSPC", "EDQUOT")
            if is_full and change.__name__ not in _NEED_ROOM:
                return change(*arguments, **options)
            if not first <= os.fstat(counts).st_size < last:
                return change(*arguments, **options)
            if about["error"] == HANG:
                return _hanging(lambda: change(*arguments, **options), done=about["done"])
            if about["done"]:
                change(*arguments, **options)
            elif half is not None and is_full:
                half(*arguments, **options)
            number = getattr(errno, about["error"])
            raise OSError(number, os.strerror(number))

        return call

    intercept(failing)


def _hanging(change: Callable[[], Any], *, done: bool) -> Any:
    """Make a change before or after a hang, and return its result to whoever still waits."""
    if not done:
        time.sleep(_HANGS)
    result = change()
    if done:
        time.sleep(_HANGS)
    return result
