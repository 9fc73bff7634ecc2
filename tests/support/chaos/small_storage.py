"""A storage whose operations go on one at a time, and which workers may see as it was a while ago.

The files are real. Each operation of a mount, and each change in it, is a stop of an ``Interleaving``.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from chaos.file_operations import intercept
from chaos.interleaving import GO, LOST, KilledError
from luigi_pai.files.storage import mount_point, posix, volume

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

    from chaos.interleaving import Interleaving, Worker

__all__ = ["SmallStorage"]

_OLDEST = 60.0  # seconds for which an NFS client may show what it has seen


class SmallStorage:
    """The folder of a storage, as the workers of a world see it.

    Args:
        world: of the workers. The storage is away while ``hdfs`` is in its ``away``.
        root: the folder.
    """

    def __init__(self, world: Interleaving, root: Path) -> None:
        self._world, self._root = world, root
        self._views: dict[Worker, tuple[float, set[str]]] = {}  # until when a view is old, and what is in it

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the package use the storage this way."""
        for module in (posix, volume, mount_point):
            monkeypatch.setattr(module, "os", os)
        monkeypatch.setattr(volume, "write_all", posix.write_all)
        monkeypatch.setattr(mount_point, "within", lambda _timeout, work: self._operation(work))
        monkeypatch.setattr(mount_point, "look_again", self._look_again)
        intercept(self._change, with_journal=False)
        for module in (posix, volume):
            seen = {"stat": self._stat, "scandir": self._scandir, "open": self._open(module.os.open)}
            monkeypatch.setattr(module, "os", SimpleNamespace(**{**vars(module.os), **seen}))

    def show_old(self, worker: Worker) -> None:
        """Let a worker see for a minute only what is there now, unless it opens a folder."""
        paths = {str(path) for path in self._root.rglob("*")}
        self._views[worker] = self._world.clock.now + _OLDEST, paths

    def _view(self) -> set[str] | None:
        """Return the paths that the current worker can see; None for all."""
        until, paths = self._views.get(self._world.current, (0.0, set()))  # type: ignore[arg-type]
        return paths if until > self._world.clock.now else None

    def _fate(self, what: str) -> str:
        worker = self._world.current
        fate = GO if worker is None else worker.stop_at(what)
        self._world.log.append(f"{worker.name if worker else 'test'}: {what}: {fate}")
        return "refused" if "hdfs" in self._world.away else fate

    def _operation(self, work: Callable[[], Any]) -> Any:
        if self._fate("storage operation") in LOST:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return work()

    def _change(self, change: Callable[..., Any], half: Callable[..., Any] | None) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            try:
                fate = self._fate(f"PUT {change.__name__} {arguments[0]!s:.200}")
            except KilledError:
                if half is not None:
                    half(*arguments, **options)
                raise
            if fate in ("refused", "lost before"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            result = change(*arguments, **options)
            if (view := self._view()) is not None:
                view |= {str(path) for path in arguments if isinstance(path, str)}
            if fate == "killed after":
                raise KilledError
            if fate == "lost after":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return result

        return call

    # old views

    def _check_seen(self, path: Any) -> None:
        view = self._view()
        is_in_it = isinstance(path, str) and path.startswith(f"{self._root}/")
        if view is not None and is_in_it and path not in view:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _stat(self, path: Any, **options: Any) -> os.stat_result:
        if not str(path).endswith("/."):
            self._check_seen(path)
        return os.stat(path, **options)  # noqa: PTH116  it may be a descriptor

    def _open(self, opened: Callable[..., int]) -> Callable[..., int]:
        def call(path: str, flags: int, *arguments: Any, **options: Any) -> int:
            if not flags & (os.O_CREAT | os.O_DIRECTORY):
                self._check_seen(path)
            return opened(path, flags, *arguments, **options)

        return call

    @contextmanager
    def _scandir(self, folder: str) -> Iterator[list[os.DirEntry[str]]]:
        self._check_seen(folder)
        view = self._view()
        with os.scandir(folder) as entries:
            yield [entry for entry in entries if view is None or entry.path in view]

    def _look_again(self, folder: str, root: str) -> None:
        """Open a folder: from now on, the worker sees what is in it."""
        posix.look_again(folder, root)
        if (view := self._view()) is not None:
            view.add(folder)
            view |= {entry.path for entry in os.scandir(folder)}
