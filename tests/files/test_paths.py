"""The ways to write a path on HDFS."""

from __future__ import annotations

import pytest

from luigi_pai.files import (
    HdfsError,
    hdfs_path,
)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/p", "/p"),
        ("/", "/"),
        ("//a///b/", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("/.hidden", "/.hidden"),
        ("hdfs://nn:9000/p", "/p"),
        ("hdfs://nn:9000", "/"),
        ("hdfs:///p", "/p"),
        ("hdfs:/p", "/p"),
        ("HDFS://NN:9000/P", "/P"),
        ("webhdfs://nn:50070/p", "/p"),
        ("swebhdfs://nn:50470/p", "/p"),
        ("$PAI_DEFAULT_FS_URI/p", "/p"),
        ("${PAI_DEFAULT_FS_URI}/p", "/p"),
        ("$PAI_DEFAULT_FS_URI", "/"),
        ("/a b/ü#x?y=%20&*[z]{1}", "/a b/ü#x?y=%20&*[z]{1}"),
        ("hdfs://nn:9000/a#b?c", "/a#b?c"),
        ("/Outer$Inner.class", "/Outer$Inner.class"),
        ("/12:30/x", "/12:30/x"),
    ],
)
@pytest.mark.parametrize("fs_uri", [None, "hdfs://nn:9000"])
def test_path(given, path, fs_uri):
    """Every way to write a path on the cluster's HDFS means the absolute path."""
    assert hdfs_path(given, fs_uri) == path


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("p", "it is relative; begin it with / or hdfs://HOST:PORT/ or $PAI_DEFAULT_FS_URI/"),
        ("", "it is relative"),
        ("./p", "it is relative"),
        ("a:b", "it is relative"),
        ("$HOME/p", "$HOME is unknown; only $PAI_DEFAULT_FS_URI is resolved, at the beginning"),
        ("/data/$PAI_USER_NAME/p", "$PAI_USER_NAME is unknown"),
        ("/data/x${DAY}", "${DAY} is unknown"),
        ("$PAI_DEFAULT_FS_URIS/p", "$PAI_DEFAULT_FS_URIS is unknown"),
        ("s3://bucket/p", "s3: is not HDFS"),
        ("file:///p", "file: is not HDFS"),
        ("hdfs://other:9000/p", "it is on hdfs://other:9000, and fs_uri in [OpenPai] is hdfs://nn:9000"),
        ("hdfs://nn:9001/p", "it is on hdfs://nn:9001"),
    ],
)
def test_an_invalid_path(given, why):
    """A path that cannot be on this HDFS is an error that says why, never a file that is missing."""
    with pytest.raises(HdfsError) as caught:
        hdfs_path(given, "hdfs://nn:9000")
    assert str(caught.value).startswith(f"{given!r} is no path on this HDFS: {why}")


def test_path_of_default_port_and_base():
    """8020 is the port where none is written; a path in fs_uri is the base of $PAI_DEFAULT_FS_URI only."""
    assert hdfs_path("hdfs://nn/p", "hdfs://nn:8020") == "/p"
    assert hdfs_path("$PAI_DEFAULT_FS_URI/p", "hdfs://nn:9000/base") == "/base/p"
    assert hdfs_path("hdfs://nn:9000/p", "hdfs://nn:9000/base") == "/p"
    assert hdfs_path("viewfs://c/p", "viewfs://c") == "/p"
