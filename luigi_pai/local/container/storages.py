"""The storages that v2 jobs mount. Each folder, or link to a folder, in ``DATA/storages`` is a storage."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from luigi_pai.local.config.settings import FIRST_STORAGE
from luigi_pai.local.container.namespace import inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_TRIAL_SECONDS = 10.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Storages:
    """A data folder's storages.

    A new data folder has one storage, ``nfs1``. Users add others as folders, or as links to existing
    folders, with the same names as the cluster's storages.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._possible: dict[tuple[tuple[str, Path], ...], bool] = {}
        if not root.exists():
            (root / FIRST_STORAGE).mkdir(parents=True)

    def names(self) -> list[str]:
        """Return the names of all storages."""
        return sorted(
            entry.name for entry in self._root.iterdir() if entry.is_dir() and _NAME.fullmatch(entry.name)
        )

    def defaults(self) -> list[str]:
        """Return the names of the storages that a job gets if its list of storages is empty."""
        names = self.names()
        return [FIRST_STORAGE] if FIRST_STORAGE in names else names[:1]

    def folder(self, name: str) -> Path:
        """Return a storage's folder, with links resolved."""
        return (self._root / name).resolve()

    def empty(self) -> None:
        """Empty each storage that is a folder. Storages that are links keep their content."""
        for name in self.names():
            folder = self._root / name
            if not folder.is_symlink():
                shutil.rmtree(folder)
                folder.mkdir()

    def mounts(self, wanted: Iterable[Mapping[str, Any]]) -> dict[str, Path]:
        """Return mount path -> folder for ``extras.storages``; the paths are relative to the root.

        Raises:
            ValueError: a mount path is the root itself, or leads out of it.
        """
        mounts = {}
        for item in wanted:
            path = str(item.get("mountPath") or f"/mnt/{item['name']}").strip("/")
            if not path or ".." in path.split("/"):
                raise ValueError(f"the storage {item['name']} cannot be mounted at {item.get('mountPath')}")
            mounts[path] = self.folder(item["name"])
        return mounts

    def can_mount(self, mounts: Mapping[str, Path], work: Path) -> bool:
        """Return whether tasks can have mounts (absolute path -> folder). Tried once, in a working folder."""
        key = tuple(sorted(mounts.items()))
        if key not in self._possible:
            self._possible[key] = can_mount(mounts, work)
        return self._possible[key]


def can_mount(mounts: Mapping[str, Path], work: Path) -> bool:
    """Mount folders in a temporary namespace, and return whether Python and ``work`` are visible there."""
    trial = inside(mounts, [sys.executable, "-I", "-S", "-c", ""])
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(trial, cwd=work, capture_output=True, check=False, timeout=_TRIAL_SECONDS)  # noqa: S603 - our own program
        return done.returncode == 0
    return False


def mount_notes(mounts: Iterable[str]) -> list[str]:
    """Return one sentence per mount for the task's log; mounts are paths below the working folder."""
    return [
        f"the storage at /{path} is the folder {path} of the working folder, because a process cannot mount; "
        f"${{LUIGI_PAI_MOUNTS:-}}/{path} is the right path here and on a cluster"
        for path in mounts
    ]


def absolute_mounts(mounts: Iterable[str], scripts: Iterable[str]) -> list[str]:
    """Return the mounts that scripts use by absolute path, although this machine mounts nothing there."""
    commands = "\n".join(scripts)
    return [path for path in mounts if re.search(rf"(?<![\w}})/.-])/{re.escape(path)}(?![\w-])", commands)]
