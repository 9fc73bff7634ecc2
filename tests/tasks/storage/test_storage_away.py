"""A storage that is away for a while, or full, or read-only, at each operation of a job's life."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
from types import SimpleNamespace

import pytest
from process_state import forget
from train_task import Train
from waiting import wait_until

from luigi_pai import HdfsError
from luigi_pai.files import small_files
from luigi_pai.files.storage import mount_point

OPERATIONS = 10  # of a job's life, see test_requests.py, and one that records when it was seen running
POST = 8  # the job is posted before this one
CASES = [
    *(
        (first, name, is_done)
        for first in range(1, OPERATIONS + 1)
        for name in ("EIO", "ENOSPC")
        for is_done in (False, True)
    ),
    *(
        (first, name, False)
        for first in (1, 4, 10)
        for name in ("ESTALE", "ENOTCONN", "ETIMEDOUT", "EDQUOT", "EROFS")
    ),
]
_DEAD = "999999999"  # no process has such a number


class Outage:
    """Lets the operations of a mount fail from one of a number on, until it is over.

    Args:
        clock: of the test; the outage is over ``seconds`` after its begin.
        first: number of the first operation that fails, from 1.
        number: of the error.
        is_done: whether an operation is done all the same, as by a server whose replies are lost.
    """

    def __init__(
        self, clock, first: int, number: int, *, seconds: float = 20.0, is_done: bool = False
    ) -> None:
        self.count = self.failed = 0
        self._clock, self._first, self._number, self._seconds = clock, first, number, seconds
        self._is_done = is_done
        self._is_over = False
        self._within = mount_point.within

    def end(self) -> None:
        self._is_over = True

    def within(self, timeout, work):
        self.count += 1
        if self._is_over or self.count < self._first:
            return self._within(timeout, work)
        if not self.failed:
            self._clock.call_later(self._seconds, self.end)
        self.failed += 1
        if self._is_done:
            with contextlib.suppress(OSError):
                self._within(timeout, work)
        raise OSError(self._number, os.strerror(self._number))


def run(outage: Outage, monkeypatch) -> HdfsError | None:
    """Run a task in an outage, as a process does that ends then; return the error, if there is one."""
    own = small_files.unique
    with monkeypatch.context() as patch:
        patch.setattr(mount_point, "within", outage.within)
        patch.setattr(small_files, "unique", lambda: own().replace(f"-{os.getpid()}-", f"-{_DEAD}-"))
        task = Train()
        try:
            if not task.complete():
                task.run()
        except HdfsError as error:
            return error
    return None


@pytest.mark.slow
@pytest.mark.parametrize(("first", "name", "is_done"), CASES)
def test_nothing_is_lost_and_nothing_is_done_twice(
    pai, storage, settings, monkeypatch, caplog, first, name, is_done
):
    """The run goes on when the storage is back, or says in one line what is the matter; the next one ends."""
    settings(poll_patience=10_000)
    pai.plan = {"runs_for": 5.0}
    caplog.set_level("INFO", "luigi_pai")
    outage = Outage(pai.clock, first, getattr(errno, name), is_done=is_done)
    error = run(outage, monkeypatch)
    assert outage.failed
    warnings = [each.getMessage() for each in caplog.records if each.levelname in ("WARNING", "ERROR")]
    if error is None:
        assert len(warnings) == 1
        assert "storage nfs1" in warnings[0]
        assert "retrying for up to 10000 s" in warnings[0]
        assert "the file system responds again after" in caplog.text
    else:
        assert warnings == []
        assert first < POST
        assert pai.posts() == []
        text = str(error)
        assert text.count("\n") == 0, text
        assert os.strerror(getattr(errno, name)) in text, text
        assert str(storage) in text
        assert "storage nfs1" in text
    assert "Traceback" not in caplog.text
    forget()
    task = Train()
    if error is not None:
        pai.clock.advance(60)
        if not task.complete():
            task.run()
    assert task.complete()
    assert pai.posts() == ["train"]
    output = storage / "train" / "output"
    assert (output / "_SUCCESS").read_text() == "train\n"
    claims = {path.name for path in (output / "_luigi_pai").iterdir() if "RUNNING" not in path.name}
    assert claims == {"train.1.SUCCEEDED", "train.1.json"}
    assert json.loads((output / "_luigi_pai" / "train.1.json").read_text())["job"] == "train"
    pai.jobs.clear()
    forget()
    assert Train().complete()


@pytest.mark.slow
def test_a_mount_that_hangs_for_a_while(pai, storage, settings, monkeypatch, caplog):
    """The calls go on when its server is back, some of them for nobody: nothing is half done for that."""
    settings(poll_patience=10_000, read_timeout=0.5)
    back, hung, link = threading.Event(), [], os.link

    def hanging(*arguments, **options):
        if pai.posts():
            hung.append(arguments)
            back.wait()
        link(*arguments, **options)

    pai.plan = {"runs_for": 5.0}
    own = SimpleNamespace(**vars(os))
    own.link = hanging
    monkeypatch.setattr("luigi_pai.files.storage.posix.os", own)
    pai.clock.call_later(60, back.set)
    Train().run()
    assert hung
    assert "no response within 0.5 s (read_timeout)" in caplog.text
    output = storage / "train" / "output"
    wait_until(lambda: not list(output.rglob(".*")))
    assert (output / "_SUCCESS").read_text() == "train\n"
    assert pai.posts() == ["train"]
