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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.local.hdfs.command.paths import Item, Place, Shell

__all__ = ["COMMANDS", "Command", "Usage"]

_KIB = 1024


class Usage(Exception):
    """A command that is written wrong."""


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
    sources, goal = _split(arguments)
    target = shell.item(goal)
    if sources == ["-"]:
        _write(target.child("-") if target.is_folder else target, sys.stdin.buffer, replace="f" in options)
    else:
        _copy(shell, [shell.local(text) for text in sources], target, options)


def _get(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    sources, goal = _split(arguments)
    _copy(shell, shell.expand(sources), shell.local(goal), options)


def _cp(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    _copy(shell, shell.expand(arguments[:-1]), shell.item(arguments[-1]), options)


def _mv(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    goal = shell.item(arguments[-1])
    items = shell.expand(arguments[:-1])
    _check_goal(items, goal, replace=False)

    def move(item: Item) -> None:
        target = _target(item, goal)
        if target.exists and not target.is_folder:
            raise target.fault("File exists")
        if not shell.hdfs.rename(item.path, target.path):
            raise item.fault("Input/output error")

    shell.each(items, move)


def _append_to_file(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    *sources, goal = arguments
    target = shell.item(goal)
    if target.is_folder:
        raise target.fault("Is a directory")
    for source in sources:
        if source != "-" and not Path(source).is_file():
            raise Fault(f"{Path(source).absolute()} (No such file or directory)")
    if not target.exists:
        target.write(io.BytesIO())
    for source in sources:
        with sys.stdin.buffer if source == "-" else Path(source).open("rb") as stream:
            shell.hdfs.append(target.path, stream)


def _split(arguments: list[str]) -> tuple[list[str], str]:
    """Return the sources and the destination; one word alone goes to the current folder."""
    return (arguments, ".") if len(arguments) == 1 else (arguments[:-1], arguments[-1])


def _check_goal(items: Sequence[Place], goal: Place, *, replace: bool) -> None:
    if len(items) > 1 and not goal.is_folder:
        raise goal.fault("Is not a directory" if goal.exists else "No such file or directory")
    if goal.exists and not goal.is_folder and not replace:
        raise goal.fault("File exists")
    _check_above(goal)


def _check_above(place: Place) -> None:
    if not place.exists and not place.above().is_folder:
        raise place.fault("No such file or directory")


def _target(item: Place, goal: Place) -> Place:
    """Return where an item goes, which has to be there, and not above that."""
    if not item.exists:
        raise item.fault("No such file or directory")
    target = goal.child(item.name) if goal.is_folder else goal
    if type(item) is type(target) and f"{target.path}/".startswith(f"{item.path.rstrip('/')}/"):
        what = "is a subdirectory of itself" if item.is_folder else "are the same file"
        raise Fault(f"`{item.shown}' to `{target.shown}': {what}")
    return target


def _copy(shell: Shell, items: Sequence[Place], goal: Place, options: frozenset[str]) -> None:
    replace = "f" in options
    _check_goal(items, goal, replace=replace)

    def copy(item: Place, target: Place) -> None:
        if not item.is_folder:
            with item.read() as stream:
                _write(target, stream, replace=replace)
            return
        if target.exists and not target.is_folder:
            raise target.fault("Is not a directory")
        target.mkdir()
        shell.each(item.children(), lambda child: copy(child, target.child(child.name)))

    shell.each(items, lambda item: copy(item, _target(item, goal)))


def _write(target: Place, stream: Any, *, replace: bool) -> None:
    if target.is_folder:
        raise target.fault("Is a directory")
    if target.exists and not replace:
        raise target.fault("File exists")
    _check_above(target)
    target.write(stream)


# changes


def _mkdir(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    def make(item: Item) -> None:
        if item.exists and not (item.is_folder and "p" in options):
            raise item.fault("File exists" if item.is_folder else "Is not a directory")
        if "p" not in options:
            _check_above(item)
        item.mkdir()

    shell.each(shell.expand(arguments), make)


def _touchz(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    def touch(item: Item) -> None:
        if item.exists and not item.is_folder and item.facts["length"]:
            raise item.fault("Not a zero-length file")
        _write(item, io.BytesIO(), replace=True)

    shell.each(shell.expand(arguments), touch)


def _rm(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    def delete(item: Item) -> None:  # for good: there is no trash
        if not item.exists and "f" in options:
            return
        if item.facts["type"] == "DIRECTORY" and not options & {"r", "R"}:
            raise item.fault("Is a directory")
        if not shell.hdfs.delete(item.path, recursive=item.is_folder):
            raise item.fault("Input/output error")
        shell.print(f"Deleted {item.shown}")

    shell.each(shell.expand(arguments), delete)


# contents


def _cat(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    _show(shell, arguments, lambda stream: stream)


def _text(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    _show(shell, arguments, _unpacked)


def _show(shell: Shell, arguments: list[str], reader: Callable[[Any], Any]) -> None:
    def show(item: Item) -> None:
        if item.facts["type"] == "DIRECTORY":
            raise item.fault("Is a directory")
        with item.read() as stream:
            try:
                shutil.copyfileobj(reader(stream), sys.stdout.buffer, CHUNK)
            except (zlib.error, gzip.BadGzipFile, EOFError) as error:
                raise Fault(f"cannot unpack: {error}") from error
        sys.stdout.flush()

    shell.each(shell.expand(arguments), show)


def _unpacked(stream: Any) -> Any:
    """Return a stream that reads what is in another one, unpacked if that is gzip or bzip2."""
    begin = stream.peek(3)
    if begin.startswith(b"BZh"):
        return bz2.BZ2File(stream)
    return gzip.GzipFile(fileobj=stream) if begin.startswith(b"\x1f\x8b") else stream


# facts


def _ls(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    def write(item: Item) -> None:
        facts = item.facts
        mode = int(facts["permission"], 8) | (file_mode.S_IFDIR if item.is_folder else file_mode.S_IFREG)
        when = datetime.fromtimestamp(facts["modificationTime"] / 1000, timezone.utc).astimezone()
        shell.print(
            f"{file_mode.filemode(mode)} {'-' if item.is_folder else facts['replication']:>3} "
            f"{facts['owner']:<8} {facts['group']:<10} {_size(facts['length'], options):>10} "
            f"{when:%Y-%m-%d %H:%M} {item.shown}"
        )

    def show(item: Item) -> None:
        if item.facts["type"] != "DIRECTORY" or "d" in options:
            write(item)
            return
        inside = item.children()
        if inside and "R" not in options:
            shell.print(f"Found {len(inside)} items")
        for child in inside:
            write(child)
            if "R" in options and child.is_folder:
                shell.each([child], show)

    shell.each(shell.expand(arguments or ["."]), show)


def _size(number: int, options: frozenset[str]) -> str:
    """Return a number of bytes as it is, or with ``-h`` as ``2.1 K``."""
    if "h" not in options or number < _KIB:
        return str(number)
    step = (number.bit_length() - 1) // 10
    digits = 1 if number % _KIB**step else 0
    return f"{number / _KIB**step:.{digits}f} {'KMGTPE'[step - 1]}"


def _du(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    def show(item: Item) -> None:
        for each in item.children() if item.facts["type"] == "DIRECTORY" and "s" not in options else [item]:
            size = _size(shell.hdfs.summary(each.path)["length"], options)
            shell.print(f"{size:<7}  {each.shown}")

    shell.each(shell.expand(arguments or ["."]), show)


def _count(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    def show(item: Item) -> None:
        summary = item.facts and shell.hdfs.summary(item.path)
        counts = [_size(summary[name], options) for name in ("directoryCount", "fileCount", "length")]
        shell.print("{:>12} {:>12} {:>18} {}".format(*counts, item.shown))

    shell.each(shell.expand(arguments), show)


def _stat(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    form = arguments.pop(0) if "%" in arguments[0] else "%y"

    def show(item: Item) -> None:
        facts = item.facts
        when = datetime.fromtimestamp(facts["modificationTime"] / 1000, timezone.utc)
        values = {
            "b": facts["length"],
            "F": "directory" if item.is_folder else "regular file",
            "g": facts["group"],
            "n": item.name,
            "o": facts["blockSize"],
            "r": facts["replication"],
            "u": facts["owner"],
            "y": f"{when:%Y-%m-%d %H:%M:%S}",
            "Y": facts["modificationTime"],
        }
        shell.print(re.sub(r"%(.)", lambda match: str(values.get(match[1], match[1])), form))

    shell.each(shell.expand(arguments), show)


def _test(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    if len(options) != 1:
        raise Usage("Only one test flag is allowed" if options else "No test flag given")
    item = next(iter(shell.expand(arguments[:1])), None)
    found = None if item is None else item.found
    answers = found and {
        "e": True,
        "d": found["type"] == "DIRECTORY",
        "f": found["type"] == "FILE",
        "s": found["length"] > 0,
        "z": found["length"] == 0,
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
