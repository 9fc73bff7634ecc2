"""SharedDocument: a JSON document in anonymous memory, shared between forked processes.

Luigi runs each task in a fork of its worker. If one task gets a token, or detects the dialect or the state of
a rate limit, the other tasks need this information too, so it cannot stay in one process's memory.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import struct
import tempfile
import threading
import time
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADER = struct.Struct("<QQQ")  # version, offset and length of the document
_FIRST = 64  # offset of the first document
_DEADLOCK_WAIT = 0.002  # seconds
# each lock, and the byte of the file that the kernel locks for it
_LOCKS = {"document": 0, "login": 1, "dialect": 2, "list": 3, "virtual clusters": 4}


class NotPickled:
    """A part of a Cluster that cannot be pickled or copied, so Clusters and Jobs cannot be either."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Cluster and its parts cannot be pickled: it contains the password or token; "
            "make one in each process: OpenPai.current().cluster()"
        )


class SharedDocument(NotPickled):
    """A JSON object that a process and its forks share. All their threads may use it at the same time.

    Until the process first forks, the object is in the process's memory. After that, it is in an unnamed file
    (in memory on Linux) that only these processes have open, so a token in it is as private as in a variable.
    If a process is killed, the kernel releases its locks. An interrupted write does not change the document.
    """

    def __init__(self) -> None:
        self._fd: int | None = None  # of the file; None until the first fork
        self._threads: dict[tuple[int, str], threading.Lock] = {}  # by process id and key of _LOCKS
        self._version = 0
        self._document: dict[str, Any] = {}
        _DOCUMENTS.add(self)

    def read(self) -> dict[str, Any]:
        """Return the current document. Do not change it; use ``update``."""
        if self._fd is not None and self._header(self._fd)[0] != self._version:
            with self.locked("document"):
                self._load(self._fd)
        return self._document

    @contextmanager
    def update(self) -> Iterator[dict[str, Any]]:
        """Yield a copy of the document to change; the copy is stored if ``with`` ends without an error."""
        with self.locked("document"):
            if self._fd is not None:
                self._load(self._fd)
            changed = dict(self._document)
            yield changed
            if self._fd is not None:
                self._store(self._fd, changed)
            self._document = changed

    def discard(self, key: str) -> None:
        """Remove a key if it exists."""
        if key in self.read():
            with self.update() as state:
                state.pop(key, None)

    def clear(self) -> None:
        """Empty the document, for all processes."""
        with self.update() as state:
            state.clear()

    def share(self) -> None:
        """Write the document to a file that forks inherit. This is called before each fork.

        Locks that this process's threads hold at that moment also become locks on the file.
        """
        with self.locked("document"):
            if self._fd is None:
                file = _anonymous_file()
                weakref.finalize(self, os.close, file)
                os.pwrite(file, _HEADER.pack(0, _FIRST, 0), 0)
                self._store(file, self._document)
                for (process, name), lock in list(self._threads.items()):
                    if process == os.getpid() and lock.locked():
                        _lock_file(file, _LOCKS[name])
                self._fd = file

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a lock until the end of ``with``; other threads and processes that need the lock wait.

        Args:
            name: A key of ``_LOCKS``. While another lock is held, ``document`` may also be locked.
                While ``document`` is locked, no other lock may be taken.
        """
        # Each process has its own thread locks, because a fork cannot release its copy of a held lock.
        with self._threads.setdefault((os.getpid(), name), threading.Lock()):
            if self._fd is not None:
                _lock_file(self._fd, _LOCKS[name])
            try:
                yield
            finally:
                if self._fd is not None:  # perhaps only since the lock was taken, see ``share``
                    fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _LOCKS[name])

    def _header(self, file: int) -> tuple[int, int, int]:
        version, offset, length = _HEADER.unpack(os.pread(file, _HEADER.size, 0))
        return version, offset, length

    def _load(self, file: int) -> None:
        version, offset, length = self._header(file)
        if version != self._version:
            self._document = json.loads(os.pread(file, length, offset))
            self._version = version

    def _store(self, file: int, document: dict[str, Any]) -> None:
        """Write a document next to the current one, then point the header to it."""
        data = json.dumps(document).encode()
        version, offset, length = self._header(file)
        place = _FIRST if _FIRST + len(data) <= offset else offset + length
        os.pwrite(file, data, place)
        os.pwrite(file, _HEADER.pack(version + 1, place, len(data)), 0)
        self._version = version + 1


_DOCUMENTS: weakref.WeakSet[SharedDocument] = weakref.WeakSet()  # of this process


def _share_all() -> None:
    for document in list(_DOCUMENTS):
        document.share()


os.register_at_fork(before=_share_all)


def _lock_file(file: int, byte: int) -> None:
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, byte)
        except OSError as error:
            # The kernel does not distinguish the threads of a process. If another process holds this lock
            # and waits for a lock held by a thread of this process, the kernel reports a false deadlock.
            if error.errno != errno.EDEADLK:
                raise
            time.sleep(_DEADLOCK_WAIT)
        else:
            return


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("luigi_pai")
    with tempfile.TemporaryFile() as file:  # its name is removed immediately
        return os.dup(file.fileno())
