"""Book, claims and submissions against a model of server and HDFS or storage, by schedules of Hypothesis.

A schedule says which worker goes on with its next request, whether its reply is lost or the worker killed
there, how jobs end, when the server or its files are away or forgotten, and who sees the storage as it was.
Whatever the schedule: no work runs twice, none is lost, and what a worker says of its task is true.
"""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import luigi
import pytest
from chaos.dice import ROUNDS, SEED
from chaos.interleaving import FATES, GO, LOST, Interleaving, KilledError
from chaos.small_hdfs import SmallHdfs
from chaos.small_storage import SmallStorage
from faulty_pai import PASSWORD, FaultyPai, nfs
from hypothesis import HealthCheck, Phase, seed, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as play
from process_state import install_clock, install_clock_of_retries

from luigi_pai import PaiJobFailed, PaiJobForgotten, PaiSweep, PaiTask, TaskRole
from luigi_pai.api import session
from luigi_pai.api.submitting import Posting
from luigi_pai.errors import ClusterUnreachable, PaiSweepFailed
from luigi_pai.files.errors import HdfsError
from luigi_pai.jobspec.arrays.jobs import jobs_in
from luigi_pai.jobspec.names import base_name
from luigi_pai.work.claims import Claims
from luigi_pai.work.decide import RunsInArrayError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

RELEASES = {"hdfs": ("0.7.1", "1.8.0", "ltp-1.5"), "storage": ("1.8.0", "ltp-1.5")}
WORKS = ("a", "b", "c")
DAY = 24 * 3600.0
FOR_EVER = 1e12
MOST_STEPS = 5000  # of all workers after the schedule; none needs as many
STOPPED = -210  # exit code of the tasks of a job that a user has stopped
FINAL = ("SUCCEEDED", "FAILED", "STOPPED")


class Train(PaiTask):
    """A task."""

    name = luigi.Parameter()
    image = "x"
    tasks = [TaskRole("main", "true", memoryMB=100)]


class Study(PaiSweep):
    """Some of the tasks, in arrays; each run has a journal of its own, as sweeps that overlap have."""

    works = luigi.ListParameter()
    results_dir = luigi.Parameter()
    points_per_job = 2

    def points(self):
        return [Train(name=name) for name in self.works]


@dataclass
class Submission:
    """A submission that the server has accepted; the model remembers its end when the server forgets it."""

    name: str
    job: str
    index: int | None
    pai: Server = field(repr=False)

    @property
    def state(self) -> str:
        job = self.pai.accepted[self.job]
        if self.index is None or job.state not in FINAL or job.state == "STOPPED":
            return job.state
        return "FAILED" if (job.task_codes or {}).get(self.index) else "SUCCEEDED"


class Server(FaultyPai):
    """A rest-server that notes what it has accepted, and what should not have been."""

    def __init__(self) -> None:
        super().__init__()
        self.empty()

    def empty(self) -> None:
        self.jobs.clear()
        self.tokens.clear()
        self.accepted = {}
        self.ledger: list[Submission] = []
        self.twice: list[str] = []
        self.plan = {"runs_for": FOR_EVER, "task_codes": {}}

    def _submit(self, name, config, done):
        reply = super()._submit(name, config, done)
        if reply.status == 202:
            self.accepted[name] = self.jobs[name]
            members = (jobs_in(config) if self.release != "0.7.1" else None) or None
            new = [Submission(each, name, index, self) for index, each in enumerate(members or ())]
            for one in new or [Submission(name, name, None, self)]:
                self._check(one)
                self.ledger.append(one)
        return reply

    def _check(self, new: Submission) -> None:
        """Note a submission whose work runs already, has succeeded, or was submitted under this name."""
        for old in self.of(base_name(new.name)):
            if old.name == new.name or old.state not in ("FAILED", "STOPPED"):
                self.twice.append(f"{new.name} as {new.job}, while {old.name} as {old.job} is {old.state}")

    def of(self, work: str) -> list[Submission]:
        return [one for one in self.ledger if base_name(one.name) == work]


class Life(RuleBasedStateMachine):
    """The life of some tasks."""

    servers: dict[str, Server]
    folder: Path
    place: str
    as_user: Callable[..., None]
    serial = itertools.count()

    @initialize(draw=strategies.data())
    def begin(self, draw):
        release = draw.draw(strategies.sampled_from(RELEASES[self.place]))
        luigi.task_register.Register.clear_instance_cache()
        self.patch = pytest.MonkeyPatch()
        self.pai, self.hdfs, self.number = self.servers[release], SmallHdfs(), next(self.serial)
        self.pai.empty()
        self.world = Interleaving(self.pai, self.hdfs)
        self.world.install(self.patch)
        if self.place == "storage":
            root = self.folder / f"storage-{self.number}"
            root.mkdir()
            self.as_user(storage="nfs1", storage_path=root, api_version="v2")
            self.storage = SmallStorage(self.world, root)
            self.storage.install(self.patch)
        else:
            self.as_user(webhdfs_url="http://hdfs.test:1", fs_uri="hdfs://hdfs.test:9000")
        # a login waits for that of another process on the real clock, and then continues without the lock
        self.patch.setattr(session, "one_at_a_time", lambda *_: contextlib.nullcontext())
        install_clock(self.world.clock, self.patch)
        install_clock_of_retries(self.world.clock, self.patch)
        self.pai.clock = self.world.clock
        self.has_forgotten = False
        self.judged: set[str] = set()

    def teardown(self):
        if not hasattr(self, "world"):
            return
        try:
            self.live_on()
            for work in sorted({base_name(one.name) for one in self.pai.ledger}):
                self.end_well(work)
        finally:
            for worker in self.world.alive:
                worker.kill()
            self.patch.undo()

    # the rules

    @precondition(lambda self: len(self.world.alive) < 4)
    @rule(work=strategies.sampled_from(WORKS))
    def a_worker_begins_a_task(self, work):
        self.start_task(work)

    @precondition(lambda self: len(self.world.alive) < 4 and self.pai.release != "0.7.1")
    @rule(first=strategies.integers(0, 1), count=strategies.integers(2, 3))
    def a_worker_begins_a_sweep(self, first, count):
        works, number = WORKS[first : first + count], next(self.serial)
        study = Study(works=works, results_dir=f"{self.folder}/{number}")
        self.world.start(f"sweep {number} of {'+'.join(works)}", lambda: (study.run(), works)[1])

    @precondition(lambda self: self.world.alive)
    @rule(which=strategies.integers(0, 3), steps=strategies.integers(1, 12))
    def a_worker_goes_on(self, which, steps):
        worker = self.world.alive[which % len(self.world.alive)]
        for _ in range(steps):
            if not worker.done:
                worker.advance(GO)

    @precondition(lambda self: self.world.alive)
    @rule(which=strategies.integers(0, 3), fate=strategies.sampled_from(FATES))
    def something_befalls_a_request(self, which, fate):
        worker = self.world.alive[which % len(self.world.alive)]
        worker.advance(fate)

    @precondition(lambda self: self.world.alive)
    @rule(which=strategies.integers(0, 3), fate=strategies.sampled_from(LOST))
    def something_befalls_the_next_change(self, which, fate):
        """Of the requests that change something, on the server or on HDFS."""
        worker = self.world.alive[which % len(self.world.alive)]
        for _ in range(30):
            if worker.done or worker.at.startswith(("POST", "PUT", "DELETE")):
                break
            worker.advance(GO)
        if not worker.done:
            worker.advance(fate)

    @rule(which=strategies.integers(0, 5), state=strategies.sampled_from(FINAL), odd=strategies.booleans())
    def a_job_ends(self, which, state, odd):
        going = [job for job in self.pai.accepted.values() if job.state == "RUNNING"]
        if going:
            end(going[which % len(going)], state, odd=odd)

    @rule(place=strategies.sampled_from(("pai", "hdfs")))
    def a_server_is_away_or_back(self, place):
        self.world.away ^= {place}

    @precondition(lambda self: self.place == "storage" and self.world.alive)
    @rule(which=strategies.integers(0, 3))
    def a_view_of_the_storage_gets_old(self, which):
        self.storage.show_old(self.world.alive[which % len(self.world.alive)])

    @rule()
    def tokens_are_revoked(self):
        self.pai.tokens.clear()

    @rule(days=strategies.sampled_from((0.2, 40)))
    def everybody_is_gone_for_days(self, days):
        """A worker that sleeps longer than servers remember has only its name to protect it: none does."""
        for worker in self.world.alive:
            worker.kill()
        self.world.clock.now += days * DAY
        if days > 1:
            ended = [name for name, job in self.pai.jobs.items() if job.state in FINAL]
            self.has_forgotten |= bool(ended) or self.has_unposted()
            for name in ended:
                del self.pai.jobs[name]

    def has_unposted(self) -> bool:
        """Return whether a worker was killed between its claim and its post: its job is as if forgotten."""
        root, claim = self.folder / f"storage-{self.number}", "*/output/_luigi_pai/[!.]*.json"
        files = self.hdfs.files.items()
        claims = [data for path, data in files if data and fnmatch.fnmatch(path, f"/{claim}")]
        claims += [path.read_bytes() for path in root.glob(claim)]
        return any(json.loads(each)["job"] not in self.pai.accepted for each in claims)

    # what always holds

    @invariant()
    def nothing_is_submitted_twice(self):
        if hasattr(self, "world"):
            assert not self.pai.twice, self.story()

    @invariant()
    def what_workers_say_is_true(self):
        if not hasattr(self, "world"):
            return
        for worker in self.world.workers:
            if worker.done and worker.name not in self.judged:
                self.judged.add(worker.name)
                self.judge(worker)

    def judge(self, worker):
        error = worker.error
        if error is None:
            for work in worker.result:
                assert any(one.state == "SUCCEEDED" for one in self.pai.of(work)), self.story(worker)
            return
        if isinstance(error, KilledError):
            return
        if isinstance(error, RunsInArrayError):
            assert any(one.index is not None for one in self.pai.ledger), self.story(worker)
            return
        allowed = (PaiJobFailed, PaiSweepFailed, PaiJobForgotten, ClusterUnreachable, HdfsError)
        assert isinstance(error, allowed), self.story(worker)
        assert "already exists" not in str(error), self.story(worker)  # its own job has the name
        if isinstance(error, PaiJobFailed):
            states = [one.state for one in self.pai.ledger if error.status.name in (one.name, one.job)]
            assert set(states) & {"FAILED", "STOPPED"}, self.story(worker)
        if isinstance(error, PaiJobForgotten):
            assert self.has_forgotten, self.story(worker)

    def story(self, worker=None) -> str:
        lines = [*self.world.log[-60:], f"twice: {self.pai.twice}"]
        lines += [f"{one.name} as {one.job}: {one.state}" for one in self.pai.ledger]
        return "\n".join([*lines, f"{worker.name}: {worker.error!r}" if worker else ""])

    # the end

    def start_task(self, work):
        def run():
            task = Train(name=work)
            if not task.complete():
                task.run()
            return [work]

        return self.world.start(f"task {next(self.serial)} of {work}", run)

    def live_on(self):
        """Let all workers come to their end, on servers that answer, with jobs that succeed."""
        self.world.away.clear()
        for _ in range(MOST_STEPS):
            alive = self.world.alive
            if not alive:
                break
            waiting = [one for one in alive if one.due is not None]
            if len(waiting) == len(alive):
                self.end_all()
            worker = min(waiting, key=lambda one: one.due) if len(waiting) == len(alive) else None
            worker = worker or next(one for one in alive if one.due is None)
            worker.advance(GO)
        assert not self.world.alive, self.story(self.world.alive[0] if self.world.alive else None)
        self.nothing_is_submitted_twice()
        self.what_workers_say_is_true()

    def end_all(self):
        for job in self.pai.accepted.values():
            if job.state == "RUNNING":
                end(job, "SUCCEEDED")

    def end_well(self, work):
        """Nothing is lost: another run ends the task, or says that its job was forgotten."""
        self.end_all()
        worker = self.start_task(work)
        self.live_on()
        if self.has_forgotten and isinstance(worker.error, PaiJobForgotten):
            return
        assert worker.error is None, self.story(worker)


def end(job, state: str, *, odd: bool = False) -> None:
    """End a job; of an array that fails, the points of odd or of even index; of one that is stopped, all."""
    job.runs_for, job.waits_for, job.ends_as = job.clock.time() - job.created, 0.0, state
    job.exit_code = 0 if state == "SUCCEEDED" else 1
    if state == "FAILED":
        job.task_codes = {index: 1 for index in range(3) if index % 2 == odd}
    elif state == "STOPPED":
        job.task_codes = dict.fromkeys(range(3), STOPPED)


@pytest.fixture(scope="module")
def servers():
    """One server of each release."""
    made = {}
    for release in RELEASES["hdfs"]:
        made[release] = Server()
        made[release].release = release
        made[release].storages["nfs1"] = nfs("")
    yield made
    for server in made.values():
        server.close()


@pytest.fixture
def run(servers, as_user, tmp_path, caplog):
    """Play a number of schedules."""
    caplog.set_level(logging.CRITICAL)

    def run_some(examples: int, place: str = "hdfs") -> None:
        class Played(Life):
            pass

        Played.servers, Played.folder, Played.place = servers, tmp_path, place
        Played.as_user = staticmethod(as_user)
        how = settings(
            database=None,
            deadline=None,
            max_examples=examples,
            stateful_step_count=40,
            print_blob=False,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        play(seed(SEED)(Played), settings=how)

    return run_some


@pytest.fixture
def as_user(settings):
    """Make the settings of all workers, with those of their files."""

    def use(**files: object) -> None:
        settings(
            pai_url="http://pai.test:1",
            username="admin",
            password=PASSWORD,
            poll_min=1,
            poll_max=20,
            poll_patience=60,
            **files,
        )

    return use


@pytest.mark.parametrize("place", RELEASES)
def test_no_schedule_breaks_the_promise(run, place):
    """Of some drawn by a seed."""
    run(25 if ROUNDS == 1 else 10 * ROUNDS, place)


def claims_are_not_exclusive(monkeypatch):
    """Each worker believes that it has the claim."""
    monkeypatch.setattr(Claims, "claim", Claims.replace)


def lost_replies_are_not_looked_up(monkeypatch):
    """A post without a reply is sent again, and its name is in use then."""

    def after(posting, error, _took):
        posting._sleep(posting._posts.wait_after(error))

    def is_held(_posting, error):
        raise error

    monkeypatch.setattr(Posting, "_after", after)
    monkeypatch.setattr(Posting, "_is_held", is_held)


def claims_come_after_the_post(monkeypatch):
    """A worker that is killed between the two leaves a job that nobody finds."""

    monkeypatch.setattr("luigi_pai.work.evidence.claim_once", lambda _claims, claim, *_: claim)


BUGS = [
    (claims_come_after_the_post, r"twice: \[.*as points-array"),
    (lost_replies_are_not_looked_up, "NameConflict|already exists"),
    (claims_are_not_exclusive, r"twice: \[.*as points-array"),
]


@pytest.mark.parametrize("place", RELEASES)
@pytest.mark.parametrize(("bug", "found"), BUGS if ROUNDS > 1 else BUGS[:1])
def test_schedules_find_what_breaks_it(run, monkeypatch, bug, found, place):
    """Each of these takes one thing away that the promise rests on."""
    bug(monkeypatch)
    with pytest.raises(AssertionError, match=found):
        run(1200, place)  # it ends with the first that fails
