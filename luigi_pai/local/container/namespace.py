"""Runs a command in its own mount namespace, where folders are mounted at absolute paths (Linux only).

This file is also a program, ``namespace.py PATH FOLDER ... -- COMMAND ...``, which keeps its process id when
it becomes COMMAND. The namespace's root is a new tmpfs that shows everything in the old root. Mount paths
such as /mnt/nfs1 or /a/b therefore need not exist, and the machine itself is not changed. If the process may
not mount, it also gets a user namespace, in which it remains the same user.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

_NEW_MOUNTS, _NEW_USER = 0x20000, 0x10000000  # CLONE_NEWNS, CLONE_NEWUSER
_BIND = 0x1000 | 0x4000  # MS_BIND | MS_REC
_UNBINDABLE = 0x20000  # MS_UNBINDABLE
_PRIVATE = 0x40000 | 0x4000  # MS_PRIVATE | MS_REC
_DETACH = 2  # MNT_DETACH


def inside(mounts: Mapping[str, Path], command: Sequence[str]) -> list[str]:
    """Wrap ``command`` so that it runs with ``mounts`` (absolute path -> folder) mounted."""
    pairs = [str(word) for pair in mounts.items() for word in pair]
    return [sys.executable, "-I", "-S", __file__, *pairs, "--", *command]


def _call(function: str, *arguments: str | int | None) -> None:
    """Call a function of the C library; raise OSError if it fails."""
    given = [
        ctypes.c_ulong(each) if isinstance(each, int) else each and os.fsencode(each) for each in arguments
    ]
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*given):
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def _mount(source: str, target: str, flags: int, kind: str | None = None) -> None:
    _call("mount", source, target, kind, flags, None)


def _unshare() -> None:
    """Enter a new mount namespace, and also a new user namespace if that is required."""
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", _NEW_MOUNTS)
    except PermissionError:
        _call("unshare", _NEW_MOUNTS | _NEW_USER)
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, contents in maps.items():
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(contents)


def _open(old: str, new: str) -> None:
    """Mount a tmpfs at ``new`` so that mount points can be made there, and show ``old``'s entries in it."""
    _mount("tmpfs", new, 0, "tmpfs")
    _mount("none", new, _UNBINDABLE)  # so that the entries of "/" do not contain the new root
    for entry in os.scandir(old):
        target = f"{new}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
            continue
        if entry.is_dir():
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT))
        try:
            _mount(entry.path, target, _BIND)
        except FileNotFoundError:  # it has since been removed
            continue


def _make_mount_points(root: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield each path once it is a folder in the new root; the caller mounts there before continuing."""
    done: list[str] = []
    own = {os.stat(root).st_dev}
    for path in sorted(paths):  # parents first: a mount point may be inside another mount
        at = path
        while not os.path.isdir(root + at):
            at = os.path.dirname(at)
        in_mount = any(f"{at}/".startswith(f"{other}/") for other in done)
        if at != path and not in_mount and os.stat(root + at).st_dev not in own:
            _open(at, root + at)  # a folder on this machine, which must not be changed
            own.add(os.stat(root + at).st_dev)
        os.makedirs(root + path, exist_ok=True)
        yield path
        done.append(path)


def _enter(mounts: Mapping[str, str]) -> None:
    """Enter a new namespace with the mounts, keeping the (empty) working folder. Raises OSError."""
    work = os.getcwd()
    folders = {os.path.realpath(path): folder for path, folder in mounts.items()}
    _unshare()
    _mount("none", "/", _PRIVATE)
    _open("/", work)
    for path in _make_mount_points(work, folders):
        _mount(folders[path], work + path, _BIND)
    os.chdir(work)
    _call("pivot_root", ".", ".")  # this stacks the old root on top of the new root
    _call("umount2", ".", _DETACH)
    os.chdir(work)


if __name__ == "__main__":
    end = sys.argv.index("--")
    _enter(dict(zip(sys.argv[1:end:2], sys.argv[2:end:2], strict=True)))
    os.execv(sys.argv[end + 1], sys.argv[end + 1 :])  # noqa: S606 - running users' commands
