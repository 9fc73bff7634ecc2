"""A sweep whose points, journal and table are on a storage that is away, full or read-only for a while."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from pipelines import new_process
from sweep_tasks import Study

from luigi_pai import HdfsError
from luigi_pai.files.storage import mount_point
from luigi_pai.sweep.journal import files as journal

NUMBERS = range(1, 100, 7)


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
@pytest.mark.parametrize("name", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("first", NUMBERS)
def test_a_sweep_goes_on_when_the_storage_is_back(pai, storage, settings, monkeypatch, first, name):
    """Or fails at its start, and the next run ends it; each point runs once, and each has its row."""
    settings(poll_patience=10_000)
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
    assert outage.failed
    assert "\n" not in text
    assert not text or ("storage nfs1" in text and os.strerror(getattr(errno, name)) in text)
    new_process()
    pai.clock.advance(60)
    if not Study().complete():
        Study().run()
    assert Study().complete()
    names = [f"train-{rate}-{batch}" for rate in Study.rates for batch in Study.batches]
    posted = [job.config["prerequisites"][-1]["uri"].split("/")[-2] for job in pai.jobs.values()]
    assert sorted(posted) == sorted(names)
    assert not any("__attempt" in job for job in pai.posts())
    rows = Study().output().rows()
    assert [row["state"] for row in rows] == ["SUCCEEDED"] * 6
    for each in names:
        output = Path(storage, each, "output")
        assert (output / "_SUCCESS").read_text() == f"{each}\n"
        assert (output / "_luigi_pai" / f"{each}.1.SUCCEEDED").exists()
