"""Files and folders of the ``hdfs dfs`` command line: on HDFS, on the local disk, and Hadoop's patterns."""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from fnmatch import translate
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.local.hdfs.command.client import CHUNK, Fault, Hdfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

__all__ = ["Item", "Place", "Shell"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_SPECIAL = re.compile(r"[*?]|\[.+\]")


class Item:
    """A file or folder on HDFS, as it is shown, or the place of one; looked up when something asks for it."""

    def __init__(self, hdfs: Hdfs, path: str, shown: str) -> None:
        self.hdfs = hdfs
        self.path = path
        self.shown = shown

    @cached_property
    def found(self) -> dict[str, Any] | None:
        """The FileStatus, None where there is nothing."""
        return self.hdfs.status(self.path)

    @property
    def facts(self) -> dict[str, Any]:
        """The FileStatus of what has to be there; raises Fault."""
        if self.found is None:
            raise self.fault("No such file or directory")
        return self.found

    @property
    def name(self) -> str:
        """The last part of its path."""
        return posixpath.basename(self.path)

    @property
    def exists(self) -> bool:
        """Whether there is anything."""
        return self.found is not None

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder that exists."""
        return self.found is not None and self.found["type"] == "DIRECTORY"

    def above(self) -> Item:
        """Return the folder that it is in."""
        return Item(self.hdfs, posixpath.dirname(self.path), self.shown)

    def child(self, name: str) -> Item:
        """Return the place of a name in a folder."""
        shown = name if self.shown == "." else f"{self.shown.removesuffix('/')}/{name}"
        return Item(self.hdfs, f"{self.path.rstrip('/')}/{name}", shown)

    def children(self) -> list[Item]:
        """Return what is in a folder."""
        items = []
        for facts in self.hdfs.children(self.path):
            items.append(self.child(facts["pathSuffix"]))
            items[-1].found = facts
        return items

    def read(self) -> AbstractContextManager[Any]:
        """Return a file, open for reading."""
        return self.hdfs.read(self.path)

    def write(self, stream: Any) -> None:
        """Make a file of a binary stream; it appears when it is complete."""
        self.hdfs.write(self.path, stream)

    def mkdir(self) -> None:
        """Make a folder, and those above it."""
        self.hdfs.mkdir(self.path)
        self.__dict__.pop("found", None)

    def fault(self, what: str) -> Fault:
        """Return a fault of the form ```path': what``."""
        return Fault(f"`{self.shown}': {what}")


class _Local:
    """A file or folder on the local disk, with the members of `Item`."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.path = str(Path(shown).absolute())
        self.name = Path(self.path).name

    @property
    def exists(self) -> bool:
        return Path(self.path).exists()

    @property
    def is_folder(self) -> bool:
        return Path(self.path).is_dir()

    def above(self) -> _Local:
        return _Local(posixpath.dirname(self.path))

    def child(self, name: str) -> _Local:
        return _Local(str(Path(self.shown) / name))

    def children(self) -> list[_Local]:
        return [self.child(place.name) for place in sorted(Path(self.path).iterdir())]

    def read(self) -> AbstractContextManager[Any]:
        return Path(self.path).open("rb")

    def write(self, stream: Any) -> None:
        incomplete = Path(f"{self.path}._COPYING_")
        try:
            with incomplete.open("wb") as file:
                shutil.copyfileobj(stream, file, CHUNK)
            incomplete.replace(self.path)
        finally:
            incomplete.unlink(missing_ok=True)

    def mkdir(self) -> None:
        Path(self.path).mkdir(parents=True, exist_ok=True)

    def fault(self, what: str) -> Fault:
        return Fault(f"`{self.shown}': {what}")


Place = Item | _Local
"""Where files are read from and written to."""


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

    def each(self, items: Iterable[Any], work: Callable[[Any], None]) -> None:
        """Do something with every item; one that fails does not stop the others."""
        for item in items:
            try:
                work(item)
            except Fault as fault:
                self.fault(fault)

    def local(self, text: str) -> Place:
        """Return a path on the local disk."""
        return _Local(text.removeprefix("file://"))

    def item(self, text: str) -> Item:
        """Return a path on HDFS, taken as it is written; a URI of any NameNode means this one."""
        scheme, colon, rest = text.partition(":")
        if not colon or "/" in scheme:
            return self._item(posixpath.join(f"/user/{self.hdfs.user}", text), text or ".")
        if scheme not in ("hdfs", "viewfs"):
            raise Fault(f"No FileSystem for scheme: {scheme}")
        return self._item(f"/{rest[2:].partition('/')[2]}" if rest.startswith("//") else rest, text)

    def _item(self, path: str, shown: str) -> Item:
        return Item(self.hdfs, "/" + posixpath.normpath(path).lstrip("/"), shown)

    def expand(self, texts: Sequence[str]) -> list[Item]:
        """Return what paths and patterns stand for; a path itself where nothing is there."""
        found: list[Item] = []

        def add(text: str) -> None:
            matching = [item for one in dict.fromkeys(_alternatives(text)) for item in self._matching(one)]
            found.extend(sorted(matching, key=lambda item: item.path) or [self.item(text)])

        self.each(texts, add)
        return found

    def _matching(self, text: str) -> list[Item]:
        """Return what there is of a path whose names may be patterns."""
        names = text.split("/")
        plain = next((at for at, name in enumerate(names) if _SPECIAL.search(name)), len(names))
        items = [self.item("/".join(names[:plain]) or "/" * text.startswith("/"))]
        for name in names[plain:]:
            if _SPECIAL.search(name):
                fits = re.compile(translate(name.replace("[^", "[!"))).match
                children = (child for item in items if item.is_folder for child in item.children())
                items = [child for child in children if fits(child.name)]
            else:
                items = [item.child(name) for item in items]
        return [item for item in items if item.exists]


def _alternatives(text: str) -> list[str]:
    """Return what ``{a,b}`` stands for, one text for each alternative."""
    braces = _BRACES.search(text)
    if braces is None:
        return [text]
    before, after = text[: braces.start()], text[braces.end() :]
    return [found for part in braces[1].split(",") for found in _alternatives(f"{before}{part}{after}")]
