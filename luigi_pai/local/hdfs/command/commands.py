"""The commands of ``hdfs dfs``, with their options.

Those that copy do as FsShell: several sources need a folder that exists; one source goes into a folder
that exists, or becomes the destination; folders are merged; a file is replaced with ``-f`` only.
"""

from __future__ import annotations

import io
import posixpath
import shutil
import stat as file_mode
import sys
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.local.hdfs.command.files import CHUNK, DISK, Fault, Hdfs, Item, expand, on_hdfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_KIB = 1024


class Usage(Exception):
    """Wrong usage of a command."""


@dataclass
class Call:
    """A command line: options without dashes, then arguments; ``failed`` says whether a path failed."""

    name: str
    hdfs: Hdfs
    options: set[str] = field(default_factory=set)
    words: list[str] = field(default_factory=list)
    failed: bool = False

    def run(self, words: Iterable[str]) -> None:
        """Run the command with its options and arguments; raises Usage or Fault."""
        known, least, run = COMMANDS[self.name]
        self.words = list(words)
        while self.words and self.words[0].startswith("-") and self.words[0] != "-":
            option = self.words.pop(0)
            if option[1:] not in known.split():
                raise Usage(f"Illegal option {option}; it takes {known or 'none'}")
            self.options.add(option[1:])
        if len(self.words) < least:
            raise Usage(f"Not enough arguments: expected {least} but got {len(self.words)}")
        run(self)

    def print(self, text: str) -> None:
        """Write a line."""
        sys.stdout.buffer.write(f"{text}\n".encode(errors="surrogateescape"))

    def fault(self, fault: Exception) -> None:
        """Write an error, and go on."""
        self.failed = True
        sys.stdout.flush()
        sys.stderr.write(f"{self.name}: {fault}\n")

    def each(self, work: Callable[[Any], None], items: Iterable[Any]) -> None:
        """Call a function with every item; a failure does not stop the others."""
        for item in items:
            try:
                work(item)
            except Fault as fault:
                self.fault(fault)

    def found(self, words: Iterable[str]) -> list[Item]:
        """Return what paths with patterns stand for."""
        items: list[Item] = []
        self.each(lambda word: items.extend(expand(self.hdfs, word)), words)
        return items

    def split(self) -> tuple[list[str], str]:
        """Return the sources and the destination; one word alone goes to the current folder."""
        return (self.words, ".") if len(self.words) == 1 else (self.words[:-1], self.words[-1])


def _for_each(work: Callable[[Call, Item], None]) -> Callable[[Call], None]:
    """Return the command that does something with each of its paths."""
    return lambda call: call.each(lambda item: work(call, item), call.found(call.words or ["."]))


# copies


def _put(call: Call) -> None:
    sources, goal = call.split()
    target = on_hdfs(call.hdfs, goal)
    if sources == ["-"]:
        _write(call, target.child("-") if target.is_folder() else target, sys.stdin.buffer)
    else:
        _copy(call, [_local(text) for text in sources], target)


def _get(call: Call) -> None:
    sources, goal = call.split()
    _copy(call, call.found(sources), _local(goal))


def _cp(call: Call) -> None:
    _copy(call, call.found(call.words[:-1]), on_hdfs(call.hdfs, call.words[-1]))


def _local(text: str) -> Item:
    text = text.removeprefix("file://")
    return Item(DISK, str(Path(text).absolute()), text)


def _copy(call: Call, items: list[Item], goal: Item) -> None:
    def copy(pair: tuple[Item, Item]) -> None:
        item, target = pair
        if not item.is_folder():
            with item.place.read(item.path) as stream:
                _write(call, target, stream)
            return
        if target.look() and not target.is_folder():
            raise target.fault("Is not a directory")
        target.place.mkdir(target.path)
        call.each(copy, [(child, target.child(child.name())) for child, _ in item.children()])

    _each_to(call, items, goal, copy)


def _mv(call: Call) -> None:
    def move(pair: tuple[Item, Item]) -> None:
        item, target = pair
        if target.look() and not target.is_folder():
            raise target.fault("File exists")
        if not call.hdfs.rename(item.path, target.path):
            raise item.fault("Input/output error")

    _each_to(call, call.found(call.words[:-1]), on_hdfs(call.hdfs, call.words[-1]), move)


def _each_to(call: Call, items: list[Item], goal: Item, work: Callable[[tuple[Item, Item]], None]) -> None:
    """Do something with every item that is there and the place where it goes, which is not above it."""
    into_folder = goal.is_folder()
    if len(items) > 1 and not into_folder:
        raise goal.fault("Is not a directory" if goal.look() else "No such file or directory")
    if not into_folder:
        _check_free(call, goal)

    def target(item: Item) -> None:
        item.facts()
        there = goal.child(item.name()) if into_folder else goal
        if item.place is there.place and f"{there.path}/".startswith(f"{item.path.rstrip('/')}/"):
            what = "is a subdirectory of itself" if item.is_folder() else "are the same file"
            raise Fault(f"`{item.shown}' to `{there.shown}': {what}")
        work((item, there))

    call.each(target, items)


def _check_free(call: Call, target: Item) -> None:
    """Raise Fault for what is there and not replaced, or has no folder to be in."""
    found = target.look()
    if found and "f" not in call.options:
        raise target.fault("File exists")
    if not found and not Item(target.place, posixpath.dirname(target.path), "").is_folder():
        raise target.fault("No such file or directory")


def _write(call: Call, target: Item, stream: Any) -> None:
    if target.is_folder():
        raise target.fault("Is a directory")
    _check_free(call, target)
    target.place.write(target.path, stream)


def _append_to_file(call: Call) -> None:
    *sources, goal = call.words
    target = on_hdfs(call.hdfs, goal)
    for source in sources:
        if source != "-" and not Path(source).is_file():
            raise Fault(f"{Path(source).absolute()} (No such file or directory)")
    if not target.look():
        call.hdfs.write(target.path, io.BytesIO())
    for source in sources:
        with sys.stdin.buffer if source == "-" else Path(source).open("rb") as stream:
            call.hdfs.append(target.path, stream)


# one path after the other


def _mkdir(call: Call, item: Item) -> None:
    found = item.look()
    if found and not (item.is_folder() and "p" in call.options):
        raise item.fault("File exists" if item.is_folder() else "Is not a directory")
    if "p" not in call.options:
        _check_free(call, item)
    call.hdfs.mkdir(item.path)


def _rm(call: Call, item: Item) -> None:  # for good: there is no trash
    if "f" in call.options and not item.look():
        return
    is_folder = item.facts()["type"] == "DIRECTORY"
    if is_folder and not call.options & {"r", "R"}:
        raise item.fault("Is a directory")
    if not call.hdfs.delete(item.path, recursive=is_folder):
        raise item.fault("Input/output error")
    call.print(f"Deleted {item.shown}")


def _cat(_call: Call, item: Item) -> None:
    if item.facts()["type"] == "DIRECTORY":
        raise item.fault("Is a directory")
    with item.place.read(item.path) as stream:
        shutil.copyfileobj(stream, sys.stdout.buffer, CHUNK)
    sys.stdout.flush()


def _ls(call: Call, item: Item) -> None:
    facts = item.facts()
    if facts["type"] != "DIRECTORY" or "d" in call.options:
        _show(call, item, facts)
        return
    inside = item.children()
    if inside and "R" not in call.options:
        call.print(f"Found {len(inside)} items")
    for child, about in inside:
        _show(call, child, about)
        if "R" in call.options and about["type"] == "DIRECTORY":
            call.each(lambda below: _ls(call, below), [child])


def _show(call: Call, item: Item, facts: dict[str, Any]) -> None:
    """Write the line of a file or folder."""
    is_folder = facts["type"] == "DIRECTORY"
    mode = int(facts["permission"], 8) | (file_mode.S_IFDIR if is_folder else file_mode.S_IFREG)
    when = datetime.fromtimestamp(facts["modificationTime"] / 1000, timezone.utc).astimezone()
    call.print(
        f"{file_mode.filemode(mode)} {'-' if is_folder else facts['replication']:>3} "
        f"{facts['owner']:<8} {facts['group']:<10} {_size(facts['length'], call):>10} "
        f"{when:%Y-%m-%d %H:%M} {item.shown}"
    )


def _size(number: int, call: Call) -> str:
    """Return a number of bytes as it is, or with ``-h`` as ``2.1 K``."""
    if "h" not in call.options or number < _KIB:
        return str(number)
    step = (number.bit_length() - 1) // 10
    digits = 1 if number % _KIB**step else 0
    return f"{number / _KIB**step:.{digits}f} {'KMGTPE'[step - 1]}"


def _du(call: Call, item: Item) -> None:
    opened = item.facts()["type"] == "DIRECTORY" and "s" not in call.options
    for each in [child for child, _ in item.children()] if opened else [item]:
        call.print(f"{_size(call.hdfs.summary(each.path)['length'], call):<7}  {each.shown}")


def _test(call: Call) -> None:
    if len(call.options) != 1:
        raise Usage("Only one test flag is allowed" if call.options else "No test flag given")
    found = expand(call.hdfs, call.words[0])[0].look()
    answers = found and {
        "e": True,
        "d": found["type"] == "DIRECTORY",
        "f": found["type"] == "FILE",
        "s": found["length"] > 0,
        "z": found["length"] == 0,
    }
    call.failed = not (answers and answers[min(call.options)])


COMMANDS: dict[str, tuple[str, int, Callable[[Call], None]]] = {
    "appendToFile": ("", 2, _append_to_file),
    "cat": ("ignoreCrc", 1, _for_each(_cat)),
    "cp": ("f p", 2, _cp),
    "du": ("s h", 0, _for_each(_du)),
    "get": ("f p ignoreCrc crc", 1, _get),
    "ls": ("d h R", 0, _for_each(_ls)),
    "mkdir": ("p", 1, _for_each(_mkdir)),
    "mv": ("", 2, _mv),
    "put": ("f p l", 1, _put),
    "rm": ("f r R skipTrash", 1, _for_each(_rm)),
    "test": ("d e f s z", 1, _test),
}
"""By name: the options, how many arguments there are at least, and what runs the command."""
