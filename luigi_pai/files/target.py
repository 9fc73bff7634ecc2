"""Luigi targets for files and folders on the cluster's file system."""

from __future__ import annotations

import contextlib
import getpass
import logging
import posixpath
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import luigi.contrib.hdfs
import luigi.format
from luigi.contrib.hdfs.config import hdfs
from luigi.target import FileSystemTarget

from luigi_pai.errors import PaiError
from luigi_pai.files import cluster_files
from luigi_pai.files.errors import NOT_THERE, HdfsError
from luigi_pai.files.temporary import discard, is_temporary, temporary_path, tidy
from luigi_pai.files.writer import rename_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.files.writer import HdfsWriter

logger = logging.getLogger(__name__)

__all__ = ["HdfsFlagTarget", "HdfsTarget"]


class HdfsTarget(luigi.contrib.hdfs.HdfsTarget):
    """A file or folder on the cluster's file system: its HDFS, or a storage.

    Constructing a target makes no network requests and needs no configuration. A file that you write becomes
    visible only when it is complete: ``close()`` publishes it atomically. ``target / "metrics.json"`` is the
    target for a file in a folder.

    Args:
        path: The path, in any form that ``luigi_pai.files.hdfs_path`` accepts; ``target.path`` returns it
            unchanged. If None, the target gets a new temporary path, and ``is_tmp`` must be True.
        format: One of Luigi's formats. The default is text; use ``luigi.format.Nop`` for bytes.
        is_tmp: Whether to delete the file when the target is garbage-collected.
        fs: The file system. By default, the file system of ``cluster`` is used.
        cluster: The NAME of [OpenPai:NAME] in luigi.cfg. If None, the cluster of ``OpenPai.current()`` is
            used.

    Raises:
        TypeError: The format needs Hadoop's commands.
    """

    is_tmp = False

    def __init__(
        self,
        path: Any = None,
        format: Any = None,  # noqa: A002 - Luigi's name
        is_tmp: bool = False,  # noqa: FBT001, FBT002 - Luigi's signature
        fs: FileSystem | None = None,
        cluster: str | None = None,
    ) -> None:
        if path is None and not is_tmp:
            raise TypeError("HdfsTarget needs a path, or is_tmp=True")
        # not Luigi's own constructor, which rejects ':' and sets up a hadoop client
        FileSystemTarget.__init__(self, _temporary_path() if path is None else path)
        self.format = _byte_format(format)
        self.is_tmp = is_tmp
        self._fs = fs
        self._cluster = cluster

    def __del__(self) -> None:
        if self.is_tmp:
            with contextlib.suppress(PaiError):
                self.remove()
                volume, place = self.fs.at(self.path)
                tidy(volume, posixpath.dirname(place))

    def __truediv__(self, part: str) -> HdfsTarget:
        """Return the target for ``part`` in this folder; ValueError if it is absolute, empty or ``..``."""
        names = str(part).split("/")
        if not str(part) or names[0] == "" or ".." in names:
            raise ValueError(f"{part!r} is not a path below {self.path}")
        return type(self)(
            f"{self.path.rstrip('/')}/{posixpath.normpath(part)}", fs=self._fs, cluster=self._cluster
        )

    def __getitem__(self, part: object) -> NoReturn:
        raise TypeError(f"a target does not support brackets: for a file in it, write target / {str(part)!r}")

    def __fspath__(self) -> NoReturn:
        raise TypeError(
            f"{self.path} is on the cluster's file system, not on this machine: open it with target.open(), "
            "or use target.local_path if it is on a storage that this machine mounts"
        )

    __iter__ = None  # so that Luigi does not mistake it for a list

    def __getattr__(self, name: str) -> NoReturn:
        hint = ": open it, with target.open() as file" if name in ("read", "write", "readlines") else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __str__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @property
    def fs(self) -> FileSystem:
        """The file system."""
        return self._fs or cluster_files(self._cluster, self.path)

    @property
    def local_path(self) -> str:
        """The path of the file or folder on this machine, for pandas or torch. It does not have to exist.

        If another program writes to this path, readers see the file before it is complete. To avoid this, let
        the program write to ``fs.local_path(path)``, where ``path`` is what ``temporary_path()`` yields.

        Raises:
            HdfsError: The file system is HDFS, which is not mounted on this machine.
            ConfigError: The storage is not mounted on this machine.
        """
        return self.fs.local_path(self.path)

    def exists(self) -> bool:
        """Return whether the path exists. ``*`` and ``?`` are ordinary characters."""
        exists = self.fs.exists(self.path)
        if not exists and ("*" in self.path or "?" in self.path):
            logger.warning(
                "%s does not exist. Here * and ? are ordinary characters; use glob_exists() to expand them",
                self.path,
            )
        return exists

    def isdir(self) -> bool:
        """Return whether the path is a folder."""
        return self.fs.isdir(self.path)

    def open(self, mode: str = "r") -> Any:
        """Open the file.

        Args:
            mode: ``r`` to read or ``w`` to write. When you write, ``close()`` replaces the file. After an
                exception inside ``with``, the file is not replaced.

        Raises:
            HdfsError: The file to read does not exist, or the file system fails. Reading and closing the file
                can also raise it.
            ValueError: ``mode`` is neither ``r`` nor ``w``.
        """
        if mode == "r":
            try:
                return self.format.pipe_reader(self.fs.open_reader(self.path))
            except HdfsError as error:
                folder, name = posixpath.split(self.path)
                if error.next_step == NOT_THERE and self.fs.exists(f"{folder}/_SUCCESS"):
                    command = f"hdfs dfs -put {name} $PAI_OUTPUT_DIR/"
                    error.advise(f"its job succeeded without writing it; add to the job's command: {command}")
                raise
        if mode == "w":
            writer = self.fs.open_writer(self.path)
            pipe = self.format.pipe_writer(writer)
            _abort_together(pipe, writer)
            return pipe
        raise ValueError(f"mode {mode!r}: only 'r' and 'w'; for bytes use format=luigi.format.Nop")

    def remove(self, skip_trash: bool = True) -> None:  # noqa: FBT001, FBT002 - Luigi's signature
        """Delete the file or folder permanently; see ``FileSystem.remove``."""
        self.fs.remove(self.path, skip_trash=skip_trash)

    @contextlib.contextmanager
    def temporary_path(self) -> Iterator[str]:
        """Yield a temporary path. At the end of ``with``, it is renamed to this target's path.

        After an exception inside ``with``, it is deleted instead.
        """
        path = self.path.rstrip("/")
        volume, place = self.fs.at(path)
        # create a folder in the hidden folder, which ``tidy`` (in any process) would remove while it is empty
        hidden = temporary_path(path, volume.owner)
        folder = self.fs.at(hidden)[1]
        temporary = f"{hidden}/{posixpath.basename(path)}"
        volume.make_folders(folder)
        try:
            yield f"{temporary}/" if self.path.endswith("/") else temporary
            rename_exactly(volume, self.fs.at(temporary)[1], place)
        finally:
            discard(volume, folder)

    def glob_exists(self, expected_files: int) -> bool:
        """Return whether exactly ``expected_files`` files match the path.

        The path may contain ``*``, ``?``, ``[a-c]`` and ``{a,b}``.
        As in Luigi's hadoop client, a matching folder's entries are counted instead of the folder itself.
        Temporary files are not counted.
        """
        volume, place = self.fs.at(self.path)
        found = 0
        for path, status in volume.glob(place):
            entries = volume.list_status(path) if status["type"] == "DIRECTORY" else [status]
            found += sum(not is_temporary(entry["pathSuffix"]) for entry in entries)
        return found == expected_files

    def _is_writable(self, path: str) -> bool:
        """Return whether files can be created in a folder, or in a file's folder."""
        volume, place = self.fs.at(path)
        if not volume.is_folder(place):
            place = posixpath.dirname(place)
        probe = temporary_path(f"{place}/writable", volume.owner)
        try:
            volume.create_file(probe, b"")
            volume.remove(probe, recursive=False)
        except HdfsError as error:
            if error.exception == "AccessControlException":
                return False
            raise
        tidy(volume, posixpath.dirname(probe))
        return True


class HdfsFlagTarget(HdfsTarget, luigi.contrib.hdfs.HdfsFlagTarget):
    """A folder that is complete when it contains a flag file, like the ones that Hadoop and Spark write.

    ``target / "part-00000"`` is the HdfsTarget for a file in the folder.

    Args:
        path: The folder's path, which ends in ``/``.
        format: The same as for HdfsTarget.
        client: Luigi's name for ``fs``.
        flag: The name of the flag file in the folder.
        fs: The file system. By default, the file system of ``cluster`` is used.
        cluster: The same as for HdfsTarget.

    Raises:
        ValueError: The path does not end in ``/``.
    """

    def __init__(
        self,
        path: Any,
        format: Any = None,  # noqa: A002 - Luigi's name
        client: FileSystem | None = None,
        flag: str = "_SUCCESS",
        fs: FileSystem | None = None,
        cluster: str | None = None,
    ) -> None:
        if not str(path).endswith("/"):
            raise ValueError(
                f"{path!r} does not end in /; an HdfsFlagTarget needs the path of a folder, which ends in /"
            )
        HdfsTarget.__init__(self, path, format, fs=fs or client, cluster=cluster)
        self.flag: str = flag

    def __truediv__(self, part: str) -> HdfsTarget:
        return HdfsTarget(self.path, fs=self._fs, cluster=self._cluster) / part

    def exists(self) -> bool:
        """Return whether the flag is in the folder."""
        return self.fs.exists(f"{self.path}{self.flag}")


def _temporary_path() -> str:
    """Return a new path in ``tmp_dir`` of Luigi's [hdfs]. Luigi's tmppath does not run on every Python."""
    folder = hdfs().tmp_dir or "/tmp"  # noqa: S108 - on the cluster, as Luigi has it
    user = getpass.getuser()
    return temporary_path(posixpath.join(folder, user, "luigitemp"), user)


def _byte_format(given: Any) -> Any:
    """Return a format for byte streams: ``given``, without Luigi's PlainFormat, which runs hadoop."""
    plain = luigi.contrib.hdfs.PlainFormat
    if given is None:
        return luigi.format.get_default_format()
    if isinstance(given, plain):
        return luigi.format.Nop
    if isinstance(given, luigi.format.ChainFormat) and isinstance(given.args[-1], plain):
        return luigi.format.ChainFormat(*given.args[:-1])
    runs_hadoop = hasattr(given, "hdfs_writer") or hasattr(given, "hdfs_reader")
    if runs_hadoop or getattr(given, "output", None) == "hdfs":
        raise TypeError(f"{given!r} runs Hadoop's commands; use a format of luigi.format")
    return given


def _abort_together(pipe: Any, writer: HdfsWriter) -> None:
    """Make ``pipe.abort()`` also abort the writer, because Luigi's process pipes (gzip) do not."""
    while pipe is not None and pipe is not writer:
        inner = vars(pipe).get("_output_pipe", vars(pipe).get("_stream"))
        if isinstance(pipe, luigi.format.OutputPipeProcessWrapper):
            process: Any = pipe
            process.abort = partial(_abort_both, process.abort, inner)
        pipe = inner


def _abort_both(abort: Any, inner: Any) -> None:
    try:
        abort()
    finally:
        inner.abort()
