"""Where files lie on HDFS from when they are sent to when they are published."""

from __future__ import annotations

import itertools
import posixpath
import uuid
from typing import TYPE_CHECKING

from luigi_pai.hdfs.destination import status_or_none
from luigi_pai.hdfs.errors import FileAlreadyExists, failed
from luigi_pai.hdfs.manifest import MANIFEST, Entry

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from luigi_pai.hdfs.connection import Connection
    from luigi_pai.hdfs.destination import Destination
    from luigi_pai.hdfs.manifest import Manifest
    from luigi_pai.hdfs.parallel import Threads

__all__ = ["Stage"]

_LONGEST_STEM = 50  # characters of a folder's name that its stage repeats


class Stage:
    """A hidden folder that an upload has for itself.

    For a destination that is new it lies beside it, holds the files as they will
    be, and becomes the destination by one rename. For one that exists it lies in
    it, and each file is renamed to its place, over what is there.

    Args:
        server: that the destination is on.
        there: the destination.
        threads: that publish.
    """

    def __init__(self, server: Connection, there: Destination, threads: Threads) -> None:
        self._server = server
        self._there = there
        self._threads = threads
        self._numbers = itertools.count()
        self._places: dict[str, str] = {}
        unique = f".luigi-pai-tmp-{uuid.uuid4().hex[:12]}"
        if there.exists:
            self._path = there.of(unique)
        else:
            folder, name = posixpath.split(there.path)
            self._path = posixpath.join(folder, f".{name[:_LONGEST_STEM]}{unique}")

    def place(self, name: str) -> str:
        """Return where to send a file of the destination to."""
        inside = str(next(self._numbers)) if self._there.exists else name
        self._places[name] = posixpath.join(self._path, inside)
        return self._places[name]

    def discard(self, names: Collection[str]) -> None:
        """Remove files that were begun and are not whole."""
        begun = [self._places[name] for name in names if name in self._places]
        self._threads.map(lambda place: self._server.remove(place, recursive=False), begun)

    def entries(self, sent: Mapping[str, tuple[int, str]]) -> dict[str, Entry]:
        """Return what a manifest says of the files that were sent.

        Args:
            sent: length and SHA-256 of each.

        Raises:
            HdfsError: one is not there as it was sent.
        """
        folders = sorted({posixpath.dirname(self._places[name]) for name in sent})
        listings = self._threads.map(self._server.list_status, folders)
        found = {
            posixpath.join(folder, status["pathSuffix"]): status
            for folder, listing in zip(folders, listings, strict=True)
            for status in listing
        }
        entries = {}
        for name, (length, sha256) in sent.items():
            place = self._places[name]
            there = found.get(place, {}).get("length")
            if there != length:
                reason = f"{length} bytes were sent, and {there} are there"
                raise failed("CREATE", place, self._server.server, reason, next_step="try again")
            entries[name] = Entry(length, found[place]["modificationTime"], sha256)
        return entries

    def publish(self, sent: Collection[str], folders: Collection[str], manifest: Manifest) -> None:
        """Let files that were sent appear in the destination.

        Args:
            sent: names of the files.
            folders: names of the folders that the destination lacks.
            manifest: to lie in the destination from then on.

        Raises:
            FileAlreadyExists: the destination was new and is there by now.
        """
        is_new = not self._there.exists
        root = self._path if is_new else self._there.path
        above = {posixpath.dirname(name) for name in (*folders, *(sent if is_new else ())) if name}
        empty = [posixpath.join(root, name).rstrip("/") for name in folders if name not in above]
        self._threads.map(lambda path: self._server.make_folders(path, None), empty)
        if not is_new:
            self._threads.map(lambda name: self._replace(self._places[name], self._there.of(name)), sent)
        if manifest != self._there.manifest:
            place = posixpath.join(self._path, MANIFEST)
            self._server.create_file(place, manifest.to_json(), overwrite=False)
            if not is_new:
                self._replace(place, self._there.of(MANIFEST))
        if is_new:
            self._become(self._there.path)

    def remove(self) -> None:
        """Remove it, with what was not published."""
        self._server.remove(self._path, recursive=True)

    def _become(self, path: str) -> None:
        """Rename the stage to the destination."""
        done = self._server.rename_to(self._path, path, "NONE")
        inside = posixpath.join(path, posixpath.basename(self._path))
        if done and status_or_none(self._server, inside):  # without the option, a rename goes into a folder
            self._server.rename_to(inside, self._path)
            done = False
        if done is False:
            raise failed("RENAME", self._path, self._server.server, f"{path} exists", kind=FileAlreadyExists)

    def _replace(self, place: str, path: str) -> None:
        """Rename a file over what is there, in one step where the server can."""
        done = self._server.rename_to(place, path, "OVERWRITE")
        if done is False:
            self._server.remove(path, recursive=False)
            done = self._server.rename_to(place, path)
        if done is False:
            reason = f"the server did not rename it to {path}, and gives no reason"
            raise failed("RENAME", place, self._server.server, reason)
