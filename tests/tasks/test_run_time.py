"""How long a job has run, where its server does not say when it began, as 0.x do not."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from lives import Life, lives
from process_state import forget
from sweep_tasks import Study
from sweep_tasks import Train as Point
from train_task import Train, build

from luigi_pai import grid
from luigi_pai.errors import PaiJobTimeout

HOUR = 3600.0


class Long(Train):
    """A task with an output folder on HDFS, so that its submissions are claimed."""

    output_dir = "$PAI_DEFAULT_FS_URI/out/long"
    run_timeout = 12 * HOUR


LOOKED_UP_EVERY = 3600  # seconds


@pytest.fixture(autouse=True)
def _reasons(monkeypatch):
    """Why a job waits is asked for once, and not each minute of its 20 hours."""
    monkeypatch.setattr("luigi_pai.api.waiting._AGAIN_AFTER", 1e9)


@pytest.fixture
def cluster(pai, hdfs, settings):  # noqa: ARG001  it is there
    """A server whose jobs wait for 20 hours, and are looked up every hour."""
    settings(poll_min=LOOKED_UP_EVERY, poll_max=LOOKED_UP_EVERY)
    pai.plan = {"waits_for": 20 * HOUR, "runs_for": 13 * HOUR}
    return pai


def interrupted_after(pai, hours: float, task) -> None:
    """Run a task in a process that ends after some hours."""

    pai.clock.call_later(hours * HOUR, Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        task.run()
    forget()


class Interrupted(Life):
    """Lives in several processes."""

    def interrupted_after(self, hours):
        interrupted_after(self._pai, hours, self._task)

    def state(self, state):
        assert self._pai.jobs["train"].state == state

    def age(self, hours):
        age = self._pai.clock.time() - self._pai.jobs["train"].created
        assert age == pytest.approx(hours * HOUR, abs=2 * LOOKED_UP_EVERY)


@lives("run_time")
def test_a_life(cluster, settings, caplog, steps):
    Interrupted(cluster, settings, caplog, Long).play(steps)


@pytest.mark.parametrize(("release", "hours"), [("0.17.0", 33), ("1.0.1", 32)])
def test_without_hdfs_the_server_or_this_machine_tells_the_start(pai, settings, release, hours):
    """From 1.0 on that is the start; for 0.17, this machine knows when the job was first seen running."""
    settings(poll_min=LOOKED_UP_EVERY, poll_max=LOOKED_UP_EVERY)
    pai.release, pai.plan = release, {"waits_for": 20 * HOUR, "runs_for": 30 * HOUR}

    class Bare(Train):
        run_timeout = 12 * HOUR

    interrupted_after(pai, 25, Bare())
    with pytest.raises(PaiJobTimeout):
        Bare().run()
    job = pai.jobs["train"]
    assert pai.clock.time() - job.created == pytest.approx(hours * HOUR, abs=2 * LOOKED_UP_EVERY)


def test_what_the_claim_holds_is_one_empty_file(cluster, hdfs):
    """Beside it: the number of retries, and the time in milliseconds."""
    interrupted_after(cluster, 21, Long())
    (file,) = hdfs.glob("out/long/_luigi_pai/train.1.RUNNING-*")
    _running, retries, moment = file.name.rpartition(".")[2].split("-")
    began = cluster.jobs["train"].created + 20 * HOUR
    assert (file.stat().st_size, retries) == (0, "0")
    assert began <= int(moment) / 1000 <= began + 1.2 * LOOKED_UP_EVERY


def test_the_seconds_of_a_point_are_those_that_it_ran(pai, settings, tmp_path):
    """Not those in the queue; of one that was never seen running none."""
    settings(poll_min=60, poll_max=60)
    pai.plan = lambda name: {"waits_for": HOUR, "runs_for": 0.0 if "0.1" in name else 600.0}

    class Queued(Study):
        rates = (0.1, 0.2)
        batches = (16,)
        results_dir = str(tmp_path)

    assert build(Queued())
    seconds = {row["rate"]: row["seconds"] for row in Queued().output().rows()}
    assert seconds[0.1] is None
    assert seconds[0.2] == pytest.approx(600, abs=130)


@pytest.mark.parametrize(("release", "low", "high"), [("0.17.0", 0, 400), ("1.0.1", 600, 600)])
def test_a_point_that_another_run_has_started_has_its_seconds(pai, settings, tmp_path, release, low, high):
    """Six jobs, in lists that do not tell when they started: one lookup each does, from 1.0 on."""
    settings(poll_min=30, poll_max=60)
    pai.release = release
    for batch in range(6):
        pai.add(f"train-{batch}", waits_for=100.0, runs_for=600.0)
    pai.clock.advance(400.0)

    class Whole(Point):
        name = property(lambda self: f"train-{self.batch}")

    class TakenOver(Study):
        parallel_jobs = 6
        results_dir = str(tmp_path)

        def points(self):
            return grid(Whole, batch=range(6))

    assert build(TakenOver())
    seconds = [row["seconds"] for row in TakenOver().output().rows()]
    assert [low <= each <= high for each in seconds] == [True] * 6, seconds
    assert pai.submissions == 0
