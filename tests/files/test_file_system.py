"""The methods that Luigi uses (luigi.target, luigi.contrib.hdfs), on each backend."""

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
from file_cases import Player, steps, table
from hdfs_backend import ON_HDFS, content, names, written

from luigi_pai.files import HdfsError, HdfsTarget
from luigi_pai.files.temporary import temporary_path


@steps("file_system")
def test_operations(backend, fs, home, tmp_path, steps):
    """Each case of the section ``file_system`` of tests/data/files/steps.yaml."""
    Player(fs, tmp_path, home=home, prefix=backend.prefix).play(steps)


def test_facts_of_entries(fs, home):
    """Size, type and time are given where they are asked for."""
    before = time.time() - 1  # file systems round down
    written(fs, f"{home}/f", "four")
    ((path, size, kind, when),) = fs.listdir(
        home, ignore_directories=True, include_size=True, include_type=True, include_time=True
    )
    assert (path, size, kind) == (f"{home}/f", 4, "-")
    assert before <= when.timestamp() <= time.time()


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


def test_put_leaves_out_credentials(fs, home, tmp_path, caplog):
    """As uploads do; a log line names them."""
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / ".env").write_text("PASSWORD=x")
    (tmp_path / "up" / "a").write_text("a")
    with caplog.at_level(logging.INFO, "luigi-interface"):
        fs.put(str(tmp_path / "up"), f"{home}/x")
    assert names(fs, f"{home}/x") == ["a"]
    assert f"{tmp_path}/up: left out: .env (credentials are never sent)" in caplog.text


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
    """A path may be an object; the target keeps it as a string."""
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


def test_what_is_not_complete_matches_no_pattern(fs, home):
    """A file that somebody is writing is not there yet: no task is complete by it."""
    written(fs, f"{home}/d/part-0")
    written(fs, temporary_path(f"{home}/d/part-1", fs.at(home)[0].owner))
    for pattern in ("d", "d/*", "*"):
        assert HdfsTarget(f"{home}/{pattern}", fs=fs).glob_exists(1)
    assert fs.glob(f"{home}/d/*") == [f"{home}/d/part-0"]
    assert fs.glob(f"{home}/d/*/*") == []


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


@table("names", "name")
def test_names(name, fs, home):
    """Names that mean something elsewhere are names, also where DataNodes decode ``%`` twice (2.7.4)."""
    target = HdfsTarget(f"{home}/{name}/{name}", fs=fs)
    with target.open("w") as file:
        file.write(name)
    assert names(fs, home) == [name, f"{name}/{name}"]
    assert target.open().read() == name
    fs.move(f"{home}/{name}", f"{home}/{name}{name}")
    assert content(fs, f"{home}/{name}{name}/{name}") == name
    assert not target.exists()


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


@pytest.mark.slow
def test_colon_in_a_name_is_the_servers_to_refuse(backend, fs, home):
    """HDFS has no names with ':'; the first use is an error, not the constructor. A storage has."""
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
