"""Files and folders of the ``hdfs dfs`` command line: on HDFS, on the local disk, and Hadoop's patterns."""

from __future__ import annotations

import posixpath
import re
import shutil
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from luigi_pai.local.hdfs.command.client import CHUNK, Fault, Hdfs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

__all__ = ["DISK", "Item", "expand", "on_hdfs"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_SPECIAL = re.compile(r"[*?]|\[.+\]")


class Item(NamedTuple):
    """A path on HDFS or on the disk, absolute, and as it is shown."""

    place: Hdfs | _Disk
    path: str
    shown: str

    def look(self) -> dict[str, Any] | None:
        """Return the FileStatus of what is there; None for nothing."""
        return self.place.status(self.path)

    def facts(self) -> dict[str, Any]:
        """Return the FileStatus of what has to be there; raises Fault."""
        found = self.look()
        if found is None:
            raise self.fault("No such file or directory")
        return found

    def is_folder(self) -> bool:
        """Say whether it is a folder that is there."""
        return (self.look() or {}).get("type") == "DIRECTORY"

    def name(self) -> str:
        """Return the last part of its path."""
        return posixpath.basename(self.path)

    def child(self, name: str) -> Item:
        """Return the place of a name in a folder."""
        shown = name if self.shown == "." else f"{self.shown.removesuffix('/')}/{name}"
        return Item(self.place, f"{self.path.rstrip('/')}/{name}", shown)

    def children(self) -> list[tuple[Item, dict[str, Any]]]:
        """Return what is in a folder, each with its FileStatus."""
        return [(self.child(facts["pathSuffix"]), facts) for facts in self.place.children(self.path)]

    def fault(self, what: str) -> Fault:
        """Return a fault of the form ```path': what``."""
        return Fault(f"`{self.shown}': {what}")


class _Disk:
    """The local disk, with those methods of `Hdfs` that copies use."""

    def status(self, path: str) -> dict[str, Any] | None:
        place = Path(path)
        return {"type": "DIRECTORY" if place.is_dir() else "FILE"} if place.exists() else None

    def children(self, path: str) -> list[dict[str, Any]]:
        return [{"pathSuffix": place.name} for place in sorted(Path(path).iterdir())]

    def read(self, path: str) -> AbstractContextManager[Any]:
        return Path(path).open("rb")

    def write(self, path: str, stream: Any) -> None:
        incomplete = Path(f"{path}._COPYING_")
        try:
            with incomplete.open("wb") as file:
                shutil.copyfileobj(stream, file, CHUNK)
            incomplete.replace(path)
        finally:
            incomplete.unlink(missing_ok=True)

    def mkdir(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)


DISK = _Disk()
"""The local disk."""


def on_hdfs(hdfs: Hdfs, text: str) -> Item:
    """Return a path on HDFS, taken as it is written; a URI of any NameNode means this one."""
    scheme, colon, rest = text.partition(":")
    if not colon or "/" in scheme:
        path, text = posixpath.join(f"/user/{hdfs.user}", text), text or "."
    elif scheme in ("hdfs", "viewfs"):
        path = f"/{rest[2:].partition('/')[2]}" if rest.startswith("//") else rest
    else:
        raise Fault(f"No FileSystem for scheme: {scheme}")
    return Item(hdfs, "/" + posixpath.normpath(path).lstrip("/"), text)


def expand(hdfs: Hdfs, text: str) -> list[Item]:
    """Return what a path with patterns stands for; the path itself where nothing is there."""
    found = [item for one in dict.fromkeys(_alternatives(text)) for item in _matching(hdfs, one)]
    return sorted(found, key=lambda item: item.path) or [on_hdfs(hdfs, text)]


def _matching(hdfs: Hdfs, text: str) -> Iterator[Item]:
    """Yield what there is of a path whose names may be patterns."""
    names = text.split("/")
    plain = next((at for at, name in enumerate(names) if _SPECIAL.search(name)), len(names))
    if plain == len(names):
        yield on_hdfs(hdfs, text)
        return
    items = [on_hdfs(hdfs, "/".join(names[:plain]) or "/" * text.startswith("/"))]
    for name in names[plain:]:
        if _SPECIAL.search(name):
            fits = re.compile(translate(name.replace("[^", "[!"))).match
            items = [child for item in items if item.is_folder() for child, _ in item.children()]
            items = [child for child in items if fits(child.name())]
        else:
            items = [item.child(name) for item in items]
    yield from (item for item in items if item.look())


def _alternatives(text: str) -> Sequence[str]:
    """Return what ``{a,b}`` stands for, one text for each alternative."""
    braces = _BRACES.search(text)
    if braces is None:
        return [text]
    before, after = text[: braces.start()], text[braces.end() :]
    return [found for part in braces[1].split(",") for found in _alternatives(f"{before}{part}{after}")]
