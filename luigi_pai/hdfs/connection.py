"""The operations of one HDFS; one connection per process and account."""

from __future__ import annotations

import atexit
import contextlib
import os
import posixpath
from typing import TYPE_CHECKING, Any

from luigi_pai.hdfs.errors import HdfsError, NotADirectory
from luigi_pai.hdfs.paths import child_of
from luigi_pai.hdfs.transport import AS_SENT, Transport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import requests

    from luigi_pai.hdfs.session import Account

__all__ = ["Connection", "connection", "missing_ok"]

_CREATE_TRIES = 6  # a NameNode may send us to a DataNode that has just died, and again
_MAYBE_BELOW_A_FILE = ("AccessControlException", "FileAlreadyExistsException", "ParentNotDirectoryException")


@contextlib.contextmanager
def missing_ok() -> Iterator[None]:
    """Pass over the error for something that is not there."""
    try:
        yield
    except HdfsError as error:
        if error.exception != "FileNotFoundException":
            raise


class Connection(Transport):
    """The operations of one HDFS, as one account. Paths are absolute and normalised."""

    def __init__(self, account: Account) -> None:
        super().__init__(account)
        self._owner = account.user if account.auth == "simple" else ""

    @property
    def owner(self) -> str:
        """The user whose the files are that are written; with Kerberos, the one of the home folder."""
        if not self._owner:
            self._owner = posixpath.basename(self.home())
        return self._owner

    def file_status(self, path: str) -> dict[str, Any]:
        """Return the FileStatus of a file or folder."""
        found: dict[str, Any] = self.library.status(path)
        return found

    def status(self, path: str) -> dict[str, Any] | None:
        """Return the FileStatus of a file or folder; None where nothing is there."""
        with missing_ok():
            return self.file_status(path)
        return None

    def is_folder(self, path: str) -> bool:
        """Return whether a folder is there."""
        status = self.status(path)
        return status is not None and status["type"] == "DIRECTORY"

    def list_status(self, path: str) -> list[dict[str, Any]]:
        """Return the FileStatus of each entry of a folder; of a file its own, without a name."""
        found: list[dict[str, Any]] = self.ask("GET", path, "LISTSTATUS").value["FileStatus"]
        return found

    def list_folder(self, path: str) -> list[dict[str, Any]]:
        """Return the FileStatus of each entry of a folder; NotADirectory where a file is there."""
        found = self.list_status(path)
        if [status["pathSuffix"] for status in found] == [""]:
            step, reason = "name another folder, or remove the file", "a file is there, no folder"
            raise self.failed("LISTSTATUS", path, reason, next_step=step, kind=NotADirectory)
        return found

    def walk(self, path: str, *, recursive: bool = True) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield path and FileStatus of all that is in a folder, at any depth, or of a file.

        A folder in it that is removed meanwhile, as those of temporary files are, is passed over.
        """
        for status in self.list_status(path):
            below = child_of(path, status["pathSuffix"])
            yield below, status
            if recursive and status["type"] == "DIRECTORY":
                with missing_ok():
                    yield from self.walk(below)

    def content_summary(self, path: str) -> dict[str, Any]:
        """Return the ContentSummary of a file or folder."""
        found: dict[str, Any] = self.library.content(path)
        return found

    def home(self) -> str:
        """Return the home folder of the user."""
        return str(self.library.resolve("."))

    def make_folders(self, path: str) -> None:
        """Make a folder and those above it; NotADirectory where a file is in place of one of them."""
        try:
            done = self.ask("PUT", path, "MKDIRS").value
        except HdfsError as error:
            file = self._file_at_or_above(path) if error.exception in _MAYBE_BELOW_A_FILE else None
            if not file:
                raise
            reason = "a file is there" if file == path else f"{file} is a file"
            raise self.failed("MKDIRS", path, reason, kind=NotADirectory) from error
        if not done:
            raise self.failed("MKDIRS", path, "the server did not do it, and does not say why")

    def _file_at_or_above(self, path: str) -> str | None:
        while path != "/":
            with contextlib.suppress(HdfsError):  # below a file, 2.7.4 answers AccessControlException
                status = self.status(path)
                if status and status["type"] != "DIRECTORY":
                    return path
            path = posixpath.dirname(path)
        return None

    def remove(self, path: str, *, recursive: bool) -> bool:
        """Delete; False where there was nothing."""
        return bool(self.library.delete(path, recursive=recursive))

    def rename_to(self, path: str, destination: str, options: str | None = None) -> bool | None:
        """Rename, with ``NONE`` or ``OVERWRITE`` by HDFS's rename2, without options by its first rename.

        Returns:
            None after a rename2; true or false after a first rename, which is also
            what a server answers that does not know the options.
        """
        answer = self.ask("PUT", path, "RENAME", destination=destination, renameoptions=options)
        done: bool | None = answer.value
        return done

    def change_mode(self, path: str, permission: str) -> None:
        """Set mode bits, written in octal."""
        self.library.set_permission(path, permission)

    def change_owner(self, path: str, owner: str | None, group: str | None) -> None:
        """Set owner or group."""
        self.library.set_owner(path, owner=owner, group=group)

    def open_file(self, path: str, offset: int = 0) -> requests.Response:
        """Return the reply whose body is the file from an offset on; to be closed."""
        return self.ask("GET", path, "OPEN", offset=offset or None).reply

    def create_file(self, path: str, data: bytes | Iterable[bytes]) -> None:
        """Write a file where nothing is; its folder is made if it is missing.

        A DataNode that takes no connection has taken no data: the NameNode is asked for another.
        """
        for tries_left in reversed(range(_CREATE_TRIES)):
            answer = self.ask("PUT", path, "CREATE", overwrite="false")
            address = self.datanode(answer.reply, answer.value, path, "CREATE")
            try:
                self.send_once("PUT", address, path, "CREATE", data=data, params=AS_SENT).close()
            except HdfsError as error:
                if not tries_left or not error.unsent:
                    raise
            else:
                break

    def append_file(self, path: str, data: bytes) -> None:
        """Append to a file, in one request to a DataNode: all of it is there then, or perhaps nothing."""
        answer = self.ask("POST", path, "APPEND")
        address = self.datanode(answer.reply, answer.value, path, "APPEND")
        self.send_once("POST", address, path, "APPEND", data=data, params=AS_SENT).close()


_connections: dict[tuple[int, Account], Connection] = {}


def connection(account: Account) -> Connection:
    """Return this process's connection for an account; a forked process makes its own."""
    key = (os.getpid(), account)
    # no lock: it could be held at the moment of a fork; two threads at once make one too many
    return _connections.get(key) or _connections.setdefault(key, Connection(account))


@atexit.register
def _close_all() -> None:
    for (process, _account), opened in _connections.items():
        if process == os.getpid():
            opened.close()
