"""What Luigi asks of a file system (luigi.target, luigi.contrib.hdfs), the same on each backend."""

from __future__ import annotations

import gc
import logging
import posixpath
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import luigi.contrib.hdfs
import luigi.format
import luigi.target
import pytest
from hdfs_backend import KINDS_OF_NAMES, ON_HDFS, content, names, written

from luigi_pai.files import (
    FileAlreadyExists,
    HdfsError,
    HdfsTarget,
    MissingParentDirectory,
    NotADirectory,
    WebHdfs,
)
from luigi_pai.files.temporary import temporary_path


def test_exists_and_isdir(fs, home):
    """Files and folders exist; only folders are folders; what is not there is neither."""
    written(fs, f"{home}/f")
    assert [fs.exists(f"{home}/{name}") for name in ("f", "", "nothing")] == [True, True, False]
    assert [fs.isdir(f"{home}/{name}") for name in ("f", "", "nothing")] == [False, True, False]


def test_listdir(backend, fs, home):
    """Entries begin as the path was written, with size, type and time where they are asked for."""
    written(fs, f"{home}/f", "four")
    written(fs, f"{home}/d/g")
    assert sorted(fs.listdir(home)) == [f"{home}/d", f"{home}/f"]
    assert list(fs.listdir(f"{backend.prefix}{home}", ignore_directories=True)) == [
        f"{backend.prefix}{home}/f"
    ]
    assert list(fs.listdir(home, ignore_files=True)) == [f"{home}/d"]
    assert sorted(fs.listdir(home, recursive=True)) == [f"{home}/d", f"{home}/d/g", f"{home}/f"]
    assert list(fs.listdir(f"{home}/f")) == [f"{home}/f"]
    ((path, size, kind, when),) = fs.listdir(
        home, ignore_directories=True, include_size=True, include_type=True, include_time=True
    )
    assert (path, size, kind) == (f"{home}/f", 4, "-")
    assert abs(when.timestamp() - time.time()) < 60


def test_folders_that_vanish_meanwhile(backend, fs, home, monkeypatch):
    """Those of temporary files come and go while others list the folder above, or set its modes."""
    written(fs, f"{home}/a/f")
    kind = backend.volume_class
    found = kind.list_status

    def then_removed(self, path):
        entries = found(self, path)
        if path == home:
            self.remove(f"{home}/.luigi-pai-tmp-anna", recursive=True)
        return entries

    monkeypatch.setattr(kind, "list_status", then_removed)
    fs.mkdir(f"{home}/.luigi-pai-tmp-anna/x")
    assert list(fs.listdir(home, recursive=True, ignore_directories=True)) == [f"{home}/a/f"]
    fs.mkdir(f"{home}/.luigi-pai-tmp-anna/x")
    fs.chmod(home, "750", recursive=True)
    assert fs.at(home)[0].file_status(f"{home}/a/f")["permission"] == "750"


def test_listdir_of_nothing(backend, fs, home):
    """A folder that is not there is an error, with its operation, path, server and next step."""
    with pytest.raises(HdfsError) as caught:
        list(fs.listdir(f"{home}/nothing"))
    error = caught.value
    assert (error.operation, error.path, error.exception) == (
        "LISTSTATUS",
        backend.shown(f"{home}/nothing"),
        "FileNotFoundException",
    )
    about = backend.differences.missing.format(path=f"{home}/nothing")
    assert str(error).removeprefix("HDFS ") == (
        f"LISTSTATUS {error.path} on {error.server}: FileNotFoundException: {about}; "
        "check the path, and that the task that writes it has run"
    )


def test_mkdir(fs, home):
    """Luigi's contract of mkdir: parents, raise_if_exists, and a file in the way."""
    fs.mkdir(f"{home}/a/b")
    fs.mkdir(f"{home}/a/b")
    fs.mkdir(f"{home}/a/c", parents=False)
    with pytest.raises(FileAlreadyExists, match=rf"MKDIRS .*{home}/a on .*: it exists"):
        fs.mkdir(f"{home}/a", raise_if_exists=True)
    with pytest.raises(MissingParentDirectory, match=rf"MKDIRS .*: {home}/x does not exist"):
        fs.mkdir(f"{home}/x/y", parents=False)
    written(fs, f"{home}/f")
    with pytest.raises(NotADirectory, match=r"it is a file|f is a file"):
        fs.mkdir(f"{home}/f")
    assert names(fs, home) == ["a", "a/b", "a/c", "f"]


def test_move(fs, home):
    """Move renames, moves into a folder that exists, and makes the folders that are missing."""
    fs.move(written(fs, f"{home}/f"), f"{home}/new/g")
    fs.mkdir(f"{home}/d")
    fs.rename(f"{home}/new/g", f"{home}/d")
    assert names(fs, home) == ["d", "d/g", "new"]


def test_move_that_is_not_done(fs, home):
    """A rename that the server answers with false is an error that says why."""
    written(fs, f"{home}/f", "f")
    written(fs, f"{home}/g", "g")
    with pytest.raises(FileAlreadyExists, match=rf"RENAME .*{home}/f on .*: .*{home}/g exists"):
        fs.move(f"{home}/f", f"{home}/g")
    with pytest.raises(HdfsError, match=r": nothing is there"):
        fs.move(f"{home}/nothing", f"{home}/h")
    assert (content(fs, f"{home}/f"), content(fs, f"{home}/g")) == ("f", "g")


def test_rename_dont_move(fs, home):
    """The exact rename never moves into a folder and never replaces a file."""
    written(fs, f"{home}/f")
    fs.mkdir(f"{home}/d")
    written(fs, f"{home}/g")
    fs.mkdir(f"{home}/e")
    for source, destination in (("f", "d"), ("f", "g"), ("e", "d"), ("e", "g")):
        with pytest.raises(FileAlreadyExists):
            fs.rename_dont_move(f"{home}/{source}", f"{home}/{destination}")
    fs.rename_dont_move(f"{home}/f", f"{home}/new/h")
    assert names(fs, home) == ["d", "e", "g", "new", "new/h"]
    with pytest.raises(HdfsError, match="FileNotFoundException"):
        fs.rename_dont_move(f"{home}/nothing", f"{home}/x")


def test_replace(fs, home):
    """The replacing rename replaces a file, and no folder."""
    written(fs, f"{home}/f", "new")
    written(fs, f"{home}/g", "old")
    fs.replace(f"{home}/f", f"{home}/g")
    assert content(fs, f"{home}/g") == "new"
    fs.mkdir(f"{home}/d")
    with pytest.raises(HdfsError, match=r"must both be directories|d is a folder"):
        fs.replace(f"{home}/g", f"{home}/d")
    with pytest.raises(HdfsError, match="FileNotFoundException"):
        fs.replace(f"{home}/nothing", f"{home}/h")
    assert names(fs, home) == ["d", "g"]


def test_remove(fs, home):
    """Removing takes files and folders; nothing there, and a full folder without recursive, are errors."""
    written(fs, f"{home}/d/f")
    with pytest.raises(HdfsError, match="PathIsNotEmptyDirectoryException"):
        fs.remove(f"{home}/d", recursive=False)
    fs.remove(f"{home}/d")
    assert names(fs, home) == []
    with pytest.raises(HdfsError, match=r"DELETE .*: nothing is there") as caught:
        fs.remove(f"{home}/d")
    assert caught.value.exception == "FileNotFoundException"


@pytest.mark.parametrize("path", ["/", "//", "/.", "$PAI_DEFAULT_FS_URI/", "{home}/../../../.."])
def test_the_root_folder_is_not_deleted(fs, home, path):
    """A variable that is not set makes it of a path: `rm -r $FOLDER/`."""
    fs.mkdir(f"{home}/d")
    with pytest.raises(
        HdfsError, match=r"this is the root folder, with the files of all; delete what is in it"
    ):
        fs.remove(path.replace("{home}", home))
    assert fs.exists(f"{home}/d")


def test_chmod(backend, fs, home):
    """Mode bits are octal digits or a number; recursive reaches everything."""

    def modes():
        return [backend.mode(path) for path in (home, f"{home}/d", f"{home}/d/f")]

    written(fs, f"{home}/d/f")
    fs.chmod(home, "750")
    fs.chmod(f"{home}/d", 0o700)
    assert modes() == ["750", "700", backend.differences.new_file_mode]
    fs.chmod(home, "755", recursive=True)
    assert modes() == ["755", "755", "755"]
    with pytest.raises(HdfsError, match="IllegalArgumentException"):
        fs.chmod(home, "u+x")


def test_count(fs, home):
    """Count gives bytes, folders (itself too) and files."""
    written(fs, f"{home}/a", "12345")
    written(fs, f"{home}/d/b", "123")
    assert fs.count(home) == {"content_size": 8, "dir_count": 2, "file_count": 2}


def test_touchz(fs, home):
    """touchz makes an empty file, and leaves one that is there."""
    fs.touchz(f"{home}/f")
    assert content(fs, f"{home}/f") == ""
    written(fs, f"{home}/f", "full")
    with pytest.raises(FileAlreadyExists):
        fs.touchz(f"{home}/f")
    assert content(fs, f"{home}/f") == "full"


def test_put_get_copy(fs, home, tmp_path):
    """Files and folders go there, within and back as they are, into folders that exist."""
    (tmp_path / "up" / "sub").mkdir(parents=True)
    (tmp_path / "up" / "sub" / "f").write_bytes(bytes(range(256)))
    (tmp_path / "up" / "empty").mkdir()
    fs.put(str(tmp_path / "up"), f"{home}/x")
    fs.put(str(tmp_path / "up"), home)
    fs.copy(f"{home}/x", f"{home}/y")
    fs.copy(f"{home}/x/sub/f", f"{home}/y")
    assert names(fs, f"{home}/y") == ["empty", "f", "sub", "sub/f"]
    assert names(fs, f"{home}/up") == names(fs, f"{home}/x")
    (tmp_path / "down").mkdir()
    fs.get(f"{home}/y", str(tmp_path / "down"))
    assert (tmp_path / "down" / "y" / "sub" / "f").read_bytes() == bytes(range(256))
    assert (tmp_path / "down" / "y" / "empty").is_dir()


def test_put_leaves_out_credentials(fs, home, tmp_path, caplog):
    """As uploads do; a log line names them."""
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / ".env").write_text("PASSWORD=x")
    (tmp_path / "up" / "a").write_text("a")
    with caplog.at_level(logging.INFO, "luigi-interface"):
        fs.put(str(tmp_path / "up"), f"{home}/x")
    assert names(fs, f"{home}/x") == ["a"]
    assert f"{tmp_path}/up: left out: .env (credentials are never sent)" in caplog.text


def test_put_and_get_replace_nothing(fs, home, tmp_path):
    """put and get keep the file that is there, and say so."""
    (tmp_path / "f").write_text("local")
    written(fs, f"{home}/f", "remote")
    with pytest.raises(FileAlreadyExists):
        fs.put(str(tmp_path / "f"), f"{home}/f")
    with pytest.raises(FileAlreadyExists, match=r"/f exists"):
        fs.get(f"{home}/f", str(tmp_path / "f"))
    assert ((tmp_path / "f").read_text(), content(fs, f"{home}/f")) == ("local", "remote")
    assert names(fs, home) == ["f"]


@ON_HDFS
def test_webhdfs_uri_names_its_server(settings, url, home, fs):
    """A webhdfs:// path goes to its own server where webhdfs_url is not configured, for all it does."""
    settings(hdfs_user=fs.user)
    target = HdfsTarget(f"{url.replace('http', 'webhdfs')}{home}/f")
    with target.open("w") as file:
        file.write("named")
    assert target.open().read() == "named"
    assert content(fs, f"{home}/f") == "named"


@pytest.mark.slow
def test_threads_share_a_file_system(fs, home):
    """Many threads write and read at once."""

    def work(number):
        return content(fs, written(fs, f"{home}/{number}", str(number) * 1000))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(24))) == [str(number) * 1000 for number in range(24)]


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
