"""Files and folders on HDFS as Luigi targets."""

from __future__ import annotations

import gc
import logging
import pickle
import subprocess
from functools import partial

import luigi.contrib.hdfs
import luigi.format
import luigi.target
import pytest
from hdfs_backend import content, names, written

from luigi_pai.files import (
    HdfsFlagTarget,
    HdfsTarget,
    WebHdfs,
)


def test_constructing_touches_nothing(monkeypatch):
    """A target is made, shown and extended without a connection, a configuration or a hadoop command."""

    def forbidden(*_args, **_kwargs):
        raise AssertionError

    monkeypatch.setattr("socket.socket.connect", forbidden)
    monkeypatch.setattr(subprocess, "Popen", forbidden)
    monkeypatch.setattr(WebHdfs, "from_config", forbidden)
    target = HdfsTarget("hdfs://nn:9000/a:b") / "metrics.json"
    assert str(target) == target.path == "hdfs://nn:9000/a:b/metrics.json"
    assert isinstance(target, luigi.contrib.hdfs.HdfsTarget)


@pytest.mark.parametrize("form", [None, luigi.format.Nop, luigi.format.UTF8])
def test_pickle(form, fs, home):
    """Targets and file systems can be sent to another process, also after use."""
    target = HdfsTarget(written(fs, f"{home}/f"), format=form, fs=fs)
    target.open().close()
    copy = pickle.loads(pickle.dumps(target))
    assert copy.exists()
    assert copy.open().read() in ("text", b"text")
    assert repr(copy.fs) == repr(fs)


@pytest.mark.parametrize(
    ("form", "data"),
    [
        (None, "tëxt\n" * 3),
        (luigi.format.Text, "tëxt\n" * 3),
        (luigi.format.UTF8, "tëxt\n" * 3),
        (luigi.format.Nop, bytes(range(256))),
        (luigi.format.Gzip, b"bytes" * 1000),
        (luigi.format.Bzip2, b"bytes" * 1000),
        (luigi.format.UTF8 >> luigi.format.Gzip, "tëxt\n" * 1000),
        (luigi.format.UTF8 >> luigi.contrib.hdfs.Plain, "tëxt"),
        (luigi.contrib.hdfs.Plain, b"bytes"),
    ],
    ids=["default", "text", "utf8", "nop", "gzip", "bzip2", "utf8-gzip", "utf8-plain", "plain"],
)
def test_formats(form, data, fs, home):
    """Luigi's formats write and read their data; the old file is replaced, and nothing else is left."""
    target = HdfsTarget(f"{home}/deep/er/f", format=form, fs=fs)
    for part in (data[:1], data):
        with target.open("w") as file:
            file.write(part)
    with target.open() as file:
        assert file.read() == data
    assert names(fs, home) == ["deep", "deep/er", "deep/er/f"]


@pytest.mark.parametrize("form", [luigi.format.UTF8, luigi.format.UTF8 >> luigi.format.Gzip])
def test_lines(form, fs, home):
    """A file can be read line by line, with and without ``with``."""
    target = HdfsTarget(f"{home}/f", format=form, fs=fs)
    with target.open("w") as file:
        file.writelines(f"{number}\n" for number in range(1000))
    with target.open("r") as file:
        assert [int(line) for line in file] == list(range(1000))
    assert sum(1 for _line in target.open()) == 1000


@pytest.mark.parametrize(
    ("work", "kind", "message"),
    [
        (HdfsTarget, TypeError, "needs a path, or is_tmp=True"),
        (
            lambda: HdfsTarget("/p", format=luigi.contrib.hdfs.PlainDir),
            TypeError,
            "runs Hadoop's commands; use a format of luigi.format",
        ),
        *(
            (partial(HdfsTarget("/p").open, mode), ValueError, f"mode '{mode}': only 'r' and 'w'; for bytes")
            for mode in ("a", "rb", "rw", "wb", "x")
        ),
        *(
            (partial(HdfsTarget("/p").__truediv__, part), ValueError, "is not a path below /p")
            for part in ("", "/x", "..", "a/../../b", "a/..")
        ),
    ],
)
def test_what_is_refused_before_anybody_is_asked(work, kind, message):
    """No path, a format of Hadoop, another mode, and a path that leads out of a folder."""
    with pytest.raises(kind, match=message):
        work()


def test_children(fs, home):
    """``target / name`` is a target of the same class and file system, with the default format."""

    class Mine(HdfsTarget):
        pass

    folder = Mine(f"{home}/", format=luigi.format.Nop, fs=fs)
    child = folder / "a/b.json"
    assert type(child) is Mine
    assert child.path == f"{home}/a/b.json"
    assert child.fs is fs
    with child.open("w") as file:
        file.write("text")
    assert folder.exists()
    assert folder.isdir()
    assert not child.isdir()
    assert (HdfsTarget("/x", fs=fs) / "./y//z").path == "/x/y/z"


@pytest.mark.slow
def test_a_temporary_target_in_a_folder_of_ours(fs, home):
    """Only it is deleted with the target: the folder stays, though it is empty now."""
    target = HdfsTarget(written(fs, f"{home}/d/f"), is_tmp=True, fs=fs)
    assert target.exists()
    del target
    gc.collect()
    assert names(fs, home) == ["d"]


@pytest.mark.parametrize("name", ["read", "write", "readlines"])
def test_a_target_is_no_file(name):
    """The methods of files are an error that shows how to open one; other names are unknown."""
    with pytest.raises(
        AttributeError, match=rf"no attribute '{name}': open it, with target.open\(\) as file$"
    ):
        getattr(HdfsTarget("/p"), name)
    with pytest.raises(AttributeError, match=r"no attribute 'size'$"):
        HdfsTarget("/p").size  # noqa: B018


def test_wildcards_are_characters(fs, home, caplog):
    """``*`` in a path is a character: exists() finds that very file, and warns only if it is not there."""
    written(fs, f"{home}/a")
    target = HdfsTarget(f"{home}/*", fs=fs)
    with caplog.at_level(logging.WARNING):
        assert not target.exists()
        (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        caplog.clear()
        written(fs, target.path)
        assert target.exists()
    assert warning == (
        f"{home}/* does not exist. Here * and ? are ordinary characters; use glob_exists() to expand them"
    )
    assert not caplog.records


def test_a_pipeline(fs, home):
    """Luigi runs a task with such an output once, and finds it complete the second time."""
    runs = []

    class Write(luigi.Task):
        folder = luigi.Parameter()

        def output(self):
            return HdfsTarget(f"{self.folder}/out", fs=fs)

        def run(self):
            runs.append(1)
            with self.output().open("w") as file:
                file.write("done")

    for _ in range(2):
        assert luigi.build([Write(folder=home)], local_scheduler=True)
    assert runs == [1]
    assert content(fs, f"{home}/out") == "done"


# folders with a flag


def test_flag_target(fs, home):
    """A folder is complete when the flag is in it; the file system is the one that was given."""
    target = HdfsFlagTarget(f"{home}/out/", fs=fs)
    fs.mkdir(f"{home}/out")
    assert target.isdir()
    assert not target.exists()
    with (target / "part-00000").open("w") as file:
        file.write("data")
    assert not target.exists()
    fs.touchz(f"{home}/out/_SUCCESS")
    assert target.exists()
    assert HdfsFlagTarget(f"{home}/out/", None, fs).exists()
    assert not HdfsFlagTarget(f"{home}/out/", client=fs, flag="_DONE").exists()
    target.remove()
    assert names(fs, home) == []


def test_flag_target_is_luigis():
    """It passes for Luigi's own; a child of it is a plain target; a path without / at its end is refused."""
    target = HdfsFlagTarget("/out/")
    assert isinstance(target, luigi.contrib.hdfs.HdfsFlagTarget)
    assert isinstance(target, HdfsTarget)
    copy = pickle.loads(pickle.dumps(HdfsFlagTarget("/out/", flag="_DONE")))
    assert (copy.path, copy.flag) == ("/out/", "_DONE")
    assert target.flag == "_SUCCESS"
    assert type(target / "x") is HdfsTarget
    assert (target / "x").path == "/out/x"
    with pytest.raises(
        ValueError, match=r"'/out' does not end in /; an HdfsFlagTarget needs the path of a folder"
    ):
        HdfsFlagTarget("/out")


def test_flag_target_is_made_in_one_step(fs, home):
    """The files at a task's temporary path appear with the flag, all at once."""
    target = HdfsFlagTarget(f"{home}/out/", fs=fs)
    with target.temporary_path() as path:
        written(fs, f"{path}/part")
        fs.touchz(f"{path}/_SUCCESS")
        assert not target.exists()
    assert target.exists()
    assert names(fs, home) == ["out", "out/_SUCCESS", "out/part"]
