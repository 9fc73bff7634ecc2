"""The way of files from here to their place on HDFS: sent to a hidden folder, and published from there."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import posixpath
import re
import threading
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from luigi_pai.hdfs.destination import MANIFEST, Entry, Manifest, status_or_none
from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError, failed, not_kept
from luigi_pai.hdfs.transfer import READ_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

    from luigi_pai.hdfs.connection import Connection
    from luigi_pai.hdfs.destination import Destination
    from luigi_pai.hdfs.local_tree import LocalFile
    from luigi_pai.hdfs.transfer import Threads

__all__ = ["SmallFiles", "Stage"]

_LONGEST_STEM = 50  # characters of a folder's name that its stage repeats
_ONE_ANSWER = 32  # files, so that the files of an upload are spread over the DataNodes
_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")  # a path that is the same in any address


class Stage:
    """A hidden folder that an upload has for itself; at the end of ``with`` it is removed.

    For a destination that is new it lies beside it, holds the files as they will
    be, and becomes the destination by one rename. For one that exists it lies in
    it, and each file is renamed to its place, over what is there.

    Args:
        server: that the destination is on.
        there: the destination.
        threads: that send and publish.
    """

    def __init__(self, server: Connection, there: Destination, threads: Threads) -> None:
        self._server = server
        self._there = there
        self._threads = threads
        self._small_files = SmallFiles(server)
        self._numbers = itertools.count()
        self._places: dict[str, str] = {}
        self._sent: dict[str, tuple[int, str]] = {}
        unique = f".luigi-pai-tmp-{uuid.uuid4().hex[:12]}"
        if there.exists:
            self._path = there.of(unique)
        else:
            folder, name = posixpath.split(there.path)
            self._path = posixpath.join(folder, f".{name[:_LONGEST_STEM]}{unique}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_about: object) -> None:
        with contextlib.suppress(HdfsError):  # it is in nobody's way, and the next upload removes it
            self._server.remove(self._path, recursive=True)

    @property
    def is_empty(self) -> bool:
        """Whether no file has been sent whole."""
        return not self._sent

    def send(self, file: LocalFile, advance: Callable[[int], None]) -> None:
        """Send a file; it is not published yet.

        Args:
            file: the file.
            advance: told of each byte, and of one more at the end.

        Raises:
            TransferError: the file cannot be read, or changes.
            HdfsError: HDFS did not take it.
            Stopped: other work has failed.
        """
        digest = hashlib.sha256()
        length = 0

        def parts() -> Iterator[bytes]:
            nonlocal length
            for part in file.parts():
                self._threads.check()
                digest.update(part)
                length += len(part)
                yield part
                advance(len(part))

        self._threads.check()
        inside = str(next(self._numbers)) if self._there.exists else file.name
        place = self._places[file.name] = posixpath.join(self._path, inside)
        if file.size > READ_AT_ONCE:
            self._server.create_file(place, parts(), overwrite=False)
        else:
            self._small_files.write(place, b"".join(parts()))
        self._sent[file.name] = (length, digest.hexdigest())
        advance(1)

    def publish(self, folders: frozenset[str]) -> Destination:
        """Let the files that were sent whole appear in the destination.

        Args:
            folders: that the destination is to have, too.

        Returns:
            The destination as it then is.

        Raises:
            FileAlreadyExists: the destination was new and is there by now.
            HdfsError: HDFS refused something or did not answer.
        """
        there = self._there
        self._discard(self._places.keys() - self._sent.keys())
        entries = self._entries()
        missing = there.lacks(folders)
        manifest = Manifest({**there.noted(), **entries}, there.manifest.folders | (missing - {""}))
        self._make_folders(missing)
        if there.exists:
            self._threads.map(lambda name: self._replace(self._places[name], there.of(name)), self._sent)
        self.note(manifest)
        if not there.exists:
            self._become(there.path)
        made = {name: {"type": "DIRECTORY"} for name in folders}
        statuses = {name: entry.as_status() for name, entry in entries.items()}
        return replace(there, exists=True, statuses={**made, **there.statuses, **statuses}, manifest=manifest)

    def note(self, manifest: Manifest) -> None:
        """Put a manifest into the destination, unless it is the one that is there."""
        if manifest != self._there.manifest:
            place = posixpath.join(self._path, MANIFEST)
            self._server.create_file(place, manifest.to_json(), overwrite=False)
            if self._there.exists:
                self._replace(place, self._there.of(MANIFEST))

    def _discard(self, names: set[str]) -> None:
        """Remove files that were begun and are not whole."""
        begun = [self._places[name] for name in names]
        self._threads.map(lambda place: self._server.remove(place, recursive=False), begun)

    def _entries(self) -> dict[str, Entry]:
        """Return what a manifest says of the files that were sent, after a look whether they are there."""
        folders = sorted({posixpath.dirname(self._places[name]) for name in self._sent})
        listings = self._threads.map(self._server.list_status, folders)
        found = {
            posixpath.join(folder, status["pathSuffix"]): status
            for folder, listing in zip(folders, listings, strict=True)
            for status in listing
        }
        entries = {}
        for name, (length, sha256) in self._sent.items():
            place = self._places[name]
            there = found.get(place, {}).get("length")
            if there != length:
                raise not_kept(place, self._server.server, length, there)
            entries[name] = Entry(length, found[place]["modificationTime"], sha256)
        return entries

    def _make_folders(self, missing: set[str]) -> None:
        """Make folders that the destination lacks, where a file or a folder in them does not make them."""
        is_new = not self._there.exists
        root = self._path if is_new else self._there.path
        filled = {posixpath.dirname(name) for name in (*missing, *(self._sent if is_new else ())) if name}
        empty = [posixpath.join(root, name).rstrip("/") for name in missing - filled]
        self._threads.map(lambda path: self._server.make_folders(path, None), empty)

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


class SmallFiles:
    """Writes files that are to be new.

    WebHDFS asks the NameNode for each file which DataNode to send it to. The
    answer is an address in which the path is the one thing about the file, so
    that it serves for the next files, too: half of the requests. Whatever goes
    wrong on the way, the file is written again in the usual way.

    Args:
        server: the HDFS.
    """

    def __init__(self, server: Connection) -> None:
        self._server = server
        self._of_thread = threading.local()

    def write(self, path: str, data: bytes) -> None:
        """Write a file; where it was begun in vain it is replaced."""
        address = self._address(path)
        if address:
            try:
                self._server.write_to(address, path, data)
            except HdfsError:
                self._of_thread.left = 0
            else:
                return
        self._of_thread.address = self._server.create_file(path, data, overwrite=bool(address))
        self._of_thread.path = path
        self._of_thread.left = _ONE_ANSWER - 1

    def _address(self, path: str) -> str | None:
        """Return the address for a path, made from an earlier file's; None where there is none."""
        if not getattr(self._of_thread, "left", 0) or not _PLAIN.fullmatch(path):
            return None
        self._of_thread.left -= 1
        earlier: str = self._of_thread.path
        parts = urlsplit(str(self._of_thread.address))
        if not _PLAIN.fullmatch(earlier) or not parts.path.endswith(earlier):
            return None
        return urlunsplit(parts._replace(path=parts.path.removesuffix(earlier) + path))
