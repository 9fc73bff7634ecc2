"""The file system, as Luigi knows one: the same on the local WebHDFS and on a real one."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hdfs_backend import ON_HDFS, content, names, written

from luigi_pai.files import (
    FileAlreadyExists,
    HdfsError,
    HdfsTarget,
    MissingParentDirectory,
    NotADirectory,
)


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
