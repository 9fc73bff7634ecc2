"""The changes of files that a run makes: on a storage, and on this machine in claims and in the journal."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from luigi_pai.files.storage import posix, volume
from luigi_pai.sweep.journal import files as journal
from luigi_pai.work import local_claims

if TYPE_CHECKING:
    from collections.abc import Callable

    Act = Callable[..., Any]

__all__ = ["intercept"]

_CHANGES = ("chmod", "fchmod", "fsync", "link", "mkdir", "rename", "replace", "rmdir", "unlink")


def intercept(wrapped: Callable[[Act, Act | None], Act], *, with_journal: bool = True) -> None:
    """Replace each change of a file in this process, and in its forks.

    Args:
        wrapped: gets the function that makes a change, and for writes the one that writes only half of it.
            Returns the function to call instead.
        with_journal: also the changes of a journal that is a local file.
    """
    changes = {name: wrapped(getattr(os, name), None) for name in _CHANGES}
    changes["open"] = _open(wrapped(os.open, None))
    system = SimpleNamespace(**{**vars(os), **changes})
    write_all = wrapped(posix.write_all, lambda file, data: file.write(data[: len(data) // 2]))
    for module in (posix, volume, local_claims):
        module.os = system  # type: ignore[attr-defined]
    volume.write_all = write_all
    if with_journal:
        _intercept_journal(wrapped)


def _intercept_journal(wrapped: Callable[[Act, Act | None], Act]) -> None:
    append = wrapped(journal.LocalFile.append, _append_half)

    def guarded(journal_file: Any, data: bytes) -> Any:
        with journal_file._guard():
            return append(journal_file, data)

    journal.LocalFile.append = guarded  # type: ignore[method-assign]


def _append_half(journal_file: Any, data: bytes) -> None:
    with journal_file.locked():
        journal_file._held.write(data[: len(data) // 2])
        journal_file._held.flush()


def _open(wrapped: Act) -> Act:
    """Return ``os.open`` that calls ``wrapped`` for files that are made."""

    def call(path: str, flags: int, *arguments: Any, **options: Any) -> int:
        to_open = wrapped if flags & os.O_CREAT else os.open
        return int(to_open(path, flags, *arguments, **options))

    return call
