"""What Luigi asks of a file system and of its targets (luigi.target, luigi.contrib.hdfs), on each backend."""

from __future__ import annotations

import gc
import posixpath
from pathlib import Path

import luigi.contrib.hdfs
import luigi.format
import luigi.target
import pytest
from hdfs_backend import content, names, written

from luigi_pai.files import HdfsError, HdfsTarget, WebHdfs
from luigi_pai.files.temporary import temporary_path


def target(fs, path, **about):
    return HdfsTarget(path, fs=fs, **about)


# luigi.target.FileSystemTarget


def test_a_path_object(fs, home):
    """A path may be an object; the target keeps it as text."""
    assert target(fs, Path(home)).path == home
    assert str(target(fs, Path(home))) == home


@pytest.mark.parametrize("slash", ["", "/"])
def test_temporary_path(fs, home, slash):
    """It is beside the target, has its name and its slash, is new each time, and becomes the target's."""
    whole, inside = target(fs, f"{home}/below/name.txt{slash}"), "/part" if slash else ""
    paths = []
    with pytest.raises(luigi.target.FileAlreadyExists), whole.temporary_path() as path:  # noqa: PT012
        with whole.temporary_path() as other:
            paths = [path, other]
            for each in paths:
                assert each.startswith(f"{home}/below/")
                assert each.endswith(f"name.txt{slash}")
                assert fs.isdir(posixpath.dirname(each.rstrip("/")))
                written(fs, each.rstrip("/") + inside, each)
            assert not whole.exists()
        assert content(fs, f"{home}/below/name.txt{inside}") == other
    assert paths[0] != paths[1]
    assert names(fs, f"{home}/below") == ["name.txt", *([f"name.txt{inside}"] if slash else [])]


def test_a_temporary_path_that_is_not_published(fs, home):
    """After an exception, and where something is there at the end, nothing is left of it."""
    whole = target(fs, f"{home}/d/")
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught, whole.temporary_path() as path:  # noqa: PT012
        written(fs, f"{path}part")
        raise error
    assert caught.value is error
    assert names(fs, home) == []
    with (  # noqa: PT012
        pytest.raises(luigi.target.FileAlreadyExists, match=r"d exists|already exists"),
        whole.temporary_path() as path,
    ):
        written(fs, f"{path}part")
        written(fs, f"{home}/d/theirs", "theirs")
    assert names(fs, home) == ["d", "d/theirs"]


def test_a_temporary_path_into_which_nothing_is_written(fs, home):
    """It is an error: there is nothing to publish."""
    with (
        pytest.raises(luigi.target.FileSystemException, match="RENAME"),
        target(fs, f"{home}/f").temporary_path(),
    ):
        pass
    assert names(fs, home) == []


# luigi.contrib.hdfs.HdfsTarget


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("part-*", 3),
        ("part-0000?", 3),
        ("part-0000[12]", 2),
        ("part-0000[^1]", 2),
        ("{part-00000,other}", 2),
        ("*", 5),
        ("", 5),
        ("gone-*", 0),
        ("*/part-*", 1),
        ("$*", 1),
        ("part-00000", 1),
    ],
)
def test_glob_exists(fs, home, pattern, count):
    """True for the number of files that a pattern names, or that are in a folder, and for no other."""
    for name in ("part-00000", "part-00001", "part-00002", "other", "d/part-00009"):
        written(fs, f"{home}/{name}")
    if pattern == "$*":
        made(fs, f"{home}/$HOME")
    files = target(fs, f"{home}/{pattern}")
    assert [number for number in range(8) if files.glob_exists(number)] == [count]


def test_what_is_not_complete_matches_no_pattern(fs, home):
    """A file that somebody is writing is not there yet: no task is complete by it."""
    written(fs, f"{home}/d/part-0")
    written(fs, temporary_path(f"{home}/d/part-1", fs.at(home)[0].owner))
    for pattern in ("d", "d/*", "*"):
        assert HdfsTarget(f"{home}/{pattern}", fs=fs).glob_exists(1)
    assert fs.glob(f"{home}/d/*") == [f"{home}/d/part-0"]
    assert fs.glob(f"{home}/d/*/*") == []


def made(fs, path):
    """Make an empty file, whatever its name."""
    fs.at("/")[0].create_file(path, b"")


@pytest.mark.slow
def test_is_tmp(fs):
    """A temporary target has a path of its own, and is removed when it is forgotten."""
    one, other = HdfsTarget(is_tmp=True, fs=fs), HdfsTarget(is_tmp=True, fs=fs)
    assert one.path != other.path
    with one.open("w") as opened:
        opened.write("text")
    path = one.path
    assert fs.exists(path)
    del one
    gc.collect()
    assert not fs.exists(path)
    assert not fs.exists(posixpath.dirname(path))
    other.is_tmp = False  # its __del__ would ask the server, perhaps in the server's own thread


@pytest.mark.parametrize("method", ["rename", "move", "move_dir"])
def test_renaming_a_target(fs, home, method):
    """To a path or another target; the target keeps its path. Folders that are missing are made."""
    file = target(fs, written(fs, f"{home}/a", "text"))
    getattr(file, method)(f"{home}/new/b")
    assert file.path == f"{home}/a"
    assert not file.exists()
    assert content(fs, f"{home}/new/b") == "text"
    if method != "move_dir":
        target(fs, f"{home}/new/b").rename(target(fs, f"{home}/c"))
        with pytest.raises(RuntimeError, match="Destination exists"):
            target(fs, f"{home}/c").move(f"{home}/c", raise_if_exists=True)


def test_move_dir_does_not_nest(fs, home):
    """move_dir() takes the name or fails; move() goes into a folder that is there."""
    written(fs, f"{home}/a/f")
    fs.mkdir(f"{home}/b")
    with pytest.raises(luigi.target.FileAlreadyExists):
        target(fs, f"{home}/a").move_dir(f"{home}/b")
    target(fs, f"{home}/a").move(f"{home}/b")
    assert names(fs, home) == ["b", "b/a", "b/a/f"]


def test_copying_a_target(fs, home):
    """Into a folder that is there; folders as a whole; never into itself, and never over a file."""
    written(fs, f"{home}/a/f", "text")
    made(fs, f"{home}/a/$HOME")
    fs.mkdir(f"{home}/b")
    target(fs, f"{home}/a").copy(f"{home}/b")
    assert names(fs, f"{home}/b") == ["a", "a/$HOME", "a/f"]
    for inside in (f"{home}/a/c", f"{home}/a"):
        with pytest.raises(
            HdfsError,
            match=r"COPY .*/a on .*: a folder cannot be copied into itself, and .*/a/.* is in it",
        ):
            fs.copy(f"{home}/a", inside)
    with pytest.raises(luigi.target.FileAlreadyExists, match=r"b/a on .*: it exists"):
        fs.copy(f"{home}/a", f"{home}/b")
    assert names(fs, f"{home}/a") == ["$HOME", "f"]


def test_is_writable(fs, home):
    """Of a folder, of a file, and of what is not there yet: of the folder that it would be in."""
    written(fs, f"{home}/d/f")
    for path in ("d", "d/f", "d/g", "gone/below"):
        assert target(fs, f"{home}/{path}").is_writable()
    assert names(fs, home) == ["d", "d/f"]


# luigi.target.FileSystem


BELOW_A_FILE = {
    "mkdir": WebHdfs.mkdir,
    "write": written,
    "rename_dont_move": lambda fs, path: fs.rename_dont_move(
        written(fs, f"{path.removesuffix('/f/below')}/x"), path
    ),
    "move": lambda fs, path: fs.move(written(fs, f"{posixpath.dirname(path)}2"), path),
    "temporary_path": lambda fs, path: target(fs, path).temporary_path().__enter__(),
}


@pytest.mark.parametrize("work", BELOW_A_FILE)
def test_below_a_file(fs, home, work):
    """What would be below a file is a NotADirectory."""
    written(fs, f"{home}/f")
    with pytest.raises(luigi.target.NotADirectory):
        BELOW_A_FILE[work](fs, f"{home}/f/below")
    with pytest.raises(luigi.target.NotADirectory):
        fs.mkdir(f"{home}/f")


@pytest.mark.slow
def test_names_with_a_dollar(fs, home, tmp_path):
    """What other clients have called ``$HOME`` is listed, copied, fetched and changed with its folder."""
    written(fs, f"{home}/a/f")
    for name in ("$HOME", "${PAI_JOB_NAME}", "$"):
        made(fs, f"{home}/a/{name}")
    expected = ["$", "$HOME", "${PAI_JOB_NAME}", "f"]
    assert names(fs, f"{home}/a") == expected
    fs.chmod(home, "750", recursive=True)
    fs.get(f"{home}/a", str(tmp_path / "a"))
    assert sorted(place.name for place in (tmp_path / "a").iterdir()) == expected
    fs.put(str(tmp_path / "a"), f"{home}/b")
    fs.copy(f"{home}/a", f"{home}/c")
    assert names(fs, f"{home}/b") == names(fs, f"{home}/c") == expected
    assert fs.exists(f"$PAI_DEFAULT_FS_URI{home}/a/$HOME")
    fs.remove(f"{home}/a")
