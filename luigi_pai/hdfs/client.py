"""HDFS over WebHDFS, as a file system of Luigi's."""

from __future__ import annotations

import os
import posixpath
import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi.contrib.hdfs.abstract_client import HdfsFileSystem

from luigi_pai.errors import ConfigError
from luigi_pai.hdfs.addresses import api_base
from luigi_pai.hdfs.connection import Account, Connection, connection
from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError, MissingParentDirectory, NotADirectory, failed
from luigi_pai.hdfs.paths import hdfs_path, split_uri
from luigi_pai.hdfs.reader import BufferedHdfsReader, HdfsReader
from luigi_pai.hdfs.trash import move_to_trash
from luigi_pai.hdfs.writer import HdfsWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["WebHdfs"]

_COPIED_AT_ONCE = 1024 * 1024  # bytes
_NOT_FOUND = "FileNotFoundException"


class WebHdfs(HdfsFileSystem):
    """The cluster's HDFS.

    A path is written in any way that ``hdfs_path`` takes. It holds settings only,
    so that it can be pickled and forked: sessions are per process and server.
    Everything raises HdfsError for what the server refuses or does not answer,
    and ConfigError where ``webhdfs_url`` is needed and missing.

    Args:
        url: of the WebHDFS, ``http://HOST:PORT``, with ``/webhdfs/v1`` or without; several NameNodes are
            ``URL;URL``. None: only ``webhdfs://HOST:PORT/`` paths work.
        user: the user on HDFS.
        fs_uri: what ``$PAI_DEFAULT_FS_URI`` stands for, or None.
        auth: ``simple``, or ``kerberos``: as the one of the ticket, whatever ``user`` says.
        redirect: how DataNodes are reached, ``http://PROXY/{host}:{port}``; None: as the NameNode says.
        verify: check TLS certificates; True, False or a file of CA certificates.
        connect_timeout: seconds to wait for a connection.
        read_timeout: seconds to wait for an answer.
    """

    def __init__(
        self,
        url: str | None,
        user: str,
        fs_uri: str | None = None,
        *,
        auth: str = "simple",
        redirect: str | None = None,
        verify: bool | str = True,
        connect_timeout: float = 10.0,
        read_timeout: float = 30.0,
    ) -> None:
        urls = [one.rstrip("/").removesuffix("/webhdfs/v1") for one in (url or "").split(";") if one]
        self.url = ";".join(urls) or None
        self.user = user
        self.fs_uri = fs_uri
        self.auth = auth
        self.redirect = redirect
        self.verify = verify
        self.connect_timeout = connect_timeout
        self.read_timeout = read_timeout

    @classmethod
    def from_config(cls) -> WebHdfs:
        """Return the HDFS of the [OpenPai] section, or of Luigi's own configuration.

        Raises:
            ConfigError: a setting is wrong.
        """
        from luigi_pai.config import HdfsAccount, OpenPai  # noqa: PLC0415

        settings = OpenPai.current()
        user = settings.hdfs_user or settings.username
        account = settings.hdfs_account() or HdfsAccount((), user, settings.hdfs_auth)
        return cls(
            ";".join(account.urls),
            account.user,
            settings.fs_uri,
            auth=account.auth,
            redirect=settings.webhdfs_redirect,
            verify=settings.tls_verify(),
            connect_timeout=settings.connect_timeout,
            read_timeout=settings.read_timeout,
        )

    def __repr__(self) -> str:
        return f"WebHdfs({self.url!r}, {self.user!r})"

    # looking

    def exists(self, path: str) -> bool:
        """Return whether a file or folder is there."""
        return self._status(path) is not None

    def isdir(self, path: str) -> bool:
        """Return whether a folder is there."""
        status = self._status(path)
        return status is not None and status["type"] == "DIRECTORY"

    def listdir(
        self,
        path: str,
        ignore_directories: bool = False,  # noqa: FBT001, FBT002 - Luigi's signature
        ignore_files: bool = False,  # noqa: FBT001, FBT002
        include_size: bool = False,  # noqa: FBT001, FBT002
        include_type: bool = False,  # noqa: FBT001, FBT002
        include_time: bool = False,  # noqa: FBT001, FBT002
        recursive: bool = False,  # noqa: FBT001, FBT002
    ) -> Iterator[Any]:
        """Yield what is in a folder, as Luigi's hadoop client does.

        Yields:
            The path of each entry, beginning as ``path`` does; with an
            ``include``, a tuple of the path and size (bytes), type (``d`` or
            ``-``), time (of the last change, local, naive).
        """
        for entry, status in self._entries(path, recursive=recursive):
            is_folder = status["type"] == "DIRECTORY"
            if ignore_directories if is_folder else ignore_files:
                continue
            when = datetime.fromtimestamp(status["modificationTime"] / 1000, timezone.utc)
            facts = (
                (include_size, status["length"]),
                (include_type, "d" if is_folder else "-"),
                (include_time, when.astimezone().replace(tzinfo=None)),
            )
            wanted = tuple(fact for include, fact in facts if include)
            yield (entry, *wanted) if wanted else entry

    def count(self, path: str) -> dict[str, int]:
        """Return ``content_size`` in bytes, ``dir_count`` and ``file_count`` of all that is under a path."""
        server, place = self.at(path)
        summary = server.content_summary(place)
        return {
            "content_size": summary["length"],
            "dir_count": summary["directoryCount"],
            "file_count": summary["fileCount"],
        }

    # reading and writing

    def open_reader(self, path: str) -> BufferedHdfsReader:
        """Return a file, open for reading; it arrives in parts."""
        return BufferedHdfsReader(HdfsReader(*self.at(path)))

    def open_writer(self, path: str, *, overwrite: bool = True) -> HdfsWriter:
        """Return a file, open for writing; it appears when it is closed.

        Args:
            path: of the file; its folder is made where it is missing.
            overwrite: a file that is there is replaced; else it is a FileAlreadyExists.
        """
        server, place = self.at(path)
        if place == "/":
            raise failed("CREATE", place, server.server, "it is a folder")
        if not overwrite and self.exists(path):
            raise failed("CREATE", place, server.server, "it exists", kind=FileAlreadyExists)
        publish = self.replace if overwrite else self.rename_dont_move
        return HdfsWriter(lambda: self.at(path)[0], place, _on(path, publish))

    def touchz(self, path: str) -> None:
        """Make an empty file; FileAlreadyExists where something is there."""
        server, place = self.at(path)
        server.create_file(place, b"", overwrite=False)

    def put(self, local_path: str, destination: str) -> None:
        """Copy a local file or folder to HDFS; into a folder that exists. No file is replaced."""
        source = Path(local_path)
        target = f"{destination.rstrip('/')}/{source.name}" if self.isdir(destination) else destination
        self._put(source, target)

    def get(self, path: str, local_destination: str) -> None:
        """Copy a file or folder to the local disk; into a folder that exists. No file is replaced."""
        target = Path(local_destination)
        self._get(path, target / posixpath.basename(self.at(path)[1]) if target.is_dir() else target)

    def copy(self, path: str, destination: str) -> None:
        """Copy a file or folder within HDFS, through this machine; into a folder that exists."""
        name = posixpath.basename(self.at(path)[1])
        target = f"{destination.rstrip('/')}/{name}" if self.isdir(destination) else destination
        self._copy(path, target)

    # changing

    def mkdir(self, path: str, parents: bool = True, raise_if_exists: bool = False) -> None:  # noqa: FBT001, FBT002
        """Make a folder.

        Args:
            path: of the folder.
            parents: make those above it, too; else a missing one is a MissingParentDirectory.
            raise_if_exists: a folder that is there is a FileAlreadyExists.

        Raises:
            NotADirectory: a file is there.
        """
        server, place = self.at(path)
        if raise_if_exists and self.exists(path):
            raise failed("MKDIRS", place, server.server, "it exists", kind=FileAlreadyExists)
        if not parents and not self.isdir(_on_same(path, posixpath.dirname(place))):
            reason = f"{posixpath.dirname(place)} does not exist"
            raise failed("MKDIRS", place, server.server, reason, kind=MissingParentDirectory)
        try:
            server.make_folders(place, None)
        except FileAlreadyExists as error:
            raise failed("MKDIRS", place, server.server, "a file is there", kind=NotADirectory) from error

    def move(self, path: str, dest: str) -> None:
        """Rename, or move into a folder that exists; nothing is replaced. Missing folders are made.

        Raises:
            HdfsError: it was not done, and why.
        """
        server, place, goal = self._both(path, dest)
        server.make_folders(posixpath.dirname(goal), None)
        if not server.rename_to(place, goal):
            raise self._not_renamed(server, place, goal, path, dest)

    def rename_dont_move(self, path: str, dest: str) -> None:
        """Rename to exactly ``dest``, in one step. Missing folders are made.

        Raises:
            FileAlreadyExists: something is there; also a folder.
        """
        server, place, goal = self._both(path, dest)
        server.make_folders(posixpath.dirname(goal), None)
        try:
            done = server.rename_to(place, goal, "NONE")
        except HdfsError as error:
            if error.exception == "IOException" and self.exists(dest):
                raise failed(
                    "RENAME", place, server.server, f"{goal} exists", kind=FileAlreadyExists
                ) from error
            raise
        self._check_exact(server, (place, goal), (path, dest), done=done)

    def replace(self, path: str, dest: str) -> None:
        """Rename to exactly ``dest``, replacing a file that is there, in one step.

        A server that does not know this rename (HttpFS) is asked to delete the
        file first: there are then two steps.
        """
        server, place, goal = self._both(path, dest)
        done = server.rename_to(place, goal, "OVERWRITE")
        if done is False and self.exists(path) and self.exists(dest) and not self.isdir(dest):
            server.remove(goal, recursive=False)
            done = server.rename_to(place, goal)
        self._check_exact(server, (place, goal), (path, dest), done=done)

    def remove(self, path: str, recursive: bool = True, skip_trash: bool = True) -> None:  # noqa: FBT001, FBT002
        """Delete a file or folder.

        Args:
            path: of the file or folder.
            recursive: also a folder that is not empty.
            skip_trash: delete it for good. False: move it to the trash of the user,
                ``/user/NAME/.Trash/Current``, as the ``hdfs`` command does; what is
                in the trash already is deleted for good.

        Raises:
            HdfsError: nothing is there, or a folder is not empty and not to be deleted recursively,
                or it cannot be moved to the trash; then it stays where it is.
        """
        server, place = self.at(path)
        if not skip_trash and move_to_trash(server, place, recursive=recursive):
            return
        if not server.remove(place, recursive=recursive):
            raise failed("DELETE", place, server.server, "nothing is there", exception=_NOT_FOUND)

    def chmod(self, path: str, permissions: str | int, recursive: bool = False) -> None:  # noqa: FBT001, FBT002
        """Set mode bits.

        Args:
            path: of a file or folder.
            permissions: in octal, ``"755"``, or as a number, ``0o755``.
            recursive: of all that is under it, too.
        """
        mode = f"{permissions:o}" if isinstance(permissions, int) else permissions
        self._each(path, lambda server, place: server.change_mode(place, mode), recursive=recursive)

    def chown(self, path: str, owner: str | None, group: str | None, recursive: bool = False) -> None:  # noqa: FBT001, FBT002
        """Set owner, group or both; needs an HDFS superuser."""
        self._each(path, lambda server, place: server.change_owner(place, owner, group), recursive=recursive)

    # how it is done

    def at(self, path: str) -> tuple[Connection, str]:
        """Return the connection for a path, and the path as WebHDFS takes it."""
        place = hdfs_path(path, self.fs_uri)
        scheme, authority, _ = split_uri(path)
        urls = self.url.split(";") if self.url else []
        if "webhdfs" in scheme and authority:
            named = f"{'https' if scheme == 'swebhdfs' else 'http'}://{authority}"
            if urls and named.lower() not in [url.lower() for url in urls]:
                text = f"{path!r} is not on this HDFS: webhdfs_url in [OpenPai] is {self.url}"
                raise HdfsError(text, operation="resolve", path=path)
            urls = urls or [named]
        if not urls:
            raise ConfigError(
                f"webhdfs_url is not set in [OpenPai], and {path!r} is on HDFS: write webhdfs_url = "
                "http://NAMENODE:PORT into luigi.cfg (PORT: 5070 on an OpenPAI, else 50070, or 9870)"
            )
        account = Account(
            tuple(api_base(url) for url in urls),
            self.user,
            self.auth,
            self.redirect,
            self.verify,
            self.connect_timeout,
            self.read_timeout,
        )
        return connection(account), place

    def _both(self, path: str, dest: str) -> tuple[Connection, str, str]:
        server, place = self.at(path)
        other, goal = self.at(dest)
        if other is not server:
            raise failed("RENAME", place, server.server, f"{dest!r} is on {other.server}")
        return server, place, goal

    def _status(self, path: str) -> dict[str, Any] | None:
        server, place = self.at(path)
        try:
            return server.file_status(place)
        except HdfsError as error:
            if error.exception == _NOT_FOUND:
                return None
            raise

    def _entries(self, path: str, *, recursive: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        server, place = self.at(path)
        for status in server.list_status(place):
            entry = f"{path.rstrip('/')}/{status['pathSuffix']}" if status["pathSuffix"] else path
            yield entry, status
            if recursive and status["type"] == "DIRECTORY":
                yield from self._entries(entry, recursive=True)

    def _each(self, path: str, work: Callable[[Connection, str], None], *, recursive: bool) -> None:
        work(*self.at(path))
        if recursive and self.isdir(path):
            for entry, _status in self._entries(path, recursive=True):
                work(*self.at(entry))

    def _not_renamed(self, server: Connection, place: str, goal: str, path: str, dest: str) -> HdfsError:
        """Return the error for a rename that the server answered with false."""
        if not self.exists(path):
            return failed("RENAME", place, server.server, "nothing is there", exception=_NOT_FOUND)
        if self.exists(dest):
            return failed("RENAME", place, server.server, f"{goal} exists", kind=FileAlreadyExists)
        return failed(
            "RENAME", place, server.server, f"the server did not rename it to {goal}, and gives no reason"
        )

    def _check_exact(
        self, server: Connection, places: tuple[str, str], paths: tuple[str, str], *, done: bool | None
    ) -> None:
        """Check the end of a rename that must not move into a folder.

        Args:
            server: that was asked.
            places: source and destination, absolute.
            paths: the same, as they were given.
            done: what it answered; None from a server that knows such renames.
        """
        place, goal = places
        if done is False:
            raise self._not_renamed(server, place, goal, *paths)
        inside = posixpath.join(goal, posixpath.basename(place))
        if done and self.isdir(paths[1]) and self.exists(_on_same(paths[1], inside)):
            server.rename_to(inside, place)  # the server moved it into a folder: back
            raise failed("RENAME", place, server.server, f"{goal} exists", kind=FileAlreadyExists)

    def _put(self, source: Path, target: str) -> None:
        if source.is_dir():
            self.mkdir(target)
            for child in sorted(source.iterdir()):
                self._put(child, f"{target}/{child.name}")
            return
        with source.open("rb") as file, self.open_writer(target, overwrite=False) as writer:
            shutil.copyfileobj(file, writer, _COPIED_AT_ONCE)

    def _get(self, path: str, target: Path) -> None:
        server, place = self.at(path)
        if self.isdir(path):
            target.mkdir(exist_ok=True)
            for entry, status in self._entries(path, recursive=False):
                self._get(entry, target / status["pathSuffix"])
            return
        if target.exists():
            raise failed("OPEN", place, server.server, f"{target} exists", kind=FileAlreadyExists)
        incomplete = target.with_name(f".{target.name[:50]}.luigi-tmp-{os.getpid()}")
        try:
            with self.open_reader(path) as reader, incomplete.open("wb") as file:
                shutil.copyfileobj(reader, file, _COPIED_AT_ONCE)
            incomplete.replace(target)
        finally:
            incomplete.unlink(missing_ok=True)

    def _copy(self, path: str, target: str) -> None:
        if self.isdir(path):
            entries = list(self._entries(path, recursive=False))
            self.mkdir(target)
            for entry, status in entries:
                self._copy(entry, f"{target}/{status['pathSuffix']}")
            return
        with self.open_reader(path) as reader, self.open_writer(target, overwrite=False) as writer:
            shutil.copyfileobj(reader, writer, _COPIED_AT_ONCE)


def _on_same(path: str, place: str) -> str:
    """Return an absolute path, written for the server that another path names."""
    scheme, authority, _ = split_uri(path)
    return f"{scheme}://{authority}{place}" if "webhdfs" in scheme and authority else place


def _on(path: str, rename: Callable[[str, str], None]) -> Callable[[str, str], None]:
    """Return a rename of absolute paths, on the server that another path names."""
    return lambda old, new: rename(_on_same(path, old), _on_same(path, new))
