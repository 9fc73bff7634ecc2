"""Every request of a job's life times every fault: once, five times and for ever.

A cell is one release, one step of a job's life (``job_life.STEPS``), one fault
(``fault_kinds.WORDS``), and how often it strikes. What has to come of it stands in
``RULES``. Besides, of every cell: as many jobs are on the server as should be, the
end comes within the time that the settings allow, nothing shows a secret, no error is
one of an HTTP library, and a process that starts when the fault is gone does the task
with one job in all.

Seconds are those of a clock that moves when somebody waits on it, but for the timeouts of requests.
Some cells are drawn by a seed; with CHAOS_ROUNDS, all are run.
"""

from __future__ import annotations

import itertools
import logging
import math
import random
import re
from dataclasses import dataclass

import pytest
from chaos.dice import ROUNDS, SEED
from clocks import MovableClock
from elsewhere import Elsewhere
from fault_kinds import WORDS
from faulty_hdfs import FaultyHdfs
from faulty_pai import FaultyPai
from job_life import EARLY_V2, LOGGERS, LONGEST, LTP, NOTHING, STEP, STEPS, TIMEOUT, V1, V2, World
from leaks import foreign_parts, texts
from process_state import forget, install_clock, install_clock_of_retries

from luigi_pai import (
    AuthenticationError,
    ClusterUnreachable,
    HdfsError,
    InvalidReply,
    PaiApiError,
    PaiError,
    PaiHttpError,
    PaiJobError,
    PaiJobFailed,
    PaiJobForgotten,
    PaiJobLost,
    PaiNameTaken,
    PermissionRefused,
    RateLimited,
    ServerFault,
)

ONCE, FIVE_TIMES, FOR_EVER = 1, 5, math.inf
OFTEN = {ONCE: "once", FIVE_TIMES: "five", FOR_EVER: "ever"}
DRAWN = 80  # cells of each run without ROUNDS
OK = None  # the task is done

# ---------------------------------------------------------------- the table

# faults that pass: they say nothing of the job, and what is asked can be asked again
LOST = "refused reset reset-after hang hang-after drip garbage"
ODD = "bad-json html-200 404-html"
DOWN = "html-502 500 503"
LIMITED = "429 429-until"
ALL = " ".join(WORDS)

# (steps, faults, verdict where it strikes once, verdict where it strikes for ever). The first that fits a
# cell is its rule. A verdict is OK, the class of the error, or several of these where more than one is right.
# What strikes five times has either, unless ``outlives`` says more.
RULES = [
    ("stop", "slow", PaiJobFailed, PaiJobFailed),  # it is stopped
    ("*", "slow", OK, OK),
    # A server that has never replied before is taken for a wrong address.
    ("first", "drip", ClusterUnreachable, ClusterUnreachable),
    # Everything is faulty, from the process' first request on.
    ("first", "404", OK, PaiHttpError),  # NoJobError, to a question about the job; later to a login
    ("first", "401", OK, AuthenticationError),
    ("first", "403", PermissionRefused, (PermissionRefused, AuthenticationError)),
    # The login: who is refused is refused again.
    ("token", "401 403 404 409", AuthenticationError, AuthenticationError),
    # Does the server speak v1 or v2? What is no response to that may decide for the one that was tried.
    ("dialect", f"{LOST} truncated {DOWN} {LIMITED}", OK, (OK, PaiApiError)),
    ("dialect", ALL, (OK, PaiApiError), (OK, PaiApiError)),
    # The submission is acted upon and its answer lost: the lookup after it finds the job.
    ("submit", "reset-after hang-after drip garbage truncated bad-json", OK, OK),
    ("submit", "404", PaiHttpError, PaiHttpError),  # NoVirtualClusterError
    ("submit", "409", OK, PaiNameTaken),  # in use, and not to be seen: looked for again, for some time
    # Lookups: NoJobError is an answer, and before the submission the right one.
    ("lookup", "404", OK, OK),
    ("lookup", "bad-json", OK, (InvalidReply, ServerFault)),  # of LTP, which says with a 500 what is missing
    # LTP's second question: only one answer means that the job is missing, any other that the server failed.
    ("question", "403 404 409", OK, ServerFault),
    ("poll", "404", OK, PaiJobLost),
    # The lookup right after the submission is a poll too, and may fail with anything.
    ("poll", "403", (OK, PermissionRefused), PermissionRefused),
    ("poll", "409", (OK, PaiHttpError), PaiHttpError),
    # A list that only saves lookups is done without; the next one decides whether there is a job.
    ("list", "403", (OK, PermissionRefused), PermissionRefused),
    ("list", "404 409", (OK, PaiHttpError), PaiHttpError),  # NoVirtualClusterError
    # A message asks to stop the job. Where that cannot be done, the answer says so and the job runs on.
    # (Whether a stop is repeated is for the code to say; the user can send the message again.)
    ("stop", "refused", (OK, PaiJobFailed), ClusterUnreachable),  # for ever: it is gone for polls too
    ("stop", ALL, (OK, PaiJobFailed), (OK, PaiJobFailed)),
    # What only makes a text better is done without.
    ("config logs", ALL, OK, OK),
    # HDFS. The flag is written for later: what fails there fails no task.
    ("flag-write", ALL, OK, OK),
    # Is there a folder, so that there may be a flag? FileNotFoundException is an answer.
    ("folder-status", "404", OK, OK),
    ("folder-status", f"401 403 409 500 drip redirect {LIMITED} {ODD}", (OK, HdfsError), HdfsError),
    ("folder-status", ALL, OK, HdfsError),
    # There is one, and nothing else knows of the job: what cannot be read is not "no": nothing is submitted.
    # The claim says that the job was submitted, so nothing is, even if the flag seems to be gone.
    ("flag-open", "404", (OK, HdfsError, PaiJobForgotten), (OK, HdfsError, PaiJobForgotten)),
    ("flag-open", f"401 403 409 500 {LIMITED}", (OK, HdfsError), HdfsError),
    ("flag-open", f"redirect {ODD}", (OK, HdfsError, PaiJobForgotten), (OK, HdfsError, PaiJobForgotten)),
    ("flag-open", ALL, OK, HdfsError),
    # Requests that may be repeated are; answers that no NameNode gives may be believed at once.
    ("upload-namenode", "401 403 404 409", HdfsError, HdfsError),
    ("upload-namenode", "truncated bad-json", OK, OK),  # all that matters is in the headers
    (
        "upload-namenode",
        "drip",
        HdfsError,
        HdfsError,
    ),  # asked once: it took too long
    ("upload-namenode", f"500 truncated redirect {LIMITED} {ODD}", (OK, HdfsError), HdfsError),
    ("upload-namenode", ALL, OK, HdfsError),
    # Data that was on its way may be sent again or not.
    ("upload-datanode", "truncated bad-json", (OK, HdfsError), (OK, HdfsError)),  # 201, which says all
    ("upload-datanode", ALL, (OK, HdfsError), HdfsError),
    # Claims. That there are none is an answer; one that cannot be read is an error.
    ("claim-list", "404", OK, OK),
    ("claim-list claim-write claim-read", ALL, (OK, HdfsError), (OK, HdfsError)),
    # The rest-server, in general.
    ("*", LOST, OK, ClusterUnreachable),
    ("*", "truncated", OK, (ClusterUnreachable, InvalidReply)),  # what is cut can be called either
    ("*", ODD, OK, InvalidReply),
    ("*", DOWN, OK, ServerFault),
    ("*", LIMITED, OK, RateLimited),
    ("*", "redirect", (OK, InvalidReply), InvalidReply),  # more often a wrong pai_url than a fault
    ("*", "401", OK, AuthenticationError),  # another login
    ("*", "403", PermissionRefused, PermissionRefused),
    ("*", "409", PaiHttpError, PaiHttpError),  # makes no sense
]

_ASKED_FIRST = {
    "first",
    "lookup",
    "question",
    "folder-status",
    "flag-open",
    "claim-list",
    "claim-read",
}  # by complete()
_RUNS_ON = {"poll", "stop"}  # where an error leaves a job behind that runs
_DONE = {"flag-open", "claim-read"}  # the job has run, and the server has forgotten it
_UNSURE = {"claim-write"}  # claims are written before the submission, ends after it


@dataclass(frozen=True)
class Cell:
    """One cell of the matrix."""

    release: str
    step: str
    word: str
    times: float

    def __str__(self) -> str:
        return f"{self.release}-{self.step}-{self.word}-{OFTEN[self.times]}"

    @property
    def verdicts(self) -> tuple[type[PaiError] | None, ...]:
        """What may come of it."""
        *_words, once, for_ever = RULES[self.rule]
        once, for_ever = ((one if isinstance(one, tuple) else (one,)) for one in (once, for_ever))
        if self.times == ONCE or (self.times == FIVE_TIMES and self.outlives):
            return once
        return for_ever if self.times == FOR_EVER else tuple({*once, *for_ever})

    @property
    def outlives(self) -> bool:
        """Whether five of these take less time than the settings let a run wait: no timeout is among them."""
        passing = "refused reset reset-after garbage truncated bad-json html-502 500 503 429"
        return self.step == "poll" and self.word in passing.split()

    @property
    def rule(self) -> int:
        """The index of its rule."""
        return next(
            index
            for index, (steps, words, *_verdicts) in enumerate(RULES)
            if (self.step in steps.split() or steps == "*") and self.word in words.split()
        )


CELLS = [
    Cell(release, step.name, word, times)
    for step, word, times in itertools.product(STEPS, WORDS, OFTEN)
    for release in step.releases
]
PLAYED = CELLS if ROUNDS > 1 else random.Random(SEED).sample(CELLS, DRAWN)

# ---------------------------------------------------------------- the servers


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    """One HDFS for all cells; jobs have names of their own."""
    server = FaultyHdfs(tmp_path_factory.mktemp("hdfs"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def elsewhere():
    """Where redirects lead."""
    server = Elsewhere()
    yield server
    server.close()


_serial = itertools.count(1)


def longest(step: str) -> float:
    """Return the seconds that a process may take; one write to HDFS is nine requests."""
    return LONGEST * (3 if step == "flag-write" else 1)


@pytest.fixture
def make_world(hdfs, elsewhere, settings, monkeypatch, tmp_path):
    """Return a function that makes the servers, the settings and the clock for one step."""
    worlds = []

    def make(release: str, step: str, word: str = NOTHING) -> World:
        clock = MovableClock(longest(step))
        install_clock(clock, monkeypatch)
        install_clock_of_retries(clock, monkeypatch)
        hdfs.clock = clock
        pai = FaultyPai(clock)
        pai.release = release
        pai.plan = {"runs_for": 40.0 if step == "stop" else 3.0}
        if step == "logs":
            pai.plan |= {"ends_as": "FAILED", "exit_code": 1, "task_codes": {0: 1}}
        world = World(pai, hdfs, elsewhere, clock, tmp_path, f"job-{next(_serial)}", STEP[step], word)
        worlds.append(world)
        elsewhere.requests.clear()
        settings(**world.settings())
        world.warm_up()
        return world

    yield make
    for world in worlds:
        world.pai.close()
        hdfs.heal()
    forget()


# ---------------------------------------------------------------- the tests


@pytest.mark.slow
@pytest.mark.parametrize("cell", PLAYED, ids=str)
def test_a_fault(cell, make_world, settings, caplog):
    """A fault has its verdict, in time and without secrets; the next process does the task, in one job."""
    with caplog.at_level(logging.DEBUG):
        for logger in LOGGERS:
            caplog.set_level(logging.DEBUG, logger.name)
        world = make_world(cell.release, cell.step, cell.word)
        fault = world.bring(cell.times)
        first = world.live()
        if cell.step == "logs":  # the job has failed, whatever becomes of its logs
            assert isinstance(first.error, PaiJobFailed)
        else:
            assert_verdict(cell, first.error, struck=fault.struck > 0)
        unseen = (cell.step, cell.word) == (
            "flag-open",
            "bad-json",
        )  # a name without its last letter is one, too
        if first.error is not None and cell.step in _ASKED_FIRST and cell.word != "404" and not unseen:
            assert not first.asked, "complete() was answered by no server, and said no"
        assert_jobs(cell, world, first.error)
        assert first.took < longest(cell.step)
        if first.error is not None:
            assert_the_job_is_named(cell, world, first.error)
            assert not foreign_parts(first.error)
        assert_answers(first)

        world.start_anew()
        settings(read_timeout=TIMEOUT)
        second = world.live()
        assert second.error is None, f"the next process: {second.error!r}"
        assert world.is_complete()
        assert_jobs(cell, world, first.error, then_done=True)
    shown = [caplog.text, *first.answers, world.elsewhere.seen()]
    shown += texts(first.error) if first.error is not None else []
    for secret, text in itertools.product(world.secrets(), shown):
        assert secret not in text, text[max(0, text.find(secret) - 300) : text.find(secret) + 100]
    assert "authorization" not in world.elsewhere.seen().lower()


def assert_verdict(cell: Cell, error: Exception | None, *, struck: bool) -> None:
    """Fail where what came is not what had to come; a fault that did not strike is none."""
    verdicts = cell.verdicts if struck else (OK,)
    if error is None:
        assert OK in verdicts, f"the task is done; expected: {_said(verdicts)}"
        return
    right = isinstance(error, tuple(verdict for verdict in verdicts if verdict is not OK))
    assert right, f"{error!r}; expected: {_said(verdicts)}"
    assert isinstance(error, PaiError)


def _said(verdicts) -> str:
    return " or ".join("OK" if verdict is OK else verdict.__name__ for verdict in verdicts)


def own_jobs(world: World) -> list[str]:
    return [name for name in world.pai.posts() if name != "warm"]


def assert_jobs(cell: Cell, world: World, error: Exception | None, *, then_done: bool = False) -> None:
    """Fail where the server has other jobs than it should.

    Args:
        cell: of the matrix.
        world: with the server.
        error: of the process that met the fault.
        then_done: whether another process has done the task since.
    """
    one = [world.name]
    jobs = own_jobs(world)
    if cell.step in _DONE:
        assert jobs == [] or (cell.word == "404" and jobs == one)  # it said that there is no flag
    elif isinstance(error, PaiJobFailed):
        assert jobs == ([*one, f"{world.name}__attempt2"] if then_done else one)
    elif error is None or cell.step in _RUNS_ON or then_done:
        assert jobs == one
    elif cell.step not in _UNSURE:
        assert jobs == []


def assert_the_job_is_named(cell: Cell, world: World, error: Exception) -> None:
    """Fail where a user cannot see which job an error is about, and what becomes of it."""
    if cell.step in ("submit", "poll"):
        assert world.name in str(error)
    if cell.step in _RUNS_ON and not isinstance(error, PaiJobError):
        assert re.search(r"next run|runs on|goes on|tak\w+ (it )?over", str(error))


def assert_answers(outcome) -> None:
    """Fail where the answer to a message does not say that the job runs on."""
    if outcome.answers and outcome.error is None:
        assert "could not be stopped" in outcome.answers[-1]


@pytest.mark.parametrize(
    ("release", "step"), [(release, step.name) for step in STEPS for release in step.releases]
)
def test_the_life_of_a_job_has_this_request(release, step, make_world):
    """Each step of the matrix is asked in a life without faults: no cell is empty."""
    world = make_world(release, step)
    fault = world.bring(FOR_EVER)
    assert world.live().error is None or step in ("stop", "logs")
    assert fault.struck


def test_the_table_has_no_rule_in_vain():
    """Each rule is that of some cell, and each cell has one."""
    assert {cell.rule for cell in CELLS} == set(range(len(RULES)))
    assert {cell.release for cell in CELLS} == {V1, EARLY_V2, V2, LTP}
