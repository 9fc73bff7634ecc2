"""The operations of one HDFS; one connection per process and account."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import posixpath
from typing import TYPE_CHECKING, Any

import urllib3

from luigi_pai.api.wire.repeats import OTHER_DATANODE, Tries
from luigi_pai.files.errors import HdfsError, HdfsUnreachable, NotADirectory
from luigi_pai.files.hdfs.reader import BufferedHdfsReader, HdfsReader
from luigi_pai.files.hdfs.transport import Transport
from luigi_pai.files.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Iterable

    import requests

    from luigi_pai.files.hdfs.transport import Account

_PART = 64 * 1024  # bytes
_MAYBE_BELOW_A_FILE = ("AccessControlException", "FileAlreadyExistsException", "ParentNotDirectoryException")


class Connection(Transport, Volume):
    """The operations of one HDFS with the account of one user. Paths are absolute and normalised."""

    refused = ":"

    @functools.cached_property
    def owner(self) -> str:
        """The user who owns this account's files. With Kerberos, it is the name of the user's home folder."""
        return self._user or posixpath.basename(str(self.ask("GET", "/", "GETHOMEDIRECTORY").value))

    def file_status(self, path: str) -> dict[str, Any]:
        """Return the FileStatus of a file or folder."""
        found: dict[str, Any] = self.ask("GET", path, "GETFILESTATUS").value
        return found

    def list_status(self, path: str) -> list[dict[str, Any]]:
        """Return the FileStatus of each entry of a folder; for a file, its FileStatus with an empty name."""
        found: list[dict[str, Any]] = self.ask("GET", path, "LISTSTATUS").value["FileStatus"]
        return found

    def make_folders(self, path: str) -> None:
        """Make a folder and its parents; NotADirectory if the path or a parent is a file."""
        try:
            done = self.ask("PUT", path, "MKDIRS").value
        except HdfsError as error:
            file = self._file_at_or_above(path) if error.exception in _MAYBE_BELOW_A_FILE else None
            if not file:
                raise
            reason = "it is a file" if file == path else f"{file} is a file"
            raise self.failed("MKDIRS", path, reason, kind=NotADirectory) from error
        if not done:
            raise self.failed("MKDIRS", path, "the server did not make it, and gives no reason")

    def share_folder(self, path: str) -> None:
        """Do nothing: an OpenPAI's HDFS lets containers write, and makes missing folders."""

    def _file_at_or_above(self, path: str) -> str | None:
        while path != "/":
            # Hadoop 2.7.4 sends AccessControlException for a path below a file
            with contextlib.suppress(HdfsError):
                status = self.status(path)
                if status and status["type"] != "DIRECTORY":
                    return path
            path = posixpath.dirname(path)
        return None

    def remove(self, path: str, *, recursive: bool) -> bool:
        """Delete a path; return False if it did not exist."""
        return bool(self.ask("DELETE", path, "DELETE", recursive=str(recursive).lower()).value)

    def rename_to(self, path: str, destination: str, options: str | None = None) -> bool | None:
        """Rename a path, by rename2 if ``options`` is ``NONE`` or ``OVERWRITE``, else by HDFS's older rename.

        Returns:
            None after rename2; after the older rename, whether the path was renamed. HttpFS ignores
            ``options``, so it always executes the older rename.
        """
        answer = self.ask("PUT", path, "RENAME", destination=destination, renameoptions=options)
        done: bool | None = answer.value
        return done

    def open_file(self, path: str, offset: int = 0) -> requests.Response:
        """Return a reply whose body is the file from an offset on. The caller closes the reply."""
        return self.ask("GET", path, "OPEN", offset=offset or None).reply

    def open_reader(self, path: str) -> BufferedHdfsReader:
        """Open a file for reading; its content is received in parts."""
        return BufferedHdfsReader(HdfsReader(self, path))

    def read_part(self, path: str, offset: int, most: int) -> bytes:
        """Return at most ``most`` bytes of a file from ``offset`` on, which must be before the file's end."""
        return self._read(path, offset, most, longest=None)

    def read_rest(self, path: str, offset: int, most: int) -> bytes:
        """Return a file from ``offset`` on; raise ``too_large`` if these are more than ``most`` bytes."""
        data = self._read(path, offset, most + 1, longest=most)
        if len(data) > most:
            raise self.too_large(path, most)
        return data

    def _read(self, path: str, offset: int, most: int, *, longest: int | None) -> bytes:
        """Return at most ``most`` bytes; raise ``too_large`` if the reply tells more than ``longest``.

        This takes one request to the NameNode and one to a DataNode. If they get no complete answer, an
        ordinary HdfsReader reads the file.
        """
        with (
            contextlib.suppress(HdfsUnreachable, OSError, urllib3.exceptions.HTTPError),
            self.open_file(path, offset) as reply,
        ):
            if longest is not None and (reply.raw.length_remaining or 0) > longest:
                raise self.too_large(path, longest)
            return _start_of(reply, most)
        with self.open_reader(path) as file:
            return file.read(offset + most)[offset:]

    def create_file(self, path: str, data: bytes | Iterable[bytes]) -> None:
        """Write a new file, and make its folder if the folder is missing.

        If no connection to the DataNode is possible, the NameNode is asked for another DataNode.
        """
        create = functools.partial(self.send_file, "PUT", path, "CREATE", data, overwrite="false")
        Tries(OTHER_DATANODE).call(create)

    def append(self, path: str, data: bytes) -> None:
        """Add data to the end of a file. After an error, HDFS may have added them, or may do so later."""
        self.send_file("POST", path, "APPEND", data)

    def count(self, path: str) -> tuple[int, int, int]:
        """Return the bytes, folders and files of a path and all below it; a folder counts itself."""
        summary = self.ask("GET", path, "GETCONTENTSUMMARY").value
        return summary["length"], summary["directoryCount"], summary["fileCount"]

    def set_mode(self, path: str, mode: str) -> None:
        """Set the mode bits, in octal."""
        self.ask("PUT", path, "SETPERMISSION", permission=mode)

    def set_owner(self, path: str, owner: str | None, group: str | None) -> None:
        """Set owner, group or both. HDFS lets the owner set the group, but only a superuser the owner."""
        self.ask("PUT", path, "SETOWNER", owner=owner, group=group)

    def local_path(self, path: str) -> str:
        """Raise HdfsError, because this machine does not mount HDFS."""
        step = 'open it, or copy it to this machine with "luigi-pai get"'
        raise self.failed("resolve", path, "a file on HDFS has no path on this machine", next_step=step)


def _start_of(reply: requests.Response, most: int) -> bytes:
    """Return at most ``most`` bytes from the start of a reply's body, even if its Content-Length differs."""
    data = bytearray()
    for part in reply.iter_content(min(most, _PART)):
        data += part
        if len(data) >= most:
            break
    del data[most:]
    return bytes(data)


_connections: dict[tuple[int, Account], Connection] = {}


def connection(account: Account) -> Connection:
    """Return this process's connection for an account; a forked process makes a new connection."""
    key = (os.getpid(), account)
    # no lock, because a forked process could inherit it locked; at worst, two threads each make a connection
    return _connections.get(key) or _connections.setdefault(key, Connection(account))


@atexit.register
def _close_all() -> None:
    for (process, _account), opened in _connections.items():
        if process == os.getpid():
            opened.close()
