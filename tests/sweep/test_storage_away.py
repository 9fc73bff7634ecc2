"""A sweep whose points, journal and table are on a storage that is away, full or read-only for a while."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from pipelines import new_process
from sweep_tasks import Study

from luigi_pai import HdfsError, PaiSweepFailed
from luigi_pai.errors import ServerFault
from luigi_pai.files.storage import mount_point
from luigi_pai.sweep.journal import files as journal
from luigi_pai.sweep.table import Table
from luigi_pai.work.flag import CompletionFlag

CASES = [*((first, "EIO") for first in range(1, 100, 9)), (1, "ENOSPC"), (36, "ENOSPC"), (71, "ENOSPC")]


class Outage:
    """Lets each use of a mount fail from one on, until its clock is 20 s later."""

    def __init__(self, clock, first: int, number: int) -> None:
        self.count = self.failed = 0
        self._clock, self._first, self._number = clock, first, number
        self._until = float("inf")

    def strike(self, operation: str) -> None:
        """Raise the error of a use."""
        self.count += 1
        if self.count < self._first or self._clock.monotonic() >= self._until:
            return
        if not self.failed:
            self._until = self._clock.monotonic() + 20
        self.failed += 1
        raise OSError(self._number, os.strerror(self._number), operation)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "name"), CASES)
def test_a_sweep_goes_on_when_the_storage_is_back(pai, storage, settings, monkeypatch, first, name):
    """Or fails, and the next run ends it; each point runs once, and each has its row and its end."""
    patience = 5 if name == "ENOSPC" else 10_000
    settings(poll_patience=patience)
    pai.plan = {"runs_for": 5.0}
    monkeypatch.setattr(Study, "results_dir", "$PAI_DEFAULT_FS_URI/results")
    outage = Outage(pai.clock, first, getattr(errno, name))
    within, sync = mount_point.within, os.fsync

    def failing_within(timeout, work):
        outage.strike("operation")
        return within(timeout, work)

    def failing_sync(descriptor):
        outage.strike("fsync")
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(mount_point, "within", failing_within)
        patch.setattr(journal, "os", SimpleNamespace(fsync=failing_sync))
        text = ""
        try:
            Study().run()
        except HdfsError as error:
            text = str(error)
            assert "\n" not in text
        except PaiSweepFailed as error:  # the patience of a point was too short
            text = str(error)
            assert patience == 5
    assert outage.failed
    assert not text or ("storage nfs1" in text and os.strerror(getattr(errno, name)) in text)
    new_process()
    pai.clock.advance(60)
    if not Study().complete():
        Study().run()
    assert Study().complete()
    names = [point.name for point in Study().points()]
    posted = [job.config["prerequisites"][-1]["uri"].split("/")[-2] for job in pai.jobs.values()]
    assert sorted(posted) == sorted(names)
    assert not any("__attempt" in job for job in pai.posts())
    rows = Study().output().rows()
    assert [row["state"] for row in rows] == ["SUCCEEDED"] * 6
    for each in names:
        output = Path(storage, each, "output")
        assert (output / "_SUCCESS").read_text() == f"{each}\n"
        assert (output / "_luigi_pai" / f"{each}.1.SUCCEEDED").exists()


@pytest.mark.usefixtures("storage")
def test_a_sweep_waits_until_the_server_describes_the_storage(pai, monkeypatch):
    """It needs it for its journal, which it reads first."""
    monkeypatch.setattr(Study, "results_dir", "$PAI_DEFAULT_FS_URI/results")
    pai.fail("GET", "/api/v2/storages/nfs1", 503, times=30)
    Study().run()
    assert Study().complete()


@pytest.mark.usefixtures("pai", "storage")
def test_a_result_for_which_the_server_did_not_respond_is_read_again(monkeypatch):
    """As one for which the files did not."""
    point, read = type(next(iter(Study().points()))), []

    def result(task):
        read.append(task.name)
        if read.count(task.name) == 1:
            raise ServerFault("503", status=503)
        return {"loss": 0.5}

    monkeypatch.setattr(point, "result", result)
    Study().run()
    rows = Study().output().rows()
    assert [row["loss"] for row in rows] == [0.5] * 6
    assert [row["error"] for row in rows] == [None] * 6
    assert len(read) == 12


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize("is_killed", [False, True])
def test_ends_that_could_not_be_recorded_are_recorded_later(pai, settings, monkeypatch, tmp_path, is_killed):
    """The journal is elsewhere and knows that the points have ended, but this does not count yet."""
    settings(poll_patience=5)
    monkeypatch.setattr(Study, "results_dir", str(tmp_path / "results"))
    collect = Table.collect_again

    def storage_is_back(table):
        if is_killed:
            raise KeyboardInterrupt
        outage.undo()
        collect(table)

    with pytest.MonkeyPatch.context() as outage:
        outage.setattr(CompletionFlag, "add", _refuse)
        monkeypatch.setattr(Table, "collect_again", storage_is_back)
        with pytest.raises(KeyboardInterrupt) if is_killed else contextlib.nullcontext():
            Study().run()
    if is_killed:
        monkeypatch.setattr(Table, "collect_again", collect)
        new_process()
        assert not Study().complete()
        Study().run()
    assert Study().complete()
    assert len(pai.posts()) == 6
    assert [row["state"] for row in Study().output().rows()] == ["SUCCEEDED"] * 6
    for point in Study().points():
        assert (point.output() / "_SUCCESS").exists()
    pai.jobs.clear()  # the server forgets them
    new_process()
    assert all(point.complete() for point in Study().points())


def _refuse(*_args, **_options):
    error = HdfsError("the storage is away")
    error.transient = True
    raise error


@pytest.mark.usefixtures("storage")
def test_a_point_without_a_job_is_tried_again_after_a_run_that_could_not_record_its_end(
    pai, monkeypatch, tmp_path
):
    """The disk of the journal gets full before the run can say that it has ended; the next run has room."""
    monkeypatch.setattr(Study, "results_dir", str(tmp_path / "results"))
    with monkeypatch.context() as patch:
        patch.setattr("luigi_pai.work.evidence.Evidence.check_folder_is_ours", _full)
        patch.setattr("luigi_pai.sweep.sweep_run.SweepRun._save", lambda run: run._journal.flush())
        with pytest.raises(PaiSweepFailed, match="No space left"):
            Study().run()
    new_process()
    Study().run()
    assert len(pai.posts()) == 6
    assert [row["state"] for row in Study().output().rows()] == ["SUCCEEDED"] * 6


def _full(_evidence):
    raise HdfsError("No space left on device")
