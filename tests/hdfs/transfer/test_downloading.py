"""Downloads: what arrives, what is fetched again and what is not, and what is left when they fail."""

from __future__ import annotations

import json
import os

import pytest
from hdfs_backend import STORAGE, WITH_PERMISSIONS, written
from webhdfs_scripted import file_status, scripted

from luigi_pai.files import HdfsError, TransferError, WebHdfs, download
from luigi_pai.files.hdfs.connection import HdfsReader
from luigi_pai.files.storage.posix import OpenedFile

MIB = 1024 * 1024


@pytest.fixture
def results(fs, home):
    """A folder on HDFS as a job leaves it."""
    written(fs, f"{home}/out/metrics.json", "{}")
    written(fs, f"{home}/out/deep/er/model ü%.bin", "model")
    fs.mkdir(f"{home}/out/none")
    return f"{home}/out"


def found(folder):
    """Return what is under a folder."""
    return sorted(str(place.relative_to(folder)) for place in folder.rglob("*"))


def test_a_folder_arrives(fs, results, tmp_path):
    """All files and folders, with the times of HDFS; the summary says how much that was."""
    done = download(fs, results, tmp_path / "here")
    assert found(tmp_path / "here") == ["deep", "deep/er", "deep/er/model ü%.bin", "metrics.json", "none"]
    assert (tmp_path / "here/deep/er/model ü%.bin").read_text() == "model"
    assert str(done) == f"downloaded 2 of 2 files, 7 B, to {tmp_path / 'here'}"
    server, place = fs.at(results)
    time = server.file_status(f"{place}/metrics.json")["modificationTime"]
    assert (tmp_path / "here/metrics.json").stat().st_mtime_ns == time * 1_000_000


def test_only_what_changed_is_fetched(fs, results, tmp_path):
    """What is new on HDFS, changed there, or changed here; what is only here stays."""
    download(fs, results, tmp_path)
    assert download(fs, results, tmp_path).moved == 0
    written(fs, f"{results}/metrics.json", "[]")
    written(fs, f"{results}/new", "new")
    (tmp_path / "deep/er/model ü%.bin").write_text("MODEL")
    (tmp_path / "mine").write_text("mine")
    assert download(fs, results, tmp_path).moved == 3
    assert (tmp_path / "metrics.json").read_text() == "[]"
    assert (tmp_path / "deep/er/model ü%.bin").read_text() == "model"
    assert (tmp_path / "mine").read_text() == "mine"
    assert download(fs, results, tmp_path).moved == 0


@pytest.mark.parametrize("goal", ["there", "there/", "new/", "new/name.json", "name.json"])
def test_a_single_file(fs, results, tmp_path, goal):
    """It goes to the path, or into a folder that exists or is written with a slash."""
    (tmp_path / "there").mkdir()
    download(fs, f"{results}/metrics.json", f"{tmp_path}/{goal}")
    place = tmp_path / goal if goal.endswith("name.json") else tmp_path / goal / "metrics.json"
    assert place.read_text() == "{}"
    assert download(fs, f"{results}/metrics.json", f"{tmp_path}/{goal}").moved == 0


def test_what_uploads_leave_on_hdfs_is_not_fetched(fs, results, tmp_path):
    """Neither what they note, nor what is not complete."""
    written(fs, f"{results}/.luigi-pai-manifest.json")
    written(fs, f"{results}/.luigi-pai-tmp-anna/x.0")
    assert download(fs, results, tmp_path).files == 2


def test_nothing_there(fs, home, tmp_path):
    """A path that is not on HDFS is an error, and nothing is made here."""
    with pytest.raises(HdfsError) as caught:
        download(fs, f"{home}/gone", tmp_path / "here")
    assert caught.value.exception == "FileNotFoundException"
    assert not (tmp_path / "here").exists()


def test_a_file_on_one_side_and_a_folder_on_the_other(fs, results, tmp_path):
    """It is an error that names the place, and nothing is fetched."""
    (tmp_path / "metrics.json").mkdir()
    with pytest.raises(TransferError, match=r"nothing of .* was fetched: .*json: is not a file here$"):
        download(fs, results, tmp_path)
    (tmp_path / "metrics.json").rmdir()
    (tmp_path / "deep").write_text("")
    with pytest.raises(TransferError, match=r"/deep: File exists$"):
        download(fs, results, tmp_path)
    assert found(tmp_path) == ["deep"]


def test_a_device_or_pipe_is_not_replaced(fs, results, tmp_path):
    """As root, ``luigi-pai get FILE /dev/null`` would leave a file there."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TransferError, match=r"/pipe: is not a file here$"):
        download(fs, f"{results}/metrics.json", tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("error", [HdfsError("broken"), OSError(28, "No space left on device")])
def test_a_file_that_breaks_off_does_not_appear(backend, fs, results, tmp_path, monkeypatch, error):
    """Neither under its name nor under another, and what was there before stays as it was."""
    (tmp_path / "metrics.json").write_text("before")

    def broken(_self, _buffer):
        raise error

    monkeypatch.setattr(OpenedFile if backend.name == STORAGE else HdfsReader, "readinto", broken)
    with pytest.raises(
        (HdfsError, TransferError), match=r"broken|metrics\.json: No space left|bin: No space left"
    ):
        download(fs, results, tmp_path)
    assert (tmp_path / "metrics.json").read_text() == "before"
    assert found(tmp_path) == ["deep", "deep/er", "metrics.json", "none"]


def test_a_place_here_that_cannot_be(fs, results, tmp_path):
    """A name that the disk does not take, a folder below a file: an error of one line that names it."""
    (tmp_path / "file").write_text("")
    for path in (results, f"{results}/metrics.json"):
        with pytest.raises(TransferError, match=r"not everything was fetched: .*: File name too long"):
            download(fs, path, tmp_path / ("n" * 300))
        with pytest.raises(TransferError, match=r"Not a directory|File exists"):
            download(fs, path, tmp_path / "file" / "below")


@WITH_PERMISSIONS
def test_what_may_not_be_read(backend, fs, results, tmp_path):
    """A file of somebody else's is an error that says whose right is missing; it does not appear."""
    fs.chmod(f"{results}/metrics.json", "600")
    with pytest.raises(HdfsError, match=r"AccessControlException: Permission denied: user=bob"):
        download(backend.fs("bob"), results, tmp_path)
    assert not (tmp_path / "metrics.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["../escaped", "..", "a/b", "/tmp/x", "", "a\0b", "\ud800"])
def test_a_server_cannot_write_outside_the_folder(tmp_path, name):
    """A name that leads elsewhere is refused, whatever server says it."""

    def script(handler):
        status = file_status(type="DIRECTORY", length=0)
        entry = {**status, "type": "FILE", "pathSuffix": name}
        answers = {
            "GETFILESTATUS": {"FileStatus": status},
            "LISTSTATUS": {"FileStatuses": {"FileStatus": [entry]}},
        }
        operation = next(operation for operation in answers if operation in handler.path)
        handler.answer(200, json.dumps(answers[operation]).encode())

    with (
        scripted(script) as url,
        pytest.raises(HdfsError, match=r"the answer has no FileStatuses|it is a file, not a folder"),
    ):
        download(WebHdfs(url, "x"), "/out", tmp_path / "here")
    assert found(tmp_path) == []
