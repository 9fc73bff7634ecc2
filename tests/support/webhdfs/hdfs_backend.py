"""The file systems that the contract tests run against, and functions for their files."""

from __future__ import annotations

import getpass
import os
import posixpath
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
from hadoop_differences import Differences, differences_of, local_differences, version_at
from real_hdfs import HADOOP_2, HADOOPS, Hadoop, Missing, RealHdfs, installed
from storage_differences import storage_differences

from luigi_pai.files import FileSystem, Storage, WebHdfs
from luigi_pai.files.hdfs.connection import Connection
from luigi_pai.files.storage.volume import MountedVolume

if TYPE_CHECKING:
    from luigi_pai.files.volume import Volume


def needs(hadoop: Hadoop) -> pytest.MarkDecorator:
    """Return the mark of a test that needs a real HDFS of a version."""
    return pytest.mark.skipif(
        not os.environ.get(hadoop.variable("URL")),
        reason=os.environ.get(hadoop.variable("MISSING"))
        or f"no real HDFS {hadoop.version} was started; `make test-newest` does",
    )


NEEDS_REAL_HDFS = needs(HADOOP_2)
LOCAL, STORAGE = "local", "storage"
KINDS_OF_NAMES = ("a b", *["a+b", "ü漢🙂", "#1", "why?", "a#b", "a&b", "&=;,", "*[x]{y}", "'\"", "~", "-rf"])
"""Names that mean something in an address or to a shell."""
REAL = {hadoop.version: hadoop for hadoop in HADOOPS}
EACH_HDFS = (LOCAL, *(hadoop.version for hadoop in HADOOPS if os.environ.get(hadoop.variable("URL"))))
BACKENDS = (*EACH_HDFS, STORAGE)
EACH_HADOOP = [pytest.param(version, marks=needs(hadoop)) for version, hadoop in REAL.items()]
ON_HDFS = pytest.mark.parametrize("backend", EACH_HDFS, indirect=True)
"""The mark of a test about HDFS only: its addresses, its requests, its refusals."""
WITH_PERMISSIONS = pytest.mark.parametrize("backend", EACH_HADOOP, indirect=True)
"""The mark of a test about permissions, which the local WebHDFS keeps and does not check."""


@dataclass(frozen=True)
class Backend:
    """A WebHDFS, or a storage.

    Attributes:
        name: ``local``, the version of a real one, or ``storage``.
        url: ``http://HOST:PORT``; empty for a storage.
        user: its superuser.
        root: the folder on disk that the local one serves, or that is the storage.
        bin: the folder of the ``hdfs`` command of a real one.
    """

    name: str
    url: str
    user: str
    root: Path | None = None
    bin: Path | None = None

    def fs(self, user: str | None = None, **options: Any) -> FileSystem:
        """Return it as a file system, as its superuser or, on an HDFS, somebody else."""
        if self.name == STORAGE:
            return Storage("nfs1", str(self.root))
        options = {"connect_timeout": 5, "read_timeout": 20, **options}
        return WebHdfs(options.pop("url", self.url), user or self.user, **options)

    @property
    def settings(self) -> dict[str, str]:
        """The keys of [OpenPai] that name it."""
        if self.name == STORAGE:
            return {"storage": "nfs1", "storage_path": str(self.root)}
        return {"webhdfs_url": self.url, "hdfs_user": self.user}

    @property
    def prefix(self) -> str:
        """A prefix of paths, besides ``/``."""
        return "$PAI_DEFAULT_FS_URI" if self.name == STORAGE else "hdfs://nn:1"

    @property
    def volume_class(self) -> type[Volume]:
        """The class whose methods do the work."""
        return MountedVolume if self.name == STORAGE else Connection

    @property
    def differences(self) -> Differences:
        """Its differences from other file systems."""
        if self.name == STORAGE:
            return storage_differences()
        return local_differences() if self.root else differences_of(version_at(self.url))

    def mode(self, path: str) -> str:
        """Return the permission of a file or folder, in octal digits."""
        if self.name == STORAGE:
            return f"{Path(f'{self.root}{path}').stat().st_mode & 0o7777:o}"
        query = {"op": "GETFILESTATUS", "user.name": self.user}
        reply = requests.get(f"{self.url}/webhdfs/v1{path}", query, timeout=20)
        return str(reply.json()["FileStatus"]["permission"])

    def shown(self, path: str) -> str:
        """Return a path as errors show it."""
        return f"{self.root}{path}" if self.name == STORAGE else path

    def quota_folder(self) -> str:
        """Make a folder on a real one that has room for nothing, and return its path."""
        path = f"/tmp/quota-{uuid.uuid4().hex[:10]}"
        self.fs().mkdir(path)
        self.command("dfsadmin", "-setSpaceQuota", "1m", path)
        return path

    def make_folders(self, paths: list[str]) -> None:
        """Make many folders, on the shortest way."""
        if self.root:
            for path in paths:
                Path(f"{self.root}{path}").mkdir(parents=True)
        elif self.bin:
            self.command("dfs", "-mkdir", "-p", *paths)
        else:
            for path in paths:
                self.fs().mkdir(path)

    def command(self, *arguments: str) -> None:
        """Run the ``hdfs`` command of a real one; skips where it is not known."""
        if not self.bin:
            pytest.skip("this needs the hdfs command of a real HDFS; HDFS_TEST_BIN names its folder")
        subprocess.run([self.bin / "hdfs", *arguments], check=True, timeout=120)


def real_backend(version: str) -> Backend:
    """Return the real HDFS that the environment names for a version."""
    url, user, folder = (os.environ.get(REAL[version].variable(name)) for name in ("URL", "USER", "BIN"))
    return Backend(version, str(url), user or getpass.getuser(), bin=Path(folder) if folder else None)


def own_hdfs(version: str = HADOOP_2.version, *, namenodes: int = 1, datanodes: int = 1) -> RealHdfs:
    """Return a real HDFS for tests that break it, not started; skips where there is none."""
    found = installed([REAL[version]], timeout=60)[REAL[version]]
    if isinstance(found, Missing):
        pytest.skip(str(found))
    return RealHdfs(found, namenodes=namenodes, datanodes=datanodes)


def storage_backend(root: Path) -> Backend:
    """Return a folder of this machine as a storage."""
    return Backend(STORAGE, "", getpass.getuser(), root)


def written(fs: FileSystem, path: str, text: str = "text") -> str:
    """Write a file and return its path."""
    with fs.open_writer(path) as file:
        file.write(text.encode())
    return path


def content(fs: FileSystem, path: str) -> str:
    """Return the content of a file."""
    with fs.open_reader(path) as file:
        return file.read().decode()


def names(fs: FileSystem, path: str) -> list[str]:
    """Return the paths below a folder, all levels, relative to it."""
    return sorted(posixpath.relpath(entry, path) for entry in fs.listdir(path, recursive=True))
