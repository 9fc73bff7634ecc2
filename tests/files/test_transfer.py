"""Uploads and downloads: arrivals, unchanged files, and failures."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import posixpath
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from file_cases import Player, steps, table
from hdfs_backend import KINDS_OF_NAMES, LOCAL, ON_HDFS, STORAGE, WITH_PERMISSIONS, content, names, written
from waiting import wait_until
from webhdfs_scripted import file_status, scripted
from webhdfs_server import serving

from luigi_pai.files import (
    HdfsError,
    TransferError,
    WebHdfs,
    download,
    staging,
    temporary,
    transfer,
    upload,
)
from luigi_pai.files.hdfs.connection import Connection, HdfsReader
from luigi_pai.files.pool import WorkerPool
from luigi_pai.files.staging import Stage
from luigi_pai.files.storage.posix import OpenedFile
from luigi_pai.files.trees import LocalFile
from luigi_pai.local.hdfs.webhdfs.handlers import WebHdfsHandler
from luigi_pai.local.hdfs.webhdfs.namespace import RemoteFault
from luigi_pai.private_folder import one_at_a_time

MANIFEST = ".luigi-pai-manifest.json"
MIB = 1024 * 1024


@pytest.fixture
def source(tmp_path):
    """A folder with three files and an empty folder."""
    folder = tmp_path / "src"
    (folder / "lib").mkdir(parents=True)
    (folder / "none").mkdir()
    (folder / "train.py").write_text("train")
    (folder / "lib" / "a.py").write_text("aaa")
    (folder / "lib" / "b.py").write_text("bbb")
    return folder


@pytest.fixture
def sent(monkeypatch):
    """The names of the files that were sent, but manifests."""
    gone = []
    send = Stage.send

    def spy(self, file):
        send(self, file)
        gone.append(file.name)

    monkeypatch.setattr(Stage, "send", spy)
    return gone


@pytest.fixture
def asked(monkeypatch):
    """Method, operation and path of the requests to HDFS."""
    requests = []
    send = Connection.send_once

    def spy(self, method, url, path, operation, **about):
        requests.append((method, operation, path))
        return send(self, method, url, path, operation, **about)

    monkeypatch.setattr(Connection, "send_once", spy)
    return requests


@steps("transfer")
def test_transfers(fs, home, tmp_path, steps):
    """Each case of the section ``transfer`` of tests/data/files/steps.yaml."""
    Player(fs, tmp_path, home=home, long="n" * 300).play(steps)


def is_clean(fs, folder):
    """Return whether no upload has left anything behind in or under a folder."""
    return not [name for name in names(fs, folder) if "tmp" in name]


def test_a_folder_arrives(fs, home, source, caplog, capsys):
    """All files and folders, and the manifest; one log line has the summary."""
    with caplog.at_level(logging.INFO, "luigi-interface"):
        done = upload(fs, source, f"{home}/code")
    assert caplog.messages == [str(done)]
    assert capsys.readouterr().err == ""  # no progress bar, because it is not a terminal
    assert names(fs, f"{home}/code") == [MANIFEST, "lib", "lib/a.py", "lib/b.py", "none", "train.py"]
    assert content(fs, f"{home}/code/lib/a.py") == "aaa"
    assert str(done) == f"uploaded 3 of 3 files, 11 B, to {home}/code"
    assert is_clean(fs, home)


@pytest.mark.slow
def test_names_of_all_kinds(fs, home, tmp_path):
    """Unicode, spaces, and all that means something in an address or to a shell."""
    kinds = [*KINDS_OF_NAMES, "100%", "%41", "$HOME"]
    for kind in kinds:
        (tmp_path / kind).mkdir()
        (tmp_path / kind / kind).write_text(kind)
    upload(fs, tmp_path, f"{home}/new")
    fs.mkdir(f"{home}/there")
    upload(fs, tmp_path, f"{home}/there")
    for folder in ("new", "there"):
        for kind in kinds:
            server, place = fs.at(f"{home}/{folder}")
            assert server.read_part(f"{place}/{kind}/{kind}", 0, 99).decode() == kind
    assert upload(fs, tmp_path, f"{home}/new").moved == 0


@pytest.mark.slow
def test_sizes_of_all_kinds(fs, home, tmp_path):
    """Empty, one byte, exactly one part, more than one: whole, and found to be the same afterwards."""
    sizes = [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 7]
    for size in sizes:
        (tmp_path / f"{size}").write_bytes(os.urandom(size))
    assert upload(fs, tmp_path, f"{home}/sizes").size == sum(sizes)
    download(fs, f"{home}/sizes", tmp_path / "back")
    for size in sizes:
        assert (tmp_path / "back" / f"{size}").read_bytes() == (tmp_path / f"{size}").read_bytes()
    shutil.rmtree(tmp_path / "back")
    assert upload(fs, tmp_path, f"{home}/sizes").moved == 0


def test_only_what_changed_is_sent(fs, home, source, sent):
    """New content of the same size is found, a new time without new content is not sent."""
    upload(fs, source, f"{home}/code")
    sent.clear()
    (source / "lib" / "a.py").write_text("AAA")
    (source / "lib" / "new.py").write_text("new")
    os.utime(source / "lib" / "b.py", (0, 0))
    done = upload(fs, source, f"{home}/code")
    assert sorted(sent) == ["lib/a.py", "lib/new.py"]
    assert str(done) == f"uploaded 2 of 4 files, 6 B, to {home}/code"
    assert content(fs, f"{home}/code/lib/a.py") == "AAA"
    assert upload(fs, source, f"{home}/code").moved == 0
    assert is_clean(fs, home)


@ON_HDFS
def test_without_changes_nothing_is_written(fs, home, source, asked):
    """Then no request but GETs is sent, and no file is read on HDFS but the notes."""
    upload(fs, source, f"{home}/code")
    asked.clear()
    upload(fs, source, f"{home}/code")
    assert {method for method, _operation, _path in asked} == {"GET"}
    assert {path for _, operation, path in asked if operation == "OPEN"} == {f"{home}/code/{MANIFEST}"}
    assert len(asked) <= 7


def test_what_somebody_else_changed_is_sent_again(fs, home, source, sent):
    """A file that was replaced on HDFS, by one as long, or deleted there."""
    upload(fs, source, f"{home}/code")
    sent.clear()
    time.sleep(0.01)
    written(fs, f"{home}/code/lib/a.py", "xxx")
    fs.remove(f"{home}/code/train.py")
    upload(fs, source, f"{home}/code")
    assert sorted(sent) == ["lib/a.py", "train.py"]
    assert content(fs, f"{home}/code/lib/a.py") == "aaa"


@table("invalid manifests", "manifest")
def test_an_invalid_manifest(fs, home, source, manifest):
    """It counts as empty: everything is sent, and it is written anew."""
    upload(fs, source, f"{home}/code")
    written(fs, f"{home}/code/{MANIFEST}", manifest)
    assert upload(fs, source, f"{home}/code").moved == 3
    assert set(json.loads(content(fs, f"{home}/code/{MANIFEST}"))["files"]) == {
        "train.py",
        "lib/a.py",
        "lib/b.py",
    }


def test_a_new_folder_appears_whole(fs, home, source, monkeypatch):
    """Until all of it was sent there is nothing, then all of it."""
    seen = []
    send = Stage.send
    become = staging.rename_exactly

    def spy(self, file):
        seen.append(fs.exists(f"{home}/code"))
        send(self, file)

    def spy_at_the_end(server, path, goal):
        seen.append(fs.exists(f"{home}/code"))
        become(server, path, goal)

    monkeypatch.setattr(Stage, "send", spy)
    monkeypatch.setattr(staging, "rename_exactly", spy_at_the_end)
    upload(fs, source, f"{home}/code")
    assert seen == [False] * 4
    assert fs.exists(f"{home}/code/lib/b.py")


def failing(monkeypatch, after, error):
    """Let the transfer of every file fail once some of them were sent whole."""
    send = Stage.send
    begun, whole = itertools.count(1), itertools.count(1)
    all_sent = threading.Event()

    def fail(self, file):
        if next(begun) > after:
            assert all_sent.wait(30)  # for a failure stops those that are on their way
            raise error
        send(self, file)
        if next(whole) == after:
            all_sent.set()

    monkeypatch.setattr(Stage, "send", fail)


@pytest.mark.slow
@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("error", [HdfsError("broken"), KeyboardInterrupt()])
def test_after_a_failure_the_next_upload_goes_on(fs, home, tmp_path, is_new, error):
    """Only completely sent files are published and recorded; the next upload sends the rest."""
    source = tmp_path / "many"
    for number in range(20):
        (source / f"{number % 4}").mkdir(parents=True, exist_ok=True)
        (source / f"{number % 4}" / f"{number}").write_text(f"{number:04}")
    if not is_new:
        fs.mkdir(f"{home}/code")
    with pytest.MonkeyPatch.context() as patch:
        failing(patch, 10, error)
        with pytest.raises(type(error)):
            upload(fs, source, f"{home}/code", jobs=4)
    there = [name for name in names(fs, f"{home}/code") if "/" in name]
    assert len(there) == 10
    assert all(len(content(fs, f"{home}/code/{name}")) == 4 for name in there)
    assert is_clean(fs, home)
    assert str(upload(fs, source, f"{home}/code")).startswith("uploaded 10 of 20 files")
    assert upload(fs, source, f"{home}/code").moved == 0


def endless(pool, begun, ended):
    """Return work that ends only when other work of its pool has failed."""

    def work(_thing):
        begun.set()
        try:
            while True:
                pool.advance(0)
        finally:
            ended.set()

    return work


@pytest.mark.parametrize("is_start", [True, False])
def test_ctrl_c_ends_what_has_begun(is_start, monkeypatch):
    """While work is given out, or while a thread begins, which the pool does not know yet."""
    pool, begun, ended, start = WorkerPool(2), threading.Event(), threading.Event(), threading.Thread.start

    def interrupted(*threads):
        for thread in threads:
            start(thread)
        assert begun.wait(60)
        raise KeyboardInterrupt

    def things():
        yield 1
        interrupted()

    if is_start:
        monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pool.map(endless(pool, begun, ended), [1] if is_start else things())
    assert ended.is_set()


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("at", ["manifest", "removal"])
def test_ctrl_c_near_the_end(tmp_path, source, at, is_new):
    """While the manifest is sent, or the temporary folder removed: nothing hidden stays behind."""
    stopped, answered = [], threading.Event()

    def press():
        stopped.append(at)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    class Slow(WebHdfsHandler):
        def on_connection_close(self):
            """Do not notice it, as a DataNode that has all data."""

        async def put(self, path=None):
            if at == "manifest" and not stopped and self.is_datanode() and self.hdfs_path.endswith(MANIFEST):
                press()
                await asyncio.sleep(0.2)  # the removal, if it did not wait for this, would come first
                await super().put(path)
                answered.set()
            else:
                await super().put(path)

        async def delete(self, path=None):
            if at == "removal" and not stopped:
                press()
                answered.set()
            await super().delete(path)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with serving(tmp_path / "hdfs", Slow) as url:
            fs = WebHdfs(url, "anna")
            if not is_new:
                fs.mkdir("/code")
            with pytest.raises(KeyboardInterrupt):
                upload(fs, source, "/code")
            assert stopped == [at]
            assert answered.wait(60)
            assert is_clean(fs, "/")
            upload(fs, source, "/code")
            assert content(fs, "/code/train.py") == "train"
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_file_that_breaks_off_is_not_published(backend, fs, home, tmp_path, monkeypatch):
    """A big file that cannot be read to its end does not appear; the error names it."""
    source = tmp_path / "src"
    source.mkdir()
    (source / "big").write_bytes(b"x" * 5 * MIB)
    (source / "small").write_text("small")
    parts = LocalFile.parts

    def broken(self):
        for number, part in enumerate(parts(self)):
            if self.name == "big" and number == 3:
                if backend.name != "local":  # a DataNode that opens it after the break leaves it behind
                    wait_until(lambda: not is_clean(fs, home))
                raise self._failed("Input/output error")
            yield part

    monkeypatch.setattr(LocalFile, "parts", broken)
    with pytest.raises(TransferError, match=r"not everything was sent: .*src/big: Input/output error"):
        upload(fs, source, f"{home}/code", jobs=1)
    assert not fs.exists(f"{home}/code/big")
    wait_until(lambda: is_clean(fs, home), pause=0.2)  # a DataNode under load closes a broken file late


@pytest.mark.parametrize("size", [5, 3 * MIB])
def test_a_file_that_changes_while_it_is_sent(fs, home, source, monkeypatch, size):
    """It is not published, the others are; the error says so, and the next upload sends it."""
    (source / "log").write_bytes(bytes(size))
    parts = LocalFile.parts

    def written_to(self):
        for number, part in enumerate(parts(self)):
            yield part
            if self.name == "log" and number == 0:
                with self.place.open("ab") as file:
                    file.write(b"more")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFile, "parts", written_to)
        with pytest.raises(
            TransferError, match=r"not everything was sent: .*src/log: it changed while it was being read"
        ):
            upload(fs, source, f"{home}/code", jobs=1)
    assert [name for name in names(fs, f"{home}/code") if "log" in name] == []
    assert is_clean(fs, home)
    upload(fs, source, f"{home}/code")
    assert fs.count(f"{home}/code/log")["content_size"] == size + 4


@WITH_PERMISSIONS
def test_no_permission(backend, fs, home, source):
    """A destination of somebody else: an error that says whose right is missing; nothing is left there."""
    fs.chmod(home, "755")
    fs.mkdir(f"{home}/there")
    for folder in ("new", "there"):
        with pytest.raises(HdfsError, match=r"AccessControlException: Permission denied: user=bob") as caught:
            upload(backend.fs("bob"), source, f"{home}/{folder}")
        assert "ask for permission on that path, or check hdfs_user" in str(caught.value)
    assert names(fs, home) == ["there"]


@pytest.mark.slow
@pytest.mark.parametrize("is_new", [True, False])
@table("full HDFSs", "exception message hint")
def test_an_hdfs_that_takes_no_more(tmp_path, exception, message, hint, is_new):
    """Safe mode, quota, full disks: published files are whole, the next upload continues."""
    left = [10]

    class Full(WebHdfsHandler):
        def _create(self):
            left[0] -= self.is_datanode()
            if left[0] < 0:
                raise RemoteFault(exception, message)
            super()._create()

    (tmp_path / "src").mkdir()
    for number in range(20):
        (tmp_path / "src" / f"{number}").write_text(f"{number:04}")
    with serving(tmp_path / "hdfs", Full) as url:
        fs = WebHdfs(url, "anna")
        if not is_new:
            fs.mkdir("/code")
        with pytest.raises(HdfsError, match=message.split("(")[0]) as caught:
            upload(fs, tmp_path / "src", "/code", jobs=2)
        assert caught.value.exception == exception
        assert hint in str(caught.value)
        there = [name for name in names(fs, "/") if name[-1].isdigit() and "tmp" not in name]
        assert all(content(fs, f"/{name}") == f"{int(name.removeprefix('code/')):04}" for name in there)
        left[0] = 1000
        upload(fs, tmp_path / "src", "/code")
        assert sorted(names(fs, "/code")) == sorted([MANIFEST, *map(str, range(20))])


def test_two_at_once(fs, home, source, sent):
    """Of two uploads of one folder at the same moment one sends it, the other finds it there."""
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _number: upload(fs, source, f"{home}/code"), range(2)))
    assert sorted(each.moved for each in done) == [0, 3]
    assert len(sent) == 3


@pytest.mark.slow
@pytest.mark.parametrize("is_new", [True, False])
def test_from_several_machines_at_once(fs, home, source, tmp_path, monkeypatch, is_new):
    """Without a lock between them uploads of one folder do not break each other."""
    if not is_new:
        upload(fs, source, f"{home}/code")
        (source / "train.py").write_text("TRAIN")
    for number in range(4):
        shutil.copytree(source, tmp_path / f"{number}")
        (tmp_path / f"{number}" / "own").mkdir()
        (tmp_path / f"{number}" / "own" / f"{number}").write_text("own")
    monkeypatch.setattr(transfer, "one_at_a_time", lambda *_: contextlib.nullcontext())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: upload(fs, tmp_path / f"{number}", f"{home}/code"), range(4)))
    assert content(fs, f"{home}/code/train.py") == (source / "train.py").read_text()
    assert content(fs, f"{home}/code/lib/a.py") == "aaa"
    assert names(fs, f"{home}/code/own") == ["0", "1", "2", "3"]
    assert is_clean(fs, home)
    upload(fs, source, f"{home}/code")
    assert upload(fs, source, f"{home}/code").moved == 0


def test_made_by_another_at_the_last_moment(fs, home, source, monkeypatch):
    """If the new destination is there by the time of the rename, the upload compares the files."""
    become = staging.rename_exactly

    def overtaken(server, path, goal):
        monkeypatch.setattr(staging, "rename_exactly", become)
        written(fs, f"{home}/code/theirs", "theirs")
        become(server, path, goal)

    monkeypatch.setattr(staging, "rename_exactly", overtaken)
    upload(fs, source, f"{home}/code")
    assert names(fs, f"{home}/code") == [
        MANIFEST,
        "lib",
        "lib/a.py",
        "lib/b.py",
        "none",
        "theirs",
        "train.py",
    ]
    assert is_clean(fs, home)


@pytest.mark.slow
def test_what_a_killed_upload_left_is_removed(backend, fs, home, source, caplog, monkeypatch):
    """At once where its process ran on this machine, else after two days; never files in use."""
    caplog.set_level(logging.INFO, "luigi-interface")
    upload(fs, source, f"{home}/code")
    ours = temporary.temporary_path(f"{home}/code/upload", fs.at(home)[0].owner)
    host, pid, unique = posixpath.basename(ours).split("-")
    folder, dead = posixpath.dirname(ours), subprocess.Popen(["true"])
    dead.wait()
    left = [f"{host}-{dead.pid}-{unique}", f"{host}-{pid}-{unique}", f"{'0' * 12}-1-{unique}"]
    for name in left:
        written(fs, f"{folder}/{name}/0")
    upload(fs, source, f"{home}/code")
    assert sorted(posixpath.basename(path) for path in fs.listdir(folder)) == sorted(left[1:])
    removed = [f"Removed {folder}/{left[0]}, which a process that has ended left behind"]
    assert [line for line in caplog.messages if "Removed" in line] == removed
    kept = [left[1]]
    if backend.name not in (LOCAL, STORAGE):  # which have no other owners
        written(fs, f"{folder}/{left[0]}/0")
        fs.chown(f"{folder}/{left[0]}", "bob", None)  # not ours to remove
        kept.append(left[0])
    later = time.time() + 49 * 3600
    monkeypatch.setattr(temporary, "time", SimpleNamespace(time=lambda: later))
    upload(fs, source, f"{home}/code")
    assert sorted(posixpath.basename(path) for path in fs.listdir(folder)) == sorted(kept)
    assert "may be left behind" not in caplog.text


@pytest.mark.slow
def test_many_files_and_few_requests(local_backend, tmp_path, asked):
    """Folders are not made one by one: 200 files in 20 folders cost little more than two requests each."""
    fs, home = local_backend.fs(), f"/tmp/{tmp_path.name}"
    for number in range(200):
        place = tmp_path / f"{number % 20}" / "deep" / f"{number}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x")
    upload(fs, tmp_path, f"{home}/code", jobs=4)
    assert len(asked) < 460
    asked.clear()
    upload(fs, tmp_path, f"{home}/code", jobs=4)
    assert len(asked) < 50


@pytest.mark.slow
def test_notes_that_cannot_be_written_cost_a_resend(backend, fs, home, source, caplog):
    """The upload is done, and all is sent again, which a warning says."""
    resend(backend, fs, home, source, lambda fs, path: fs.remove(path) or fs.mkdir(f"{path}/x"))
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned[-1].startswith("Cannot write the manifest; these files will be sent again: ")


@WITH_PERMISSIONS
@pytest.mark.slow
def test_notes_of_somebody_else_cost_a_resend(backend, fs, home, source, caplog):
    """They cannot be read, which a warning says."""
    resend(backend, fs, home, source, lambda fs, path: fs.chown(path, "bob", None) or fs.chmod(path, "600"))
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned[0].startswith("Cannot read the manifest of earlier uploads; sending all files again: HDFS ")
    assert upload(backend.fs("anna"), source, f"{home}/code").moved == 0


def resend(backend, fs, home, source, spoil):
    """Upload as one user, spoil the notes, and upload as another."""
    upload(fs, source, f"{home}/code")
    fs.chmod(f"{home}/code", "777", recursive=True)
    spoil(fs, f"{home}/code/{MANIFEST}")
    fs.chmod(f"{home}/code", "777")
    assert upload(backend.fs("anna"), source, f"{home}/code").moved == 3
    assert content(fs, f"{home}/code/lib/a.py") == "aaa"
    assert is_clean(fs, home)


@pytest.mark.slow
def test_a_lock_is_held_by_one_at_a_time(tmp_path, monkeypatch):
    """Threads take turns as processes do."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    inside, most = [], []

    def work(_number):
        for _time in range(30):
            with one_at_a_time("upload", "place"):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert max(most) == 1


@pytest.fixture
def results(fs, home):
    """A folder on HDFS as a job leaves it."""
    written(fs, f"{home}/out/metrics.json", "{}")
    written(fs, f"{home}/out/deep/er/model ü%.bin", "model")
    fs.mkdir(f"{home}/out/none")
    return f"{home}/out"


def found(folder):
    """Return the paths below a folder."""
    return sorted(str(place.relative_to(folder)) for place in folder.rglob("*"))


def test_a_folder_is_fetched(fs, results, tmp_path):
    """All files and folders, with the times of HDFS; the summary says how much that was."""
    done = download(fs, results, tmp_path / "here")
    assert found(tmp_path / "here") == ["deep", "deep/er", "deep/er/model ü%.bin", "metrics.json", "none"]
    assert (tmp_path / "here/deep/er/model ü%.bin").read_text() == "model"
    assert str(done) == f"downloaded 2 of 2 files, 7 B, to {tmp_path / 'here'}"
    server, place = fs.at(results)
    time = server.file_status(f"{place}/metrics.json")["modificationTime"]
    assert (tmp_path / "here/metrics.json").stat().st_mtime_ns == time * 1_000_000


def test_what_a_killed_download_left_is_removed(fs, results, tmp_path):
    """Files of running processes stay."""
    dead, left = subprocess.Popen(["true"]), temporary.local_temporary(tmp_path / "f")
    dead.wait()
    left.touch()
    (tmp_path / left.name.replace(f"-{os.getpid()}-", f"-{dead.pid}-")).touch()
    download(fs, results, tmp_path)
    assert [place.name for place in tmp_path.iterdir() if "tmp" in place.name] == [left.name]


@pytest.mark.parametrize("error", [HdfsError("broken"), OSError(28, "No space left on device")])
def test_a_file_that_breaks_off_does_not_appear(backend, fs, results, tmp_path, monkeypatch, error):
    """Neither under its name nor under another, and the earlier file does not change."""
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


@WITH_PERMISSIONS
def test_what_may_not_be_read(backend, fs, results, tmp_path):
    """A file of somebody else's is an error that says whose right is missing; it does not appear."""
    fs.chmod(f"{results}/metrics.json", "600")
    with pytest.raises(HdfsError, match=r"AccessControlException: Permission denied: user=bob"):
        download(backend.fs("bob"), results, tmp_path)
    assert not (tmp_path / "metrics.json").exists()


@pytest.mark.slow
@table("names that lead out", "name")
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
        handler.respond(200, json.dumps(answers[operation]).encode())

    with (
        scripted(script) as url,
        pytest.raises(HdfsError, match=r"the response has no FileStatuses|it is a file, not a folder"),
    ):
        download(WebHdfs(url, "x"), "/out", tmp_path / "here")
    assert found(tmp_path) == []
