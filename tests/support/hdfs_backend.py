"""The two WebHDFS that the contract tests run against, and what a test does with files there."""

from __future__ import annotations

import os
import posixpath
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from real_hdfs import Missing, RealHdfs, installed

from luigi_pai.hdfs import WebHdfs

NEEDS_REAL_HDFS = pytest.mark.skipif(
    not os.environ.get("HDFS_TEST_URL"),
    reason=os.environ.get("HDFS_TEST_MISSING") or "no real HDFS was started; `make test-newest` does",
)
BACKENDS = ("local", "real") if os.environ.get("HDFS_TEST_URL") else ("local",)


@dataclass(frozen=True)
class Backend:
    """A WebHDFS.

    Attributes:
        name: ``local`` or ``real``.
        url: ``http://HOST:PORT``.
        user: its superuser.
        root: the folder on disk that the local one serves.
    """

    name: str
    url: str
    user: str
    root: Path | None = None

    def fs(self, user: str | None = None, **options: Any) -> WebHdfs:
        """Return it as a file system, as its superuser or somebody else."""
        options = {"connect_timeout": 5, "read_timeout": 20, **options}
        return WebHdfs(options.pop("url", self.url), user or self.user, **options)

    def make_folders(self, paths: list[str]) -> None:
        """Make many folders, on the shortest way."""
        if self.root:
            for path in paths:
                Path(f"{self.root}{path}").mkdir(parents=True)
        elif "HDFS_TEST_BIN" in os.environ:
            hdfs = Path(os.environ["HDFS_TEST_BIN"], "hdfs")
            subprocess.run([hdfs, "dfs", "-mkdir", "-p", *paths], check=True, timeout=120)
        else:
            for path in paths:
                self.fs().mkdir(path)


def own_hdfs(*, namenodes: int = 1, datanodes: int = 1) -> RealHdfs:
    """Return a real HDFS for tests that break it, not started; skips where there is none."""
    try:
        software = installed(timeout=60)
    except Missing as missing:
        pytest.skip(str(missing))
    return RealHdfs(software, namenodes=namenodes, datanodes=datanodes)


def written(fs: WebHdfs, path: str, text: str = "text") -> str:
    """Write a file and return its path."""
    with fs.open_writer(path) as file:
        file.write(text.encode())
    return path


def content(fs: WebHdfs, path: str) -> str:
    """Return the text of a file."""
    with fs.open_reader(path) as file:
        return file.read().decode()


def names(fs: WebHdfs, path: str) -> list[str]:
    """Return what is under a folder, all levels, relative to it."""
    return sorted(posixpath.relpath(entry, path) for entry in fs.listdir(path, recursive=True))
