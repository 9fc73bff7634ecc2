"""A storage that is away, full, or hangs: a clear error, and never an incorrect result."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time

import pytest
from file_cases import Player, calls
from hdfs_backend import content, names, written

from luigi_pai.files import (
    FileAlreadyExists,
    HdfsError,
    HdfsUnreachable,
    Storage,
)
from luigi_pai.files.small_files import create_once
from luigi_pai.files.storage import mount_point
from luigi_pai.files.storage.mounts import Mount

AWAY = ("EIO", "ESTALE", "ETIMEDOUT", "ENOTCONN", "EHOSTDOWN")
PASSING = ("ENOSPC", "EROFS", "EDQUOT", "EBUSY")
LASTING = ("EACCES", "EPERM", "ENAMETOOLONG", "ELOOP", "EINVAL")

WORK = calls("system calls")


def failing(monkeypatch, name, what, after=0):
    """Let a function of ``os`` do something first in calls to storages, after it was called some times."""
    real, counted = getattr(os, name), [0]

    def fail(*given, **about):
        if threading.current_thread().name == "storage":
            counted[0] += 1
            if counted[0] > after:
                what()
        return real(*given, **about)

    monkeypatch.setattr(os, name, fail)


def error_of(name):
    number = getattr(errno, name)

    def fail():
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture
def filled(storage):
    """It has a few files."""
    written(storage, "/d/f")
    storage.mkdir("/d/empty")
    return storage


@pytest.mark.parametrize("name", [*AWAY, *PASSING, *LASTING])
@pytest.mark.parametrize("function", WORK)
def test_an_error_of_the_operating_system(function, name, filled, monkeypatch):
    """The message is one line with operation, path, reason and advice; nothing is changed."""
    if (function, name) in {("link", "EPERM"), ("chmod", "EPERM")}:
        pytest.skip("a file system without links, or without modes")
    before = names(filled, "/")
    with monkeypatch.context() as patch:
        failing(patch, function, error_of(name))
        with pytest.raises(HdfsError) as caught:
            Player(filled).call(WORK[function])
    error = caught.value
    assert error.transient == (name in AWAY + PASSING)
    assert isinstance(error, HdfsUnreachable) == (name in AWAY)
    assert not isinstance(error, FileAlreadyExists)
    assert os.strerror(getattr(errno, name)) in error.reason
    message = str(error)
    assert message.startswith(f"{error.operation} {error.path} on storage nfs1: ")
    assert error.path.startswith(filled.path or "?")
    assert ("check its mount on this machine" in message) == (name in AWAY)
    assert len(message.splitlines()) == 1
    assert error.exception == ("AccessControlException" if name in ("EACCES", "EPERM") else None)
    if name in ("ENOSPC", "EDQUOT", "EROFS", "EACCES"):
        assert "make room" in message or "write access" in message or "ask for permission" in message
    assert names(filled, "/") == before


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT", "EIO"])
@pytest.mark.parametrize("size", [10, 5_000_000])
def test_a_write_that_fails(name, size, filled, monkeypatch):
    """The old file stays, and nothing is left; when there is room, the same write succeeds."""
    with monkeypatch.context() as patch:
        failing(patch, "fsync", error_of(name))
        for work in (
            lambda: written(filled, "/d/f", "x" * size),
            lambda: create_once(filled, "/d/once", b"x" * size),
        ):
            with pytest.raises(HdfsError, match=r"^CREATE .* on storage nfs1"):
                work()
    assert content(filled, "/d/f") == "text"
    assert names(filled, "/") == ["d", "d/empty", "d/f"]
    assert len(content(filled, written(filled, "/d/f", "x" * size))) == size


# hangs


@pytest.fixture
def hung(root):
    """A storage of which nobody waits for long."""
    return Storage("nfs1", str(root), timeout=0.2)


@pytest.mark.parametrize("function", WORK)
def test_a_call_that_hangs(function, filled, hung, monkeypatch):
    """It is an error after the timeout. When the server is back, it may still be done."""
    back = threading.Event()
    with monkeypatch.context() as patch:
        failing(patch, function, lambda: back.wait(600) and None)
        with pytest.raises(
            HdfsUnreachable, match=r"no response within 0.2 s \(read_timeout\); check"
        ) as caught:
            Player(hung).call(WORK[function])
        assert any(thread.name == "storage" for thread in threading.enumerate())  # the call hangs still
        assert caught.value.transient
        back.set()
        while any(thread.name == "storage" for thread in threading.enumerate()):
            time.sleep(0.01)
    assert filled.exists("/e" if function == "rename" else "/d")


def test_calls_that_hang_are_bounded(filled, hung, monkeypatch):
    """A task that asks again and again starts no thread for each; when the server is back, it goes on."""
    monkeypatch.setattr(mount_point, "_MOST", 5)
    monkeypatch.setattr(mount_point, "_room", mount_point._Room())
    back = threading.Event()
    with monkeypatch.context() as patch:
        failing(patch, "stat", lambda: back.wait(30) and None)
        errors = []
        for _ in range(8):
            with pytest.raises(HdfsUnreachable) as caught:
                hung.exists("/d/f")
            errors.append(str(caught.value))
        threads = [thread for thread in threading.enumerate() if thread.name == "storage"]
        assert len(threads) == 5
        assert ["no response to 5 earlier calls" in error for error in errors] == [False] * 5 + [True] * 3
        back.set()
        for thread in threads:
            thread.join(10)
    assert filled.exists("/d/f")


HANGS = """
import os, sys, threading, time
from luigi_pai.files import HdfsUnreachable, Storage
fs = Storage("nfs1", sys.argv[1], timeout=0.3)
fs.exists("/f")
real = os.stat
def hang(*given, **about):
    if threading.current_thread().name == "storage":
        time.sleep(600)
    return real(*given, **about)
os.stat = hang
try:
    fs.exists("/f")
except HdfsUnreachable:
    print("unreachable")
"""


def test_a_process_ends_while_a_call_hangs(root):
    done = subprocess.run(
        [sys.executable, "-c", HANGS, str(root)], capture_output=True, text=True, check=True, timeout=100
    )
    assert done.stdout == "unreachable\n"
    assert done.stderr == ""


def test_a_read_that_hangs_changes_nothing_later(hung, filled, monkeypatch):
    """The bytes that it finally reads are discarded."""
    written(filled, "/big", "x" * 1_000_000)
    back = threading.Event()
    file = hung.open_reader("/big")
    with monkeypatch.context() as patch:
        failing(patch, "stat", lambda: back.wait(30) and None)
        with pytest.raises(HdfsUnreachable):
            file.read(10)
        back.set()
    assert file.read(10) == b"x" * 10


# mounts that go


def table(monkeypatch, *found):
    answers = list(found)

    def mount_of(_path):
        return answers.pop(0) if len(answers) > 1 else answers[0]

    monkeypatch.setattr(mount_point, "mount_of", mount_of)


def mount(source="nas:/data", folder="/mnt/nfs1"):
    return Mount(source, folder, "nfs4", ())


def moved(volume):
    """Let the folder of a storage be on another device than before."""
    assert volume._device is not None
    volume._device += 1


def test_unmounted_meanwhile(root, monkeypatch):
    """Nothing is written into the folder below, and nothing seems missing; mounted again, it is used."""
    table(monkeypatch, mount(), Mount("/dev/sda", "/", "ext4", ()))
    fs = Storage("nfs1", str(root))
    written(fs, "/f")
    moved(fs.at("/")[0])
    for work in calls("unmounted").values():
        with pytest.raises(HdfsUnreachable, match=rf"it is no longer mounted at {root}; check") as caught:
            Player(fs).call(work)
        assert caught.value.transient
    assert sorted(place.name for place in root.iterdir()) == ["f"]
    table(monkeypatch, mount())
    assert content(fs, "/f") == "text"


def test_mounted_anew(root, monkeypatch):
    """By autofs, for example: another device, and the same source."""
    table(monkeypatch, mount())
    fs = Storage("nfs1", str(root))
    written(fs, "/f")
    moved(fs.at("/")[0])
    assert content(fs, "/f") == "text"


def test_a_real_mount_that_goes(tmp_path):
    """Where this machine lets a process mount something for itself alone."""
    code = f"""
import subprocess, sys
from luigi_pai.files import HdfsUnreachable, Storage
root = {str(tmp_path)!r}
if subprocess.run(["mount", "-t", "tmpfs", "nas", root], capture_output=True).returncode:
    sys.exit(77)
fs = Storage("nfs1", root)
fs.touchz("/f")
assert fs.exists("/f")
subprocess.run(["umount", root], check=True)
for work in (fs.exists, fs.touchz, fs.mkdir):
    try:
        work("/g")
    except HdfsUnreachable as error:
        assert error.transient and "is no longer mounted" in str(error), error
    else:
        raise AssertionError(work)
subprocess.run(["mount", "-t", "tmpfs", "nas", root], check=True)
fs.touchz("/g")
print(fs.count("/")["file_count"])
"""
    command = ["unshare", "-m", sys.executable, "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    except FileNotFoundError:
        pytest.skip("no unshare")
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("no right to mount")
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert list(tmp_path.iterdir()) == []
