"""The operations of one HDFS; one connection per process and account."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import posixpath
from typing import TYPE_CHECKING, Any

from luigi_pai.hdfs.errors import HdfsError, NotADirectory
from luigi_pai.hdfs.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import requests

    from luigi_pai.hdfs.transport import Account

_CREATE_TRIES = 6  # attempts to create a file; each may be redirected to a DataNode that has just died
_MAYBE_BELOW_A_FILE = ("AccessControlException", "FileAlreadyExistsException", "ParentNotDirectoryException")


@contextlib.contextmanager
def missing_ok() -> Iterator[None]:
    """Suppress the HdfsError of a path that does not exist."""
    try:
        yield
    except HdfsError as error:
        if error.exception != "FileNotFoundException":
            raise


class Connection(Transport):
    """The operations of one HDFS with the account of one user. Paths are absolute and normalised."""

    @functools.cached_property
    def owner(self) -> str:
        """The user who owns this account's files. With Kerberos, it is the name of the user's home folder."""
        return self._user or posixpath.basename(str(self.ask("GET", "/", "GETHOMEDIRECTORY").value))

    def file_status(self, path: str) -> dict[str, Any]:
        """Return the FileStatus of a file or folder."""
        found: dict[str, Any] = self.ask("GET", path, "GETFILESTATUS").value
        return found

    def status(self, path: str) -> dict[str, Any] | None:
        """Return the FileStatus of a file or folder; None if it does not exist."""
        with missing_ok():
            return self.file_status(path)
        return None

    def is_folder(self, path: str) -> bool:
        """Return whether a path is a folder."""
        status = self.status(path)
        return status is not None and status["type"] == "DIRECTORY"

    def list_status(self, path: str) -> list[dict[str, Any]]:
        """Return the FileStatus of each entry of a folder; for a file, its FileStatus with an empty name."""
        found: list[dict[str, Any]] = self.ask("GET", path, "LISTSTATUS").value["FileStatus"]
        return found

    def list_folder(self, path: str) -> list[dict[str, Any]]:
        """Return the FileStatus of each entry of a folder; NotADirectory if it is a file."""
        found = self.list_status(path)
        if [status["pathSuffix"] for status in found] == [""]:
            step, reason = "name another folder, or remove the file", "it is a file, not a folder"
            raise self.failed("LISTSTATUS", path, reason, next_step=step, kind=NotADirectory)
        return found

    def walk(self, path: str, *, recursive: bool = True) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield path and FileStatus of a file, or of each entry of a folder.

        With ``recursive``, everything in its subfolders is yielded, too. Subfolders that are removed
        meanwhile, such as folders of temporary files, are skipped.
        """
        for status in self.list_status(path):
            below = posixpath.join(path, name) if (name := status["pathSuffix"]) else path
            yield below, status
            if recursive and status["type"] == "DIRECTORY":
                with missing_ok():
                    yield from self.walk(below)

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

    def create_file(self, path: str, data: bytes | Iterable[bytes]) -> None:
        """Write a new file, and make its folder if the folder is missing.

        If no connection to the DataNode is possible, the NameNode is asked for another DataNode.
        """
        for tries_left in reversed(range(_CREATE_TRIES)):
            try:
                self.send_file("PUT", path, "CREATE", data, overwrite="false")
            except HdfsError as error:
                if not tries_left or not error.unsent or error.server == self.server:
                    raise
            else:
                break


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
