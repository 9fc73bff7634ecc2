"""The ways to write a path on HDFS."""

from __future__ import annotations

import pytest
from file_cases import table

from luigi_pai.files import (
    HdfsError,
    hdfs_path,
)


@table("paths on HDFS", "given path")
@pytest.mark.parametrize("fs_uri", [None, "hdfs://nn:9000"])
def test_path(given, path, fs_uri):
    """Every way to write a path on the cluster's HDFS means the absolute path."""
    assert hdfs_path(given, fs_uri) == path


@table("paths that are not on HDFS", "given why")
def test_an_invalid_path(given, why):
    """A path that cannot be on this HDFS is an error that says why, never a file that is missing."""
    with pytest.raises(HdfsError) as caught:
        hdfs_path(given, "hdfs://nn:9000")
    assert str(caught.value).startswith(f"{given!r} is not a path on this HDFS: {why}")


def test_path_of_default_port_and_base():
    """8020 is the port where none is written; a path in fs_uri is the base of $PAI_DEFAULT_FS_URI only."""
    assert hdfs_path("hdfs://nn/p", "hdfs://nn:8020") == "/p"
    assert hdfs_path("$PAI_DEFAULT_FS_URI/p", "hdfs://nn:9000/base") == "/base/p"
    assert hdfs_path("hdfs://nn:9000/p", "hdfs://nn:9000/base") == "/p"
    assert hdfs_path("viewfs://c/p", "viewfs://c") == "/p"
