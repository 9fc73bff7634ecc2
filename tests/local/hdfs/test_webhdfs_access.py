"""Permissions of the local WebHDFS and the disk; the rules are in tests/hdfs/test_permissions.py."""

from __future__ import annotations

import getpass
import sqlite3
import stat
from typing import TYPE_CHECKING

import hdfs
import pytest
from webhdfs_server import serving

if TYPE_CHECKING:
    from pathlib import Path


def mode(client: hdfs.InsecureClient, path: str) -> str:
    return str(client.status(path)["permission"])


def test_the_root_is_for_all(tmp_path: Path) -> None:
    """Everybody may write into ``/``, as an OpenPAI sets it up, until its mode is changed; that is kept."""
    with serving(tmp_path / "root") as url:
        hdfs.InsecureClient(url, user="anna").makedirs("/anna")
        root = hdfs.InsecureClient(url, user=getpass.getuser())
        assert mode(root, "/") == "777"
        root.set_permission("/", "755")
    text = r'Permission denied: user=bob, access=WRITE, inode="/":'
    with serving(tmp_path / "root") as url, pytest.raises(hdfs.HdfsError, match=text):
        hdfs.InsecureClient(url, user="bob").makedirs("/bob")


def test_the_server_can_always_serve(tmp_path: Path) -> None:
    """On disk the server keeps what it needs, whatever the mode on HDFS is."""
    with serving(tmp_path / "root") as url:
        anna = hdfs.InsecureClient(url, user="anna")
        anna.write("/d/f", b"data")
        for path, bits in (("/d/f", "0"), ("/d", "500")):
            anna.set_permission(path, bits)
            assert mode(anna, path) == bits
        assert stat.S_IMODE((tmp_path / "root" / "d").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "root" / "d" / "f").stat().st_mode) == 0o600
        with (
            pytest.raises(hdfs.HdfsError, match=r"Permission denied: user=anna, access=READ"),
            anna.read("/d/f"),
        ):
            pass
        with hdfs.InsecureClient(url, user=getpass.getuser()).read("/d/f") as reader:
            assert reader.read() == b"data"


def test_a_chmod_on_disk_counts(tmp_path: Path) -> None:
    """When a person changes the mode on disk, that is the mode."""
    with serving(tmp_path / "root") as url:
        anna = hdfs.InsecureClient(url, user="anna")
        anna.write("/f", b"data", permission="640")
        assert mode(anna, "/f") == "640"
        (tmp_path / "root" / "f").chmod(0o604)
        assert mode(anna, "/f") == "604"


def test_what_an_earlier_version_kept(tmp_path: Path) -> None:
    """A data folder of a version without modes and groups goes on; the modes are those on disk."""
    (tmp_path / "root").mkdir()
    file = tmp_path / "root" / "f"
    file.write_bytes(b"data")
    file.chmod(0o640)
    (tmp_path / "root.webhdfs").mkdir()
    with sqlite3.connect(tmp_path / "root.webhdfs" / "inodes.sqlite") as old:
        old.execute(
            "CREATE TABLE inode (id INTEGER PRIMARY KEY, owner TEXT NOT NULL, block_size INTEGER NOT NULL,"
            " replication INTEGER NOT NULL)"
        )
        old.execute("INSERT INTO inode VALUES (?, 'anna', 1048576, 2)", (file.stat().st_ino,))
    old.close()
    with serving(tmp_path / "root") as url:
        status = hdfs.InsecureClient(url, user="anna").status("/f")
    assert (status["owner"], status["group"], status["permission"]) == ("anna", "supergroup", "640")
    assert (status["blockSize"], status["replication"]) == (1048576, 2)
