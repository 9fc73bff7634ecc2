"""Names, sizes and depths that a file system must take, on both backends."""

from __future__ import annotations

import random

import pytest
from hdfs_backend import KINDS_OF_NAMES, content, names, written

from luigi_pai.files import (
    HdfsError,
    HdfsTarget,
)


@pytest.mark.parametrize(
    "name",
    [*KINDS_OF_NAMES, " a ", "u\u0308", "a?b=c", "a;b", "a;", "#LATEST", "\\"],
)
def test_names(name, fs, home):
    """Names that mean something elsewhere are names."""
    target = HdfsTarget(f"{home}/{name}", fs=fs)
    with target.open("w") as file:
        file.write(name)
    assert names(fs, home) == [name]
    assert target.open().read() == name
    target.rename(f"{home}/{name}2")
    assert content(fs, f"{home}/{name}2") == name
    assert not target.exists()


@pytest.mark.parametrize("name", ["100%", "100%25", "a%20b", "%41", "%2F", "%zz"])
def test_percent_in_names(name, fs, home):
    """``%`` is a character too, also where DataNodes decode twice, as those of 2.7.4 do."""
    written(fs, f"{home}/{name}/{name}", name)
    assert names(fs, home) == [name, f"{name}/{name}"]
    assert content(fs, f"{home}/{name}/{name}") == name
    fs.move(f"{home}/{name}", f"{home}/{name}{name}")
    assert content(fs, f"{home}/{name}{name}/{name}") == name


@pytest.mark.parametrize("size", [0, 1, 2**20 - 1, 2**20, 2**20 + 1, 2**26], ids=lambda size: f"{size}B")
def test_sizes(size, fs, home):
    """Files of 0 bytes to 64 MiB come back as they were sent."""
    data = random.Random(size).randbytes(size)
    with fs.open_writer(f"{home}/f") as file:
        file.write(data)
    assert fs.count(f"{home}/f")["content_size"] == size
    with fs.open_reader(f"{home}/f") as found:
        assert found.read() == data


@pytest.mark.slow
def test_deep_trees(fs, home):
    """A path of 64 folders is made, listed, moved and removed."""
    deep = "/".join(f"d{number}" for number in range(64))
    written(fs, f"{home}/{deep}/f")
    assert len(names(fs, home)) == 65
    fs.move(f"{home}/d0", f"{home}/other")
    assert content(fs, f"{home}/{deep.replace('d0/', 'other/', 1)}/f") == "text"
    fs.remove(f"{home}/other")
    assert names(fs, home) == []


@pytest.mark.slow
def test_many_entries(backend, fs, home):
    """A folder of 2,500 entries, which a NameNode lists 1,000 at a time, is listed whole, and in order."""
    backend.make_folders([f"{home}/many/{number:05}" for number in range(2_500)])
    found = list(fs.listdir(f"{home}/many", include_type=True))
    assert found == [(f"{home}/many/{number:05}", "d") for number in range(2_500)]


def test_missing_parents(fs, home):
    """Folders that are missing are made for a file, a folder, a rename and an empty file."""
    written(fs, f"{home}/a/b/f")
    fs.mkdir(f"{home}/c/d")
    fs.touchz(f"{home}/e/f")
    fs.rename_dont_move(f"{home}/a/b/f", f"{home}/g/h/i")
    assert names(fs, home) == ["a", "a/b", "c", "c/d", "e", "e/f", "g", "g/h", "g/h/i"]


@pytest.mark.slow
def test_colon_in_a_name_is_the_servers_to_refuse(backend, fs, home):
    """HDFS has no names with ':'; that is said when it is tried, not when a target is made. A storage has."""
    target = HdfsTarget(f"{home}/12:30", fs=fs)
    if backend.differences.status_of_colon is None:
        written(fs, target.path)
        assert names(fs, home) == ["12:30"]
        return
    if backend.differences.status_of_colon == (404, "FileNotFoundException"):
        assert not target.exists()
    else:
        with pytest.raises(HdfsError, match="Invalid path name"):
            target.exists()
    with pytest.raises(HdfsError, match="Invalid path name"), target.open("w") as file:
        file.write("text")
