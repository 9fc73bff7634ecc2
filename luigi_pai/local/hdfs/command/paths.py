"""Paths of the ``hdfs dfs`` command line, with Hadoop's patterns, and what its commands share."""

from __future__ import annotations

import posixpath
import re
import sys
from dataclasses import dataclass, replace
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.local.hdfs.command.client import Disk, Fault, Hdfs, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["Item", "Shell", "Usage"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_SPECIAL = re.compile(r"[*?]|\[.+\]")


class Usage(Exception):
    """A command that is written wrong."""


@dataclass(frozen=True)
class Item:
    """A path of the command line, or one found under it: absolute on its file system, and as it is shown.

    ``status`` is what is there, None where nothing is.
    """

    fs: Disk | Hdfs
    path: str
    shown: str
    status: Status | None = None

    def fault(self, what: str) -> Fault:
        """Return a fault of the form ```path': what``."""
        return Fault(f"`{self.shown}': {what}")

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder that exists."""
        return self.status is not None and self.status.is_folder

    def required(self) -> Status:
        """Return what is there; a Fault where nothing is."""
        if self.status is None:
            raise self.fault("No such file or directory")
        return self.status

    def check_parent(self) -> None:
        """Raise a Fault where there is nothing, and no folder to make it in."""
        above = self.status or self.fs.status(posixpath.dirname(self.path) or "/")
        if above is None or not (self.status or above.is_folder):
            raise self.fault("No such file or directory")

    def children(self) -> list[Item]:
        """Return what is in a folder."""
        return [replace(self.child(status.name), status=status) for status in self.fs.children(self.path)]

    def child(self, name: str) -> Item:
        """Return the place of a name in a folder; nothing is known of it yet."""
        shown = name if self.shown == "." else f"{self.shown.removesuffix('/')}/{name}"
        return Item(self.fs, f"{self.path.rstrip('/')}/{name}", shown)

    def looked_up(self) -> Item:
        """Return itself, with what is there now."""
        return replace(self, status=self.fs.status(self.path))

    def target(self, source: Item) -> Item:
        """Return where a source goes that is copied or moved here: into a folder, or it becomes this."""
        return self.child(posixpath.basename(source.path)).looked_up() if self.is_folder else self


class Shell:
    """What commands share: HDFS, the output, whether a path failed."""

    def __init__(self, name: str, hdfs: Hdfs) -> None:
        self.name = name
        self.hdfs = hdfs
        self.failed = False

    def print(self, text: str) -> None:
        """Write a line."""
        sys.stdout.buffer.write(f"{text}\n".encode(errors="surrogateescape"))

    def fault(self, fault: Exception) -> None:
        """Write what went wrong, and go on."""
        self.failed = True
        sys.stdout.flush()
        sys.stderr.write(f"{self.name}: {fault}\n")

    def each(self, items: Iterable[Item], work: Callable[[Item], None]) -> None:
        """Do something with every item; one that fails does not stop the others."""
        for item in items:
            try:
                work(item)
            except Fault as fault:
                self.fault(fault)

    def local_item(self, text: str) -> Item:
        """Return a path on the local disk."""
        text = text.removeprefix("file://")
        return Item(Disk(), str(Path(text).absolute()), text).looked_up()

    def item(self, text: str) -> Item:
        """Return a path on HDFS, taken as it is written; a URI of any NameNode means this one."""
        scheme, colon, rest = text.partition(":")
        if not colon or "/" in scheme:
            return Item(self.hdfs, _normal(posixpath.join(f"/user/{self.hdfs.user}", text)), text or ".")
        if scheme not in ("hdfs", "viewfs"):
            raise Fault(f"No FileSystem for scheme: {scheme}")
        path = rest[2:].partition("/")[2] if rest.startswith("//") else rest
        return Item(self.hdfs, _normal(f"/{path}"), text)

    def expand(self, text: str) -> list[Item]:
        """Return what a path or pattern stands for; itself, without status, where nothing is there."""
        found = [item for one in dict.fromkeys(_alternatives(text)) for item in self._matching(one)]
        return sorted(found, key=lambda item: item.path) or [self.item(text)]

    def expand_all(self, texts: Sequence[str]) -> list[Item]:
        """Return what all paths and patterns stand for."""
        found: list[Item] = []
        for text in texts:
            try:
                found += self.expand(text)
            except Fault as fault:
                self.fault(fault)
        return found

    def _matching(self, text: str) -> list[Item]:
        """Return what there is of a path whose names may be patterns."""
        names = text.split("/")
        plain = next((at for at, name in enumerate(names) if _SPECIAL.search(name)), len(names))
        places = [self.item("/".join(names[:plain]) or "/" * text.startswith("/"))]
        for name in names[plain:]:
            if not _SPECIAL.search(name):
                places = [place.child(name) for place in places]
                continue
            fits = re.compile(translate(name.replace("[^", "[!"))).match
            folders = [place for place in (place.looked_up() for place in places) if place.is_folder]
            places = [
                child
                for folder in folders
                for child in folder.children()
                if fits(posixpath.basename(child.path))
            ]
        return [
            found
            for found in (place if place.status else place.looked_up() for place in places)
            if found.status
        ]


def _alternatives(text: str) -> list[str]:
    """Return what ``{a,b}`` stands for, one text for each alternative."""
    braces = _BRACES.search(text)
    if braces is None:
        return [text]
    before, after = text[: braces.start()], text[braces.end() :]
    return [found for part in braces[1].split(",") for found in _alternatives(f"{before}{part}{after}")]


def _normal(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")
