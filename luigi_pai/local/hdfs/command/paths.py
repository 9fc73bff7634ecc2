"""Paths of the ``hdfs dfs`` command line, and what its commands share."""

from __future__ import annotations

import posixpath
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.local.hdfs.command.file_systems import (
    Fault,
    FileSystem,
    LocalFileSystem,
    RemoteFileSystem,
    Status,
)
from luigi_pai.local.hdfs.command.glob import alternatives, is_pattern, name_pattern, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Item", "Shell", "Usage", "remote_fs"]


class Usage(Exception):
    """A command that is written wrong."""


@dataclass(frozen=True)
class Item:
    """A path of the command line, or one found under it: absolute on its file system, and as it is shown.

    ``status`` is what is there, None where nothing is.
    """

    fs: FileSystem
    path: str
    shown: str
    status: Status | None

    def __str__(self) -> str:
        return self.shown

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder that exists."""
        return self.status is not None and self.status.is_folder

    def required(self) -> Status:
        """Return what is there; a Fault where nothing is."""
        if self.status is None:
            raise Fault.at(self.shown, "No such file or directory")
        return self.status

    def as_file(self) -> Item:
        """Return itself; a Fault where it is no file."""
        if self.required().is_folder:
            raise Fault.at(self.shown, "Is a directory")
        return self

    def children(self) -> Iterator[Item]:
        """Yield what is in a folder."""
        for status in self.fs.children(self.path):
            yield replace(self.child(status.name), status=status)

    def child(self, name: str) -> Item:
        """Return the place of a name in a folder; nothing is known of it yet."""
        shown = name if self.shown == "." else f"{self.shown.removesuffix('/')}/{name}"
        return Item(self.fs, f"{self.path.rstrip('/')}/{name}", shown, None)

    def looked_up(self) -> Item:
        """Return itself, with what is there now."""
        return replace(self, status=self.fs.status(self.path))

    def parent_exists(self) -> bool:
        """Return whether the folder that it would be made in is there."""
        above = self.fs.status(posixpath.dirname(self.path) or "/")
        return above is not None and above.is_folder


class Shell:
    """What commands share: the two file systems, the output, whether a path failed."""

    def __init__(self, name: str, url: str, user: str) -> None:
        self.name = name
        self.local = LocalFileSystem()
        self.failed = False
        self._url = url
        self._user = user
        self._remotes: dict[str, RemoteFileSystem] = {}

    def close(self) -> None:
        """Close all connections."""
        for remote in self._remotes.values():
            remote.close()

    def print(self, text: str) -> None:
        """Write a line."""
        sys.stdout.buffer.write(f"{text}\n".encode(errors="surrogateescape"))

    def fault(self, fault: Exception) -> None:
        """Write what went wrong, and go on."""
        self.failed = True
        sys.stdout.flush()
        sys.stderr.write(f"{self.name}: {fault}\n")

    def each(self, items: Sequence[Item] | Iterator[Item], work: Callable[[Item], None]) -> None:
        """Do something with every item; one that fails does not stop the others."""
        for item in items:
            try:
                work(item)
            except Fault as fault:
                self.fault(fault)

    def local_item(self, text: str) -> Item:
        """Return a path on the local disk."""
        text = text.removeprefix("file://")
        return Item(self.local, str(Path(text).absolute()), text, None).looked_up()

    def remote(self, url: str = "") -> RemoteFileSystem:
        """Return HDFS, or the WebHDFS that a path names."""
        url = url or self._url
        if not url:
            raise Fault("LUIGI_PAI_WEBHDFS_URL is not set; it says where HDFS is: http://HOST:PORT")
        return self._remotes.setdefault(url, RemoteFileSystem(url, self._user))

    def item(self, text: str) -> Item:
        """Return a path on HDFS, taken as it is written."""
        scheme, fs, path = self._parsed(text)
        return Item(fs, path, text if scheme or text else ".", None)

    def expand(self, text: str) -> list[Item]:
        """Return what a path or pattern stands for; itself, without status, where nothing is there."""
        if not is_pattern(text):
            return [self.item(text).looked_up()]
        found = [item for one in alternatives(text) for item in self._matching(one)]
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
        scheme, fs, _path = self._parsed(text)
        typed = text[len(scheme) :]
        start = Item(fs, "/", f"{scheme}/", None) if typed.startswith("/") else self.item(".")
        places = [start]
        for name in filter(None, typed.split("/")):
            pattern = name_pattern(name)
            if pattern is None:
                places = [place.child(plain(name)) for place in places]
                continue
            folders = [place for place in (place.looked_up() for place in places) if place.is_folder]
            places = [
                child
                for folder in folders
                for child in folder.children()
                if child.status and pattern.fullmatch(child.status.name)
            ]
        looked_up = [place if place.status else place.looked_up() for place in places]
        return [place for place in looked_up if place.status]

    def _parsed(self, text: str) -> tuple[str, FileSystem, str]:
        """Return scheme and host as typed, their file system, and the absolute path."""
        scheme, colon, rest = text.partition(":")
        if not colon or "/" in scheme:
            home = f"/user/{self._user}"
            path = text if text.startswith("/") else home if text in ("", ".") else f"{home}/{text}"
            return "", self.remote(), _normal(path)
        host, slash, path = (
            rest.removeprefix("//").partition("/") if rest.startswith("//") else ("", "/", rest[1:])
        )
        typed = text[: len(text) - len(slash + path)]
        if scheme == "file":
            return typed, self.local, _normal(f"/{path}")
        if scheme in ("webhdfs", "swebhdfs") and host:
            return (
                typed,
                self.remote(f"{'http' if scheme == 'webhdfs' else 'https'}://{host}"),
                _normal(f"/{path}"),
            )
        if scheme not in ("hdfs", "webhdfs", "swebhdfs", "viewfs"):
            raise Fault(f"No FileSystem for scheme: {scheme}")
        return typed, self.remote(), _normal(f"/{path}")


def _normal(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def remote_fs(item: Item) -> RemoteFileSystem:
    """Return the HDFS of a path; raises Fault: the path is on this machine."""
    if not isinstance(item.fs, RemoteFileSystem):
        raise Fault(f"{item}: only paths on HDFS")
    return item.fs
