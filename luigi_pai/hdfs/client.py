"""WebHdfs: HDFS over WebHDFS as a file system of Luigi."""

from __future__ import annotations

import dataclasses
import os
import posixpath
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi.contrib.hdfs.abstract_client import HdfsFileSystem

from luigi_pai.errors import ConfigError, PaiError
from luigi_pai.hdfs import renames
from luigi_pai.hdfs.addresses import api_base
from luigi_pai.hdfs.connection import connection, missing_ok
from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError, MissingParentDirectory
from luigi_pai.hdfs.globs import glob
from luigi_pai.hdfs.paths import hdfs_path, split_uri
from luigi_pai.hdfs.reader import BufferedHdfsReader, HdfsReader
from luigi_pai.hdfs.transfer.downloading import download
from luigi_pai.hdfs.transfer.local_tree import local_tree
from luigi_pai.hdfs.transfer.pool import JOBS, WorkerPool
from luigi_pai.hdfs.transfer.remote_tree import remote_tree
from luigi_pai.hdfs.transfer.staging import send_new
from luigi_pai.hdfs.transport import Account
from luigi_pai.hdfs.writer import HdfsWriter
from luigi_pai.outgoing.never_sent import log_left_out
from luigi_pai.redaction import check_no_login

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

    from luigi_pai.hdfs.connection import Connection

__all__ = ["WebHdfs"]


class WebHdfs(HdfsFileSystem):
    """The cluster's HDFS.

    Paths have any form that ``hdfs_path`` accepts. Methods raise HdfsError if the server refuses a request or
    does not answer, and ConfigError if ``webhdfs_url`` is needed and missing.

    Constructing a WebHdfs makes no network requests. It can be pickled, and used after a fork, because each
    process opens its own connections.

    Args:
        url: URL of WebHDFS, ``http://HOST:PORT``, with ``/webhdfs/v1`` or without; for several NameNodes,
            ``URL;URL``. If None, only ``webhdfs://HOST:PORT/`` paths work.
        user: the user on HDFS.
        fs_uri: value of ``$PAI_DEFAULT_FS_URI``, or None.
        auth: ``simple``, or ``kerberos``, which uses the ticket's user and ignores ``user``.
        redirect: what replaces ``http://HOST:PORT`` in URLs of DataNodes, such as
            ``http://PROXY/{host}:{port}``. If None, the URLs do not change.
        verify: check TLS certificates; True, False or a file of CA certificates.
        connect_timeout: seconds to wait for a connection.
        read_timeout: seconds to wait for an answer, or for its next part. A whole answer, except
            the content of a file, may take four times as long.
        section: the section of luigi.cfg that error texts name, ``OpenPai`` or ``OpenPai:NAME``.
    """

    def __init__(
        self,
        url: str | None,
        user: str,
        fs_uri: str | None = None,
        *,
        auth: str = Account.auth,
        redirect: str | None = None,
        verify: bool | str = True,
        connect_timeout: float = Account.connect_timeout,
        read_timeout: float = Account.read_timeout,
        section: str = Account.section,
    ) -> None:
        urls = [one.rstrip("/").removesuffix("/webhdfs/v1") for one in (url or "").split(";") if one]
        check_no_login(url or "")
        self.url = ";".join(urls) or None
        self.user = user
        self.fs_uri = fs_uri
        self.account = Account((), user, auth, redirect, verify, connect_timeout, read_timeout, section)

    @classmethod
    def from_config(cls, cluster: str | None = None) -> Self:
        """Return the HDFS of a cluster in luigi.cfg; ``OpenPai.hdfs_account`` finds its URLs.

        Args:
            cluster: the NAME of [OpenPai:NAME]; if None, the cluster of ``OpenPai.current()`` is used.

        Raises:
            ConfigError: a setting is wrong.
        """
        from luigi_pai.config import HdfsAccount, OpenPai  # noqa: PLC0415

        settings = OpenPai.current(cluster)
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
            section=settings.section,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, {self.user!r})"

    def at(self, path: str) -> tuple[Connection, str]:
        """Return the connection for a path, and the absolute path.

        Raises:
            HdfsError: the path is not on this HDFS.
            ConfigError: ``webhdfs_url`` is needed and missing.
        """
        try:
            return self._at(path)
        except PaiError as error:
            error.in_section(self.account.section)
            raise

    def _at(self, path: str) -> tuple[Connection, str]:
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
                f"webhdfs_url is not set in [OpenPai], and {path!r} is on HDFS: write webhdfs_url = http://"
                "NAMENODE:PORT into luigi.cfg (PORT: 5070 on an OpenPAI, else 50070, or 9870 since Hadoop 3)"
            )
        return connection(dataclasses.replace(self.account, bases=tuple(map(api_base, urls)))), place

    # lookups

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        server, place = self.at(path)
        return server.status(place) is not None

    def isdir(self, path: str) -> bool:
        """Return whether a path is a folder."""
        server, place = self.at(path)
        return server.is_folder(place)

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
        """Yield the entries of a folder, as Luigi's hadoop client does.

        Yields:
            The path of each entry; it begins with ``path`` as given. With ``include_`` arguments, a tuple of
            the path and the included facts: size in bytes, type (``d`` or ``-``), time of the last change (a
            naive datetime in local time).
        """
        server, place = self.at(path)
        for below, status in server.walk(place, recursive=recursive):
            entry = path.rstrip("/") + below[len(place.rstrip("/")) :] if below != place else path
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
        """Return ``content_size`` (bytes), ``dir_count`` and ``file_count`` of a path and all below it."""
        server, place = self.at(path)
        summary = server.ask("GET", place, "GETCONTENTSUMMARY").value
        return {
            "content_size": summary["length"],
            "dir_count": summary["directoryCount"],
            "file_count": summary["fileCount"],
        }

    # reading and writing

    def open_reader(self, path: str) -> BufferedHdfsReader:
        """Open a file for reading; its content is received in parts."""
        return BufferedHdfsReader(HdfsReader(*self.at(path)))

    def open_writer(self, path: str) -> HdfsWriter:
        """Open a file for writing; ``close()`` publishes the file, and replaces an existing one.

        A missing parent folder is made.
        """
        return HdfsWriter(*self.at(path))

    def touchz(self, path: str) -> None:
        """Make an empty file; FileAlreadyExists if the path exists."""
        server, place = self.at(path)
        server.create_file(place, b"")

    def put(self, local_path: str | os.PathLike[str], destination: str) -> None:
        """Copy a local file or folder to a new path on HDFS, or into an existing folder.

        Files that ``upload`` leaves out are left out here, too.

        Raises:
            FileAlreadyExists: the new path exists already.
            TransferError: some files cannot be sent, so none was published.
        """
        server, goal = self._goal(destination, os.path.basename(os.path.abspath(local_path)))  # noqa: PTH100, PTH119
        tree = local_tree(Path(local_path), posixpath.basename(goal))
        send_new(tree, server, goal)
        if tree.left_out:
            log_left_out(os.fspath(local_path), tree.left_out)

    def get(self, path: str, local_destination: str | os.PathLike[str]) -> None:
        """Copy a file or folder to a new local path, or into an existing folder.

        Raises:
            FileAlreadyExists: the new local path exists already.
            TransferError: a file cannot be written.
        """
        server, place = self.at(path)
        goal = Path(local_destination)
        goal = goal / posixpath.basename(place) if goal.is_dir() else goal
        if os.path.lexists(goal):
            raise server.failed("OPEN", place, f"{goal} exists", kind=FileAlreadyExists)
        download(self, path, goal)

    def copy(self, path: str, destination: str) -> None:
        """Copy a file or folder, through this machine, to a new path on HDFS or into an existing folder.

        Raises:
            FileAlreadyExists: the new path exists already.
            HdfsError: ``path`` is a folder that contains the new path.
        """
        source, place = self.at(path)
        server, goal = self._goal(destination, posixpath.basename(place))
        if source is server and goal.startswith(f"{place.rstrip('/')}/"):
            step = "copy it to a folder that is not in it"
            raise server.failed(
                "COPY", place, f"a folder cannot be copied into itself, and {goal} is in it", next_step=step
            )
        send_new(remote_tree(source, place, WorkerPool(JOBS)), server, goal)

    # changes

    def mkdir(self, path: str, parents: bool = True, raise_if_exists: bool = False) -> None:  # noqa: FBT001, FBT002
        """Make a folder.

        Args:
            path: of the folder.
            parents: make missing parents, too.
            raise_if_exists: raise FileAlreadyExists if the path exists, as a folder or as a file.

        Raises:
            MissingParentDirectory: ``parents`` is False, and the parent is missing or is a file.
            NotADirectory: the path is a file, or ``parents`` is True and a parent is a file.
        """
        server, place = self.at(path)
        if raise_if_exists and server.status(place):
            raise server.failed("MKDIRS", place, "it exists", kind=FileAlreadyExists)
        if not parents and not server.is_folder(posixpath.dirname(place)):
            reason = f"{posixpath.dirname(place)} does not exist"
            raise server.failed("MKDIRS", place, reason, kind=MissingParentDirectory)
        server.make_folders(place)

    def move(self, path: str, dest: str) -> None:
        """Rename, or move into an existing folder. Nothing is replaced; missing folders are made."""
        server, place, goal = self._both(path, dest)
        server.make_folders(posixpath.dirname(goal))
        renames.move(server, place, goal)

    def rename_dont_move(self, path: str, dest: str) -> None:
        """Rename to exactly ``dest`` in one step; FileAlreadyExists if it exists. Makes missing parents."""
        server, place, goal = self._both(path, dest)
        server.make_folders(posixpath.dirname(goal))
        renames.rename_exactly(server, place, goal)

    def replace(self, path: str, dest: str) -> None:
        """Rename to exactly ``dest`` in one step, replacing an existing file.

        If a server cannot do this (HttpFS), the existing file is first renamed to a temporary name, and is
        renamed back after an error.
        """
        renames.replace(*self._both(path, dest))

    def remove(self, path: str, recursive: bool = True, skip_trash: bool = True) -> None:  # noqa: FBT001, FBT002
        """Delete a file or folder.

        Args:
            path: of the file or folder.
            recursive: delete a folder even if it is not empty. If False, a folder that is not empty stays.
            skip_trash: must be True, because WebHDFS has no trash.

        Raises:
            HdfsError: the path does not exist, the folder is not empty but ``recursive`` is False, or
                ``skip_trash`` is False.
        """
        server, place = self.at(path)
        if not skip_trash:
            step = "delete it for good with skip_trash=True, or move it to another folder"
            raise server.failed("DELETE", place, "WebHDFS has no trash", next_step=step)
        if not server.remove(place, recursive=recursive):
            raise server.failed("DELETE", place, "nothing is there", exception="FileNotFoundException")

    def chmod(self, path: str, permissions: str | int, recursive: bool = False) -> None:  # noqa: FBT001, FBT002
        """Set mode bits, in octal (``"755"``) or as a number (``0o755``)."""
        mode = f"{permissions:o}" if isinstance(permissions, int) else permissions
        self._each(path, lambda server, place: server.library.set_permission(place, mode), below=recursive)

    def chown(self, path: str, owner: str | None, group: str | None, recursive: bool = False) -> None:  # noqa: FBT001, FBT002
        """Set owner, group or both. HDFS lets the owner set the group, but only a superuser the owner."""
        self._each(path, lambda server, place: server.library.set_owner(place, owner, group), below=recursive)

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern with ``*``, ``?``, ``[a-c]``, ``[^a]`` or ``{a,b}``."""
        return [path for path, _status in glob(*self.at(pattern))]

    def _goal(self, destination: str, name: str) -> tuple[Connection, str]:
        """Return connection and path of a copy. If ``destination`` is a folder, ``/name`` is added to it."""
        server, goal = self.at(destination)
        return server, posixpath.join(goal, name) if server.is_folder(goal) else goal

    def _both(self, path: str, dest: str) -> tuple[Connection, str, str]:
        server, place = self.at(path)
        other, goal = self.at(dest)
        if other is not server:
            raise server.failed("RENAME", place, f"{dest!r} is on {other.server}")
        return server, place, goal

    def _each(self, path: str, work: Callable[[Connection, str], object], *, below: bool) -> None:
        """Call a function for a path and, with ``below``, for each path below it."""
        server, place = self.at(path)
        work(server, place)
        if below and server.is_folder(place):
            for entry, _status in server.walk(place):
                with missing_ok():
                    work(server, entry)
