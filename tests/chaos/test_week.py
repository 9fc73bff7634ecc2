"""A week of a process that watches jobs and runs tasks, on a clock that its waits move: nothing grows.

Jobs start and end all the time, tokens are revoked, lists are cut, and the server forgets.
"""

from __future__ import annotations

import gc
import os
import random
import threading
from dataclasses import dataclass
from pathlib import Path

import luigi
import psutil
import pytest
from chaos.dice import ROUNDS, SEED
from clocks import MovableClock
from faulty_pai import FaultyPai, nfs
from process_state import install_clock

from luigi_pai import OpenPai, PaiTask, TaskRole
from luigi_pai.api.caches import BoundedCache
from luigi_pai.api.submitting import Posting
from luigi_pai.api.watched import Outcome
from luigi_pai.api.watching import Watcher
from luigi_pai.jobspec.job import PaiJob

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

DAYS = 7 if ROUNDS > 1 else 2
HOUR = 3600.0
AT_ONCE = 6  # jobs that are watched
SHOWN = 8  # rows of a list, of the newest jobs
ENDS = ("SUCCEEDED", "FAILED", "STOPPED")
ENTRIES = 30  # of a cache: less than a day brings, so that all are full
LEAST_GROWTH = 500  # objects: less than one of each job of a week, and more than chance makes
KEPT = 12 * HOUR  # for which the server keeps an ended job
POOLS = ("fault-server", "asyncio_")  # threads of the test's servers; a pool may begin another at any request


class Hourly(PaiTask):
    """A task of which a scheduler runs one each hour."""

    name = luigi.Parameter()
    image = "x"
    tasks = [TaskRole("main", "true")]


class ForgetfulPai(FaultyPai):
    """A server whose lists are cut, and that forgets ended jobs."""

    def _newest_first(self):
        return super()._newest_first()[:SHOWN]

    def forget(self) -> None:
        now = self.clock.time()
        for name, job in list(self.jobs.items()):
            if job.state not in ("WAITING", "RUNNING") and now - job.created - job.runs_for > KEPT:
                del self.jobs[name]


@dataclass
class Day:
    """What a process has, at the end of a day, and what it asked for."""

    objects: int
    descriptors: int
    threads: int  # except the pools of the test's servers
    written: int  # files of the day, on HDFS or the storage
    state: int  # files of the day, in the state folder of this user
    busiest: int  # requests in the busiest hour
    logins: int


@dataclass
class Week:
    """The week of a process."""

    pai: ForgetfulPai
    clock: MovableClock
    chance: random.Random
    folders: list[Path]  # HDFS or the storage, and the state folder
    begun: int = 0

    def begin(self, watcher: Watcher, book) -> None:
        """Submit a job, and watch it."""
        name = f"job-{self.begun}"
        self.begun += 1
        self.pai.plan = {"runs_for": self.chance.uniform(0.2, 4) * HOUR, "ends_as": self.chance.choice(ENDS)}
        job = PaiJob(name, "x", [TaskRole("main", "true")])
        status = Posting(book, name, single=False).post(job)
        watcher.add(status, new=True)

    def live(self) -> list[Day]:
        """Live through it, and return its days."""
        book = OpenPai.current().cluster().book
        watcher, days = Watcher(book), list[Day]()
        book.api.list()  # shows the dialect
        for _ in range(AT_ONCE):
            self.begin(watcher, book)
        for _ in range(DAYS):
            logins, hours = self.pai.logins, []
            already = [files_in(folder) for folder in self.folders]
            for _ in range(24):
                before = len(self.pai.calls)
                self.live_for_an_hour(watcher, book)
                hours.append(len(self.pai.calls) - before)
            gc.collect()
            held = len(gc.get_objects()), psutil.Process().num_fds(), threads()
            made = (files_in(folder) - old for folder, old in zip(self.folders, already, strict=True))
            days.append(Day(*held, *made, max(hours), self.pai.logins - logins))
        return days

    def live_for_an_hour(self, watcher: Watcher, book) -> None:
        end = self.clock.monotonic() + HOUR
        self.pai.tokens.clear()
        self.pai.forget()
        self.pai.plan = {"runs_for": 60.0}
        luigi.task_register.Register.clear_instance_cache()
        Hourly(name=f"hourly-{int(end)}").run()
        while self.clock.monotonic() < end:
            self.clock.sleep(max(watcher.idle(), 0.01))
            for update in watcher.step():
                if update.outcome is not Outcome.CHANGED:
                    assert update.outcome is Outcome.ENDED
                    self.begin(watcher, book)


def threads() -> int:
    """Return how many this process has, except those in the pools of the test's servers."""
    return sum(not thread.name.startswith(POOLS) for thread in threading.enumerate())


def files_in(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("release", "place"),
    [("0.7.1", "hdfs"), ("1.8.0", "hdfs"), ("1.8.0", "storage"), ("ltp-1.5", "storage"), ("1.8.0", None)]
    if ROUNDS > 1
    else [("1.8.0", "hdfs"), ("1.8.0", "storage")],
)
def test_nothing_grows(release, place, request, settings, tmp_path, monkeypatch):
    """From the first day to the last: objects, descriptors, threads, files, requests and logins."""
    clock = MovableClock()
    install_clock(clock, monkeypatch)
    monkeypatch.setattr(BoundedCache.__init__, "__defaults__", (ENTRIES,))
    pai = ForgetfulPai(clock)
    pai.release = release
    settings(pai_url=pai.url, username="admin", password="admin-password", poll_min=60, poll_max=900)
    folder = tmp_path / "place"
    if place == "hdfs":
        folder = request.getfixturevalue("hdfs")
    elif place == "storage":
        folder.mkdir()
        pai.storages["nfs1"] = nfs(folder)
        settings(storage="nfs1")
    try:
        week = Week(pai, clock, random.Random(SEED), [folder, Path(os.environ["XDG_STATE_HOME"])])
        first, *_, last = week.live()
    finally:
        pai.close()
    assert week.begun > 50 * DAYS
    assert last.objects < first.objects + LEAST_GROWTH, (first, last)
    assert last.descriptors <= first.descriptors
    assert last.written <= first.written
    assert last.state <= first.state
    assert last.threads <= first.threads
    assert last.busiest < 1.5 * first.busiest, (first, last)
    assert last.logins < 1.5 * first.logins, (first, last)
