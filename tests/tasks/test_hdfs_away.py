"""A real HDFS that is away when a job ends: in safe mode, or its NameNode dies and starts again."""

from __future__ import annotations

import contextlib
import time

import pytest
from clocks import MovableClock
from hdfs_backend import EACH_HADOOP, own_hdfs
from process_state import install_clock
from train_task import Train

import luigi_pai.work.run
from luigi_pai import PaiJobFailed
from luigi_pai.files import WebHdfs

pytestmark = pytest.mark.slow


class _Clock(MovableClock):
    """Waits move it; a server that starts gets a tenth of a second at each."""

    def sleep(self, seconds: float) -> None:
        time.sleep(0.1)
        super().sleep(seconds)


OUTAGES = {
    "safe mode": (lambda own: own.safe_mode(on=True), lambda own: own.safe_mode(on=False)),
    "a killed NameNode": (lambda own: own.kill_namenode(), lambda own: own.start_namenode()),
}


@pytest.fixture(scope="module", params=EACH_HADOOP)
def own(request):
    """An HDFS of each version that nobody else uses."""
    with own_hdfs(request.param) as hdfs:
        yield hdfs


@pytest.mark.parametrize(("outage", "state"), [("safe mode", "FAILED"), ("a killed NameNode", "SUCCEEDED")])
def test_the_end_of_a_job_is_recorded(own, pai, settings, monkeypatch, caplog, outage, state):
    """The run waits for HDFS, which comes back after 30 s."""
    clock, (begin, end), record = _Clock(), OUTAGES[outage], luigi_pai.work.run.record

    def away(*arguments, **named):
        begin(own)
        clock.call_later(30, lambda: end(own))
        return record(*arguments, **named)

    folder = f"/{outage.replace(' ', '-')}-{state}"
    settings(webhdfs_url=own.url, fs_uri=own.fs_uri, hdfs_user=own.user, poll_patience=10_000)
    pai.clock, pai.plan = clock, {"ends_as": state}
    install_clock(clock, monkeypatch)
    monkeypatch.setattr(Train, "output_dir", folder)
    monkeypatch.setattr("luigi_pai.work.run.record", away)
    with pytest.raises(PaiJobFailed) if state == "FAILED" else contextlib.nullcontext():
        Train().run()
    assert clock.elapsed >= 30
    assert "could not be recorded" not in caplog.text
    names = {name.rpartition("/")[2] for name in WebHdfs(own.url, own.user).listdir(folder, recursive=True)}
    assert names == {"_luigi_pai", "train.1.json", f"train.1.{state}"} | (
        {"_SUCCESS"} if state == "SUCCEEDED" else set()
    )
