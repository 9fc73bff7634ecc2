"""The commands of ``hdfs dfs``, and what each of them takes.

Those that copy do as FsShell: several sources need a folder that exists; one source goes into a folder
that exists, or becomes the destination; folders are merged; a file is replaced with ``-f`` only.
"""

from __future__ import annotations

import bz2
import gzip
import io
import re
import shutil
import stat as file_mode
import sys
import zlib
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.local.hdfs.command.client import CHUNK, Fault
from luigi_pai.local.hdfs.command.paths import Item, Shell, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["COMMANDS", "Command"]

_KIB = 1024


@dataclass(frozen=True)
class Command:
    """One command: what runs it, the options that it takes, and how many arguments at least.

    It is called with the shell, the options without dashes, and the arguments.
    """

    run: Callable[[Shell, frozenset[str], list[str]], None]
    options: str = ""
    least: int = 1

    def parsed(self, words: Sequence[str]) -> tuple[frozenset[str], list[str]]:
        """Take options, which come first, apart from arguments."""
        options, arguments = set(), list(words)
        while arguments and arguments[0].startswith("-") and arguments[0] != "-":
            option = arguments.pop(0)
            if option[1:] not in self.options.split():
                known = "".join(f" -{name}" for name in self.options.split())
                raise Usage(f"Illegal option {option}; it takes{known or ' none'}")
            options.add(option[1:])
        if len(arguments) < self.least:
            raise Usage(f"Not enough arguments: expected {self.least} but got {len(arguments)}")
        return frozenset(options), arguments


# copies


def _put(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    sources, destination = _split(arguments)
    goal = shell.item(destination).looked_up()
    if sources == ["-"]:
        target = goal.child("-").looked_up() if goal.is_folder else goal
        _write(target, sys.stdin.buffer, replace="f" in options)
    else:
        _copy(shell, [shell.local_item(text) for text in sources], goal, replace="f" in options)


def _get(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    sources, destination = _split(arguments)
    _copy(shell, shell.expand_all(sources), shell.local_item(destination), replace="f" in options)


def _cp(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    goal = shell.item(arguments[-1]).looked_up()
    _copy(shell, shell.expand_all(arguments[:-1]), goal, replace="f" in options)


def _mv(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    goal = shell.item(arguments[-1]).looked_up()
    items = shell.expand_all(arguments[:-1])
    _check_goal(items, goal, replace=False)

    def move(item: Item) -> None:
        item.required()
        target = goal.target(item)
        _check_not_inside(item, target)
        if target.status and not target.is_folder:
            raise target.fault("File exists")
        if not shell.hdfs.rename(item.path, target.path):
            raise item.fault("Input/output error")

    shell.each(items, move)


def _append_to_file(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    *sources, destination = arguments
    target = shell.item(destination).looked_up()
    if target.is_folder:
        raise target.fault("Is a directory")
    for source in sources:
        if source != "-" and not Path(source).is_file():
            raise Fault(f"{Path(source).absolute()} (No such file or directory)")
    if not target.status:
        shell.hdfs.write(target.path, io.BytesIO())
    for source in sources:
        with sys.stdin.buffer if source == "-" else Path(source).open("rb") as stream:
            shell.hdfs.append(target.path, stream)


def _split(arguments: list[str]) -> tuple[list[str], str]:
    """Return the sources and the destination; one word alone goes to the current folder."""
    return (arguments, ".") if len(arguments) == 1 else (arguments[:-1], arguments[-1])


def _check_goal(items: Sequence[Item], goal: Item, *, replace: bool) -> None:
    if len(items) > 1:
        goal.required()
        if not goal.is_folder:
            raise goal.fault("Is not a directory")
    elif goal.status and not goal.is_folder and not replace:
        raise goal.fault("File exists")
    else:
        goal.check_parent()


def _check_not_inside(item: Item, target: Item) -> None:
    if item.fs is target.fs and f"{target.path}/".startswith(f"{item.path.rstrip('/')}/"):
        what = "is a subdirectory of itself" if item.is_folder else "are the same file"
        raise Fault(f"`{item.shown}' to `{target.shown}': {what}")


def _copy(shell: Shell, items: Sequence[Item], goal: Item, *, replace: bool) -> None:
    _check_goal(items, goal, replace=replace)

    def copy(item: Item, target: Item) -> None:
        item.required()
        _check_not_inside(item, target)
        if not item.is_folder:
            with item.fs.read(item.path) as stream:
                _write(target, stream, replace=replace)
            return
        if target.status and not target.is_folder:
            raise target.fault("Is not a directory")
        target.fs.mkdir(target.path)
        folder = target.looked_up()
        shell.each(item.children(), lambda child: copy(child, folder.target(child)))

    shell.each(items, lambda item: copy(item, goal.target(item)))


def _write(target: Item, stream: Any, *, replace: bool) -> None:
    if target.is_folder:
        raise target.fault("Is a directory")
    if target.status and not replace:
        raise target.fault("File exists")
    target.check_parent()
    target.fs.write(target.path, stream)


# changes


def _mkdir(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    def make(item: Item) -> None:
        if item.status and not (item.is_folder and "p" in options):
            raise item.fault("File exists" if item.is_folder else "Is not a directory")
        if "p" not in options:
            item.check_parent()
        shell.hdfs.mkdir(item.path)

    shell.each(shell.expand_all(arguments), make)


def _touchz(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    def touch(item: Item) -> None:
        if item.is_folder or (item.status and item.status.length):
            raise item.fault("Is a directory" if item.is_folder else "Not a zero-length file")
        _write(item, io.BytesIO(), replace=True)

    shell.each(shell.expand_all(arguments), touch)


def _rm(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    def delete(item: Item) -> None:  # for good: there is no trash
        if item.status is None and "f" in options:
            return
        if item.required().is_folder and not options & {"r", "R"}:
            raise item.fault("Is a directory")
        if not shell.hdfs.delete(item.path, recursive=item.is_folder):
            raise item.fault("Input/output error")
        shell.print(f"Deleted {item.shown}")

    shell.each(shell.expand_all(arguments), delete)


# contents


def _cat(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    _show(shell, arguments, lambda stream: stream)


def _text(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    _show(shell, arguments, _unpacked)


def _show(shell: Shell, arguments: list[str], reader: Callable[[Any], Any]) -> None:
    def show(item: Item) -> None:
        if item.required().is_folder:
            raise item.fault("Is a directory")
        with item.fs.read(item.path) as stream:
            try:
                shutil.copyfileobj(reader(stream), sys.stdout.buffer, CHUNK)
            except (zlib.error, gzip.BadGzipFile, EOFError) as error:
                raise Fault(f"cannot unpack: {error}") from error
        sys.stdout.flush()

    shell.each(shell.expand_all(arguments), show)


def _unpacked(stream: Any) -> Any:
    """Return a stream that reads what is in another one, unpacked if that is gzip or bzip2."""
    begin = stream.peek(3)
    if begin.startswith(b"BZh"):
        return bz2.BZ2File(stream)
    return gzip.GzipFile(fileobj=stream) if begin.startswith(b"\x1f\x8b") else stream


# facts


def _ls(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    def write(item: Item) -> None:
        status = item.required()
        facts = status.facts
        mode = int(facts["permission"], 8) | (file_mode.S_IFDIR if item.is_folder else file_mode.S_IFREG)
        when = datetime.fromtimestamp(facts["modificationTime"] / 1000, timezone.utc).astimezone()
        shell.print(
            f"{file_mode.filemode(mode)} {'-' if item.is_folder else facts['replication']:>3} "
            f"{facts['owner']:<8} {facts['group']:<10} {_size(status.length, human='h' in options):>10} "
            f"{when:%Y-%m-%d %H:%M} {item.shown}"
        )

    def show(item: Item) -> None:
        item.required()
        if not item.is_folder or "d" in options:
            write(item)
            return
        inside = item.children()
        if inside and "R" not in options:
            shell.print(f"Found {len(inside)} items")
        for child in inside:
            write(child)
            if "R" in options and child.is_folder:
                shell.each([child], show)

    shell.each(shell.expand_all(arguments or ["."]), show)


def _size(number: int, *, human: bool) -> str:
    """Return a number of bytes as it is, or as ``2.1 K``."""
    if not human or number < _KIB:
        return str(number)
    step = (number.bit_length() - 1) // 10
    digits = 1 if number % _KIB**step else 0
    return f"{number / _KIB**step:.{digits}f} {'KMGTPE'[step - 1]}"


def _du(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    def show(item: Item) -> None:
        for each in item.children() if item.required().is_folder and "s" not in options else [item]:
            size = _size(shell.hdfs.summary(each.path)["length"], human="h" in options)
            shell.print(f"{size:<7}  {each.shown}")

    shell.each(shell.expand_all(arguments or ["."]), show)


def _count(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    def show(item: Item) -> None:
        item.required()
        summary = shell.hdfs.summary(item.path)
        folders, files, length = (
            _size(summary[name], human="h" in options) for name in ("directoryCount", "fileCount", "length")
        )
        shell.print(f"{folders:>12} {files:>12} {length:>18} {item.shown}")

    shell.each(shell.expand_all(arguments), show)


def _stat(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    form = arguments.pop(0) if "%" in arguments[0] else "%y"

    def show(item: Item) -> None:
        status = item.required()
        facts = status.facts
        when = datetime.fromtimestamp(facts["modificationTime"] / 1000, timezone.utc)
        values = {
            "b": status.length,
            "F": "directory" if status.is_folder else "regular file",
            "g": facts["group"],
            "n": status.name,
            "o": facts["blockSize"],
            "r": facts["replication"],
            "u": facts["owner"],
            "y": f"{when:%Y-%m-%d %H:%M:%S}",
            "Y": facts["modificationTime"],
        }
        shell.print(re.sub(r"%(.)", lambda match: str(values.get(match[1], match[1])), form))

    shell.each(shell.expand_all(arguments), show)


def _test(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    if len(options) != 1:
        raise Usage("Only one test flag is allowed" if options else "No test flag given")
    status = shell.expand(arguments[0])[0].status
    answers = status and {
        "e": True,
        "d": status.is_folder,
        "f": not status.is_folder,
        "s": status.length > 0,
        "z": status.length == 0,
    }
    shell.failed = not (answers and answers[min(options)])


COMMANDS = {
    "appendToFile": Command(_append_to_file, least=2),
    "cat": Command(_cat, "ignoreCrc"),
    "copyFromLocal": Command(_put, "f p l"),
    "copyToLocal": Command(_get, "f p ignoreCrc crc"),
    "count": Command(_count, "h"),
    "cp": Command(_cp, "f p", least=2),
    "du": Command(_du, "s h", least=0),
    "get": Command(_get, "f p ignoreCrc crc"),
    "ls": Command(_ls, "d h R", least=0),
    "mkdir": Command(_mkdir, "p"),
    "mv": Command(_mv, least=2),
    "put": Command(_put, "f p l"),
    "rm": Command(_rm, "f r R skipTrash"),
    "stat": Command(_stat),
    "test": Command(_test, "d e f s z"),
    "text": Command(_text, "ignoreCrc"),
    "touchz": Command(_touchz),
}
