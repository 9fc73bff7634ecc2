"""Names in a storage appear in one step: of several processes, under readers, and under kills."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from hdfs_backend import content, names, written

from luigi_pai.files import FileAlreadyExists, temporary, upload
from luigi_pai.files.small_files import create_once, read_small, remove_once, tidy_beside
from luigi_pai.files.storage import volume as volume_module
from luigi_pai.files.temporary import tidy

FORK = multiprocessing.get_context("fork")
ROUNDS = 200


def without_links(*_given, **_about):
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def claim(fs, who, barrier, won, *, links):
    if not links:
        os.link = without_links
    for number in range(ROUNDS):
        barrier.wait(60)
        if create_once(fs, f"/claims/{number}", b"%d" % who):
            won.send(number)
    won.close()


@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False])
def test_one_of_two_processes_creates_a_file(storage, *, links):
    """Also where the file system has no links; the winner's file is there, and nothing else is left."""
    barrier = FORK.Barrier(2)
    ends = [FORK.Pipe(duplex=False) for _ in range(2)]
    processes = [
        FORK.Process(target=claim, args=(storage, who, barrier, ends[who][1]), kwargs={"links": links})
        for who in range(2)
    ]
    for process in processes:
        process.start()
    winners = {number: [] for number in range(ROUNDS)}
    for who, (receiving, sending) in enumerate(ends):
        sending.close()
        while True:
            try:
                winners[receiving.recv()].append(who)
            except EOFError:
                break
        receiving.close()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert [len(each) for each in winners.values()] == [1] * ROUNDS
    for number, (who,) in winners.items():
        assert content(storage, f"/claims/{number}") == str(who)
    assert len(names(storage, "/claims")) == ROUNDS


def test_a_link_that_was_made_though_it_exists(storage, monkeypatch):
    """An NFS client repeats a request whose response was lost, and finds that the name exists: it is ours."""
    real = os.link

    def repeated(*given, **about):
        real(*given, **about)
        real(*given, **about)

    monkeypatch.setattr(os, "link", repeated)
    assert create_once(storage, "/f", b"mine")
    assert not create_once(storage, "/f", b"other")
    assert content(storage, "/f") == "mine"
    storage.rename_dont_move("/f", "/g")
    assert names(storage, "/") == ["g"]
    written(storage, "/h")
    with pytest.raises(FileAlreadyExists):
        storage.rename_dont_move("/g", "/h")
    assert names(storage, "/") == ["g", "h"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK])
def test_a_file_system_without_links(number, storage, root, monkeypatch):
    """Files are renamed, and nothing is replaced; a rename that fails leaves nothing under the new name."""

    def refused(*_given, **_about):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refused)
    written(storage, "/f", "text")
    written(storage, "/g", "other")
    storage.rename_dont_move("/f", "/d/f")
    assert create_once(storage, "/once", b"x")
    for goal in ("/g", "/d"):
        with pytest.raises(FileAlreadyExists):
            storage.rename_dont_move("/d/f", goal)
    remove_once(storage, "/once")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refused)
        with pytest.raises(Exception, match=os.strerror(number)):
            storage.move("/g", "/h")
    assert names(storage, "/") == ["d", "d/f", "g"]
    assert (root / "d" / "f").read_text() == "text"


def replaced(fs, stop):
    for number in range(60):
        with fs.open_writer("/f") as file:
            file.write(b"%c" % (97 + number % 26) * 1_000_000)
    stop.set()


@pytest.mark.slow
def test_a_reader_sees_whole_files(storage):
    """While another process replaces the file, in parts and in one."""
    written(storage, "/f", "x" * 1_000_000)
    stop = FORK.Event()
    writer = FORK.Process(target=replaced, args=(storage, stop))
    writer.start()
    seen = set()
    while not stop.is_set():
        with storage.open_reader("/f") as file:
            parts = [file.read(300_000), file.read()]
        small = read_small(storage, "/f", 1_000_000)
        for data in (b"".join(parts), small):
            assert data is not None
            assert len(data) == 1_000_000
            assert data.count(data[:1]) == 1_000_000
            seen.add(data[:1])
        assert storage.at("/")[0].file_status("/f")["length"] == 1_000_000
    writer.join(60)
    assert writer.exitcode == 0
    assert len(seen) > 1
    assert names(storage, "/") == ["f"]


CALLS = ("open", "link", "unlink", "rename", "replace", "mkdir", "rmdir", "fsync", "close", "chmod")


def killed(work, last):
    """Work in a fork, which ends before one of its calls, as by kill -9; return whether it was done."""
    left = [last]

    def counted(real):
        def call(*given, **about):
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)
            return real(*given, **about)

        return call

    child = os.fork()
    if child == 0:  # pragma: no cover  in the child
        code = 1
        try:
            for name in CALLS:
                setattr(os, name, counted(getattr(os, name)))
            volume_module.write_all = counted(volume_module.write_all)
            work()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 0


def tidied(volume, monkeypatch):
    """Remove the files that killed processes left in ``/d``, as later runs do."""
    later = time.time() + 49 * 3600
    with monkeypatch.context() as patch:
        patch.setattr(temporary, "time", SimpleNamespace(time=lambda: later))
        tidy_beside(volume, "/d", volume.list_status("/d"))
    for status in volume.list_status("/d"):
        tidy(volume, f"/d/{status['pathSuffix']}")


WORK = {
    "create": lambda fs: create_once(fs, "/d/f", b"new" * 1000),
    "replace": lambda fs: written(fs, "/d/f", "new" * 500_000),
    "append": lambda fs: fs.at("/")[0].append("/d/f", b"new"),
    "move": lambda fs: fs.rename_dont_move("/d/f", "/d/g"),
}
OUTCOMES = {
    "create": (None, "new" * 1000),
    "replace": ("old", "new" * 500_000),
    "append": ("old", "oldnew"),
    "move": ("old", None),
}


@pytest.mark.slow
@pytest.mark.parametrize("work", OUTCOMES)
def test_a_process_that_is_killed_at_any_call(work, storage, volume, root, monkeypatch):
    """The file is the old or the new one, whole; the next run leaves nothing hidden."""
    before, after = OUTCOMES[work]
    storage.mkdir("/d")
    for last in range(100):
        for name in ("f", "g"):
            (root / "d" / name).unlink(missing_ok=True)
        if before:
            written(storage, "/d/f", before)
        done = killed(lambda: WORK[work](storage), last)
        file = root / "d" / "f"
        found = file.read_text() if file.exists() else None
        assert found in (before, after)
        moved = root / "d" / "g"
        if work == "move" and found is None:
            assert moved.read_text() == before
        tidied(volume, monkeypatch)
        assert set(names(storage, "/d")) <= {"f", "g"}
        if done:
            assert found == after
            return
    raise AssertionError


@pytest.mark.slow
def test_an_upload_that_is_killed_at_any_call(storage, tmp_path):
    """A new folder is there as a whole or not at all; later runs leave nothing hidden."""
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a", "b"):
        (source / name).write_text(name)
    whole = [".luigi-pai-manifest.json", "a", "b"]
    for last in range(100):
        storage.mkdir("/d")
        done = killed(lambda: upload(storage, source, "/d/code", jobs=1), last)
        if storage.exists("/d/code"):
            assert names(storage, "/d/code") == whole
        upload(storage, source, "/d/code")
        written(storage, "/d/x")  # if nothing was left to send, the folder of temporary files may be
        assert names(storage, "/d") == ["code", *(f"code/{name}" for name in whole), "x"]
        storage.remove("/d")
        if done:
            return
    raise AssertionError


def test_a_large_file_is_synced_part_by_part(storage, monkeypatch):
    """At the end, sending the unsynced parts must take less than read_timeout."""
    synced = []
    monkeypatch.setattr(volume_module, "_SYNC_AFTER", 2)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    written(storage, "/f", "x" * 5_000_000)  # five parts
    assert len(synced) == 2
    assert len(content(storage, "/f")) == 5_000_000


def test_writers_of_one_folder_share_its_temporary_folder(storage):
    """Each removes it when it is empty, which is when another may be about to use it."""

    def work(who):
        for number in range(25):
            written(storage, f"/d/{who}-{number}")
            storage.mkdir(f"/d/{who}-folder-{number}")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert len(names(storage, "/d")) == 300
