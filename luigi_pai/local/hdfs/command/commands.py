"""The commands of ``hdfs dfs``.

Copies follow FsShell's rules. If there are several sources, the destination must be an existing folder. A
single source is copied into an existing folder, or else becomes the destination. Folders are merged. Files
are replaced only with ``-f``.
"""

from __future__ import annotations

import io
import posixpath
import re
import shutil
import stat as file_mode
import sys
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from luigi_pai.local.hdfs.command.client import CHUNK, Disk, Fault, Hdfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Usage(Exception):
    """Incorrect usage of a command."""


class _Item(NamedTuple):
    """An absolute path on HDFS or the local disk; ``shown`` is the path as messages write it."""

    place: Hdfs | Disk
    path: str
    shown: str

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    def look(self) -> dict[str, Any] | None:
        return self.place.status(self.path)

    def facts(self) -> dict[str, Any]:
        """Return the path's FileStatus; raises Fault if the path does not exist."""
        found = self.look()
        if found is None:
            raise self.fault("No such file or directory")
        return found

    def is_folder(self) -> bool:
        return (self.look() or {}).get("type") == "DIRECTORY"

    def child(self, name: str) -> _Item:
        shown = name if self.shown == "." else f"{self.shown.removesuffix('/')}/{name}"
        return _Item(self.place, f"{self.path.rstrip('/')}/{name}", shown)

    def children(self) -> list[_Item]:
        return [self.child(facts["pathSuffix"]) for facts in self.place.children(self.path)]

    def check_free(self, *, replace: bool) -> None:
        """Raise Fault if the path exists and ``replace`` is False, or if its parent folder does not exist."""
        found = self.look()
        if found and not replace:
            raise self.fault("File exists")
        if not found and not _Item(self.place, posixpath.dirname(self.path), "").is_folder():
            raise self.fault("No such file or directory")

    def fault(self, reason: str) -> Fault:
        return Fault(f"`{self.shown}': {reason}")


@dataclass
class Call:
    """A command line: its ``options`` (no dashes), arguments (``words``), and whether any path failed."""

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
                raise Usage(f"Illegal option {option}; this command takes {known or 'none'}")
            self.options.add(option[1:])
        if len(self.words) < least:
            raise Usage(f"Not enough arguments: expected {least} but got {len(self.words)}")
        run(self)

    def fault(self, fault: Exception) -> None:
        """Write an error to standard error, and record that a path failed."""
        self.failed = True
        sys.stdout.flush()
        sys.stderr.write(f"{self.name}: {fault}\n")

    def each(self, work: Callable[[Any], None], items: Iterable[Any]) -> None:
        """Call a function with each item. If one call fails, go on with the next item."""
        for item in items:
            try:
                work(item)
            except Fault as fault:
                self.fault(fault)

    def on_hdfs(self, word: str) -> _Item:
        """Return the item for an HDFS path. Patterns are not expanded; the NameNode in a URI is ignored."""
        scheme, colon, rest = word.partition(":")
        if not colon or "/" in scheme:
            path, word = posixpath.join(f"/user/{self.hdfs.user}", word), word or "."
        elif scheme in ("hdfs", "viewfs"):
            path = f"/{rest[2:].partition('/')[2]}" if rest.startswith("//") else rest
        else:
            raise Fault(f"No FileSystem for scheme: {scheme}")
        return _Item(self.hdfs, "/" + posixpath.normpath(path).lstrip("/"), word)

    def expand(self, word: str) -> list[_Item]:
        """Return the items matching a path with patterns (``*``, ``?``, ``[a-c]``, ``[^a]``).

        If the path has no pattern, or matches nothing, return only the item for the path itself.
        """
        names = word.split("/")
        plain = next((at for at, name in enumerate(names) if re.search(r"[*?]|\[.+\]", name)), None)
        if plain is None:
            return [self.on_hdfs(word)]
        items = [self.on_hdfs("/".join(names[:plain]) or "/" * word.startswith("/"))]
        for name in names[plain:]:
            children = [child for item in items if item.is_folder() for child in item.children()]
            pattern = name.replace("[^", "[!")
            items = [child for child in children if fnmatchcase(child.name, pattern)]
        return items or [self.on_hdfs(word)]

    def found(self, words: Iterable[str]) -> list[_Item]:
        """Expand patterns in paths, and return the matching items. Report paths that cannot be read."""
        items: list[_Item] = []
        self.each(lambda word: items.extend(self.expand(word)), words)
        return items

    def split(self) -> tuple[list[str], str]:
        """Return the sources and the destination, by default the current folder."""
        *sources, goal = self.words if len(self.words) > 1 else [*self.words, "."]
        return sources, goal


def _print(line: str) -> None:
    sys.stdout.buffer.write(f"{line}\n".encode(errors="surrogateescape"))


def _for_each(work: Callable[[Call, _Item], None]) -> Callable[[Call], None]:
    """Return a command that calls ``work`` with each of its paths."""
    return lambda call: call.each(lambda item: work(call, item), call.found(call.words or ["."]))


# copies


def _put(call: Call) -> None:
    sources, goal = call.split()
    target = call.on_hdfs(goal)
    if sources == ["-"]:
        _write(call, target.child("-") if target.is_folder() else target, sys.stdin.buffer)
    else:
        _copy(call, [_local(word) for word in sources], target)


def _get(call: Call) -> None:
    sources, goal = call.split()
    _copy(call, call.found(sources), _local(goal))


def _local(word: str) -> _Item:
    word = word.removeprefix("file://")
    return _Item(Disk(), str(Path(word).absolute()), word)


def _copy(call: Call, items: list[_Item], goal: _Item) -> None:
    def copy(item: _Item, target: _Item) -> None:
        if not item.is_folder():
            with item.place.read(item.path) as stream:
                _write(call, target, stream)
            return
        if target.look() and not target.is_folder():
            raise target.fault("Is not a directory")
        target.place.mkdir(target.path)
        call.each(lambda child: copy(child, target.child(child.name)), item.children())

    _each_to(call, items, goal, copy)


def _mv(call: Call) -> None:
    def move(item: _Item, target: _Item) -> None:
        if target.look() and not target.is_folder():
            raise target.fault("File exists")
        if not call.hdfs.rename(item.path, target.path):
            raise item.fault("Input/output error")

    _each_to(call, call.found(call.words[:-1]), call.on_hdfs(call.words[-1]), move)


def _each_to(call: Call, items: list[_Item], goal: _Item, work: Callable[[_Item, _Item], None]) -> None:
    """Call ``work`` with each item and its destination.

    Instead, report an error for a missing item, or if the destination is the item itself or inside it.
    """
    into_folder = goal.is_folder()
    if len(items) > 1 and not into_folder:
        raise goal.fault("Is not a directory" if goal.look() else "No such file or directory")
    if not into_folder:
        goal.check_free(replace="f" in call.options)

    def target(item: _Item) -> None:
        item.facts()
        there = goal.child(item.name) if into_folder else goal
        if item.place is there.place and f"{there.path}/".startswith(f"{item.path.rstrip('/')}/"):
            raise Fault(f"`{item.shown}' to `{there.shown}': is a subdirectory of itself")
        work(item, there)

    call.each(target, items)


def _write(call: Call, target: _Item, stream: Any) -> None:
    if target.is_folder():
        raise target.fault("Is a directory")
    target.check_free(replace="f" in call.options)
    target.place.write(target.path, stream)


def _append_to_file(call: Call) -> None:
    *sources, goal = call.words
    target = call.on_hdfs(goal)
    for source in sources:
        with sys.stdin.buffer if source == "-" else Path(source).absolute().open("rb") as stream:
            if not target.look():
                call.hdfs.write(target.path, io.BytesIO())
            call.hdfs.append(target.path, stream)


# commands that handle each path separately


def _mkdir(call: Call, item: _Item) -> None:
    if item.look() and not (item.is_folder() and "p" in call.options):
        raise item.fault("File exists" if item.is_folder() else "Is not a directory")
    if "p" not in call.options:
        item.check_free(replace=False)
    call.hdfs.mkdir(item.path)


def _rm(call: Call, item: _Item) -> None:  # permanent, because there is no trash
    if "f" in call.options and not item.look():
        return
    is_folder = item.facts()["type"] == "DIRECTORY"
    if is_folder and not call.options & {"r", "R"}:
        raise item.fault("Is a directory")
    if not call.hdfs.delete(item.path, recursive=is_folder):
        raise item.fault("Input/output error")
    _print(f"Deleted {item.shown}")


def _cat(_call: Call, item: _Item) -> None:
    if item.facts()["type"] == "DIRECTORY":
        raise item.fault("Is a directory")
    with item.place.read(item.path) as stream:
        shutil.copyfileobj(stream, sys.stdout.buffer, CHUNK)
    sys.stdout.flush()


def _ls(call: Call, item: _Item) -> None:
    facts = item.facts()
    if facts["type"] != "DIRECTORY" or "d" in call.options:
        _show(item, facts)
        return
    inside = call.hdfs.children(item.path)
    if inside and "R" not in call.options:
        _print(f"Found {len(inside)} items")
    for about in inside:
        child = item.child(about["pathSuffix"])
        _show(child, about)
        if "R" in call.options and about["type"] == "DIRECTORY":
            call.each(lambda below: _ls(call, below), [child])


def _show(item: _Item, facts: dict[str, Any]) -> None:
    """Write ``ls``'s line for a file or folder."""
    is_folder = facts["type"] == "DIRECTORY"
    mode = int(facts["permission"], 8) | (file_mode.S_IFDIR if is_folder else file_mode.S_IFREG)
    when = datetime.fromtimestamp(facts["modificationTime"] / 1000, timezone.utc).astimezone()
    _print(
        f"{file_mode.filemode(mode)} {'-' if is_folder else facts['replication']:>3} "
        f"{facts['owner']:<8} {facts['group']:<10} {facts['length']:>10} "
        f"{when:%Y-%m-%d %H:%M} {item.shown}"
    )


def _du(call: Call, item: _Item) -> None:
    opened = item.facts()["type"] == "DIRECTORY" and "s" not in call.options
    for each in item.children() if opened else [item]:
        _print(f"{call.hdfs.summary(each.path)['length']:<7}  {each.shown}")


def _test(call: Call) -> None:
    if len(call.options) != 1:
        raise Usage("Only one test flag is allowed" if call.options else "No test flag given")
    found = call.expand(call.words[0])[0].look()
    results = found and {
        "e": True,
        "d": found["type"] == "DIRECTORY",
        "f": found["type"] == "FILE",
        "s": found["length"] > 0,
        "z": found["length"] == 0,
    }
    call.failed = not (results and results[min(call.options)])


COMMANDS: dict[str, tuple[str, int, Callable[[Call], None]]] = {
    "appendToFile": ("", 2, _append_to_file),
    "cat": ("ignoreCrc", 1, _for_each(_cat)),
    "cp": ("f p", 2, lambda call: _copy(call, call.found(call.words[:-1]), call.on_hdfs(call.words[-1]))),
    "du": ("s h", 0, _for_each(_du)),
    "get": ("f p ignoreCrc crc", 1, _get),
    "ls": ("d h R", 0, _for_each(_ls)),
    "mkdir": ("p", 1, _for_each(_mkdir)),
    "mv": ("", 2, _mv),
    "put": ("f p l", 1, _put),
    "rm": ("f r R skipTrash", 1, _for_each(_rm)),
    "test": ("d e f s z", 1, _test),
}
"""Each command's options, minimum number of arguments, and function; ``-h`` has no effect."""
