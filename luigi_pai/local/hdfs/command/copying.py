"""The commands of ``hdfs dfs`` that copy and move.

The way of all of them is FsShell's: several sources need a folder that exists;
one source goes into a folder that exists, or becomes the destination; folders
are merged; a file that exists is kept, and reported, without ``-f``.
"""

from __future__ import annotations

import io
import posixpath
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.local.hdfs.command.file_systems import CHUNK, Fault, RemoteFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.local.hdfs.command.paths import Item, Shell

__all__ = ["append_to_file", "cp", "get", "getmerge", "move_from_local", "mv", "put"]


def put(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Copy from the local disk, or from the input (``-``), to HDFS."""
    sources, goal = _split(arguments)
    destination = shell.item(goal).looked_up()
    if sources == ["-"]:
        target = destination.child("-").looked_up() if destination.is_folder else destination
        _write(target, sys.stdin.buffer, replace="f" in options)
        return
    items = [shell.local_item(text) for text in sources]
    _copy(shell, items, destination, replace="f" in options)


def get(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Copy from HDFS to the local disk."""
    sources, goal = _split(arguments)
    _copy(shell, shell.expand_all(sources), shell.local_item(goal), replace="f" in options)


def cp(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Copy within HDFS, through this machine."""
    sources, goal = _split(arguments)
    _copy(shell, shell.expand_all(sources), shell.item(goal).looked_up(), replace="f" in options)


def move_from_local(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    """Copy from the local disk to HDFS, then delete what was copied."""
    sources, goal = _split(arguments)

    def copied(item: Item) -> None:
        if item.is_folder:
            shutil.rmtree(item.path)
        else:
            Path(item.path).unlink()

    items = [shell.local_item(text) for text in sources]
    _copy(shell, items, shell.item(goal).looked_up(), replace=False, done=copied)


def mv(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    """Move within HDFS."""
    sources, goal = _split(arguments)
    destination = shell.item(goal).looked_up()
    items = shell.expand_all(sources)
    _check_destination(items, destination, replace=False)

    def move(item: Item) -> None:
        item.required()
        target = destination.child(_name(item)).looked_up() if destination.is_folder else destination
        if not isinstance(item.fs, RemoteFileSystem) or item.fs is not target.fs:
            raise Fault.at(str(item), "Does not match target filesystem")
        _check_not_inside(item, target)
        if target.status and not target.is_folder:
            raise Fault.at(str(target), "File exists")
        if not item.fs.rename(item.path, target.path):
            raise Fault.at(str(item), "Input/output error")

    shell.each(items, move)


def getmerge(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Write files, and the files in folders, one after the other into one local file."""
    *sources, goal = arguments
    items = shell.expand_all(sources)
    with Path(goal).open("wb") if all(item.status for item in items) else io.BytesIO() as merged:

        def add(item: Item) -> None:
            files = [child for child in item.children() if not child.is_folder] if item.is_folder else [item]
            for file in files:
                file.required()
                with file.fs.read(file.path) as stream:
                    shutil.copyfileobj(stream, merged, CHUNK)
                merged.write(b"\n" if "nl" in options else b"")

        shell.each(items, add)


def append_to_file(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    """Add local files, or the input (``-``), to a file on HDFS; it is made where it is missing."""
    *sources, goal = arguments
    target = shell.item(goal).looked_up()
    if target.is_folder:
        raise Fault.at(str(target), "Is a directory")
    if not isinstance(target.fs, RemoteFileSystem):
        raise Fault.at(str(target), "Is not on HDFS")
    for source in sources:
        if source != "-" and not Path(source).is_file():
            raise Fault(f"{Path(source).absolute()} (No such file or directory)")
    if not target.status:
        target.fs.write(target.path, io.BytesIO())
    for source in sources:
        with sys.stdin.buffer if source == "-" else Path(source).open("rb") as stream:
            target.fs.append(target.path, stream)


def _split(arguments: list[str]) -> tuple[list[str], str]:
    """Return the sources and the destination; one word alone goes to the current folder."""
    return (arguments, ".") if len(arguments) == 1 else (arguments[:-1], arguments[-1])


def _name(item: Item) -> str:
    return posixpath.basename(item.path)


def _check_destination(items: Sequence[Item], destination: Item, *, replace: bool) -> None:
    if len(items) > 1:
        if not destination.required().is_folder:
            raise Fault.at(str(destination), "Is not a directory")
    elif destination.status:
        if not destination.is_folder and not replace:
            raise Fault.at(str(destination), "File exists")
    elif not destination.parent_exists():
        raise Fault.at(str(destination), "No such file or directory")


def _check_not_inside(item: Item, target: Item) -> None:
    if item.fs is target.fs and f"{target.path}/".startswith(f"{item.path.rstrip('/')}/"):
        if item.is_folder:
            raise Fault(f"`{item}' to `{target}': is a subdirectory of itself")
        raise Fault(f"`{item}' to `{target}': are the same file") if item.path == target.path else Fault("")


def _copy(
    shell: Shell,
    items: Sequence[Item],
    destination: Item,
    *,
    replace: bool,
    done: Callable[[Item], None] | None = None,
) -> None:
    """Copy files and folders; ``done`` is called with each item of which everything was copied."""
    _check_destination(items, destination, replace=replace)

    def copy(item: Item) -> None:
        item.required()
        target = destination.child(_name(item)).looked_up() if destination.is_folder else destination
        failed, shell.failed = shell.failed, False
        one(item, target)
        if done and not shell.failed:
            done(item)
        shell.failed = shell.failed or failed

    def one(item: Item, target: Item) -> None:
        _check_not_inside(item, target)
        if not item.is_folder:
            with item.fs.read(item.path) as stream:
                _write(target, stream, replace=replace)
            return
        if target.status and not target.is_folder:
            raise Fault.at(str(target), "Is not a directory")
        target.fs.mkdir(target.path)
        shell.each(list(item.children()), lambda child: one(child, target.child(_name(child)).looked_up()))

    shell.each(items, copy)


def _write(target: Item, stream: Any, *, replace: bool) -> None:
    if target.is_folder:
        raise Fault.at(str(target), "Is a directory")
    if target.status and not replace:
        raise Fault.at(str(target), "File exists")
    if not target.status and not target.parent_exists():
        raise Fault.at(str(target), "No such file or directory")
    target.fs.write(target.path, stream)
