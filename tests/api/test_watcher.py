"""When to ask next, and how long to bear with a server that does not answer. On a clock of its own."""

from __future__ import annotations

import logging
import types

import pytest

from luigi_pai.api import watch as watch_module
from luigi_pai.api.session import Account
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.api.watch import FAULTS, Patience, Polling, next_wait, watch
from luigi_pai.errors import (
    AuthenticationError,
    ClusterUnreachable,
    InvalidReply,
    JobNotFound,
    PaiJobLost,
    PermissionRefused,
    RateLimited,
    ServerFault,
)

START = 1_000_000.0


class Clock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.now = START
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        assert seconds > 0
        self.pauses.append(seconds)
        self.now += seconds

    @property
    def passed(self) -> float:
        return self.now - START


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    read = types.SimpleNamespace(monotonic=lambda: clock.now, time=lambda: clock.now, sleep=clock.pause)
    monkeypatch.setattr(watch_module, "time", read)
    return clock


class Client:
    """Answers as it is told: a function of the number of the question, from 1."""

    def __init__(self, answer) -> None:
        self.account = Account("http://h:9186", "admin")
        self.answer = answer
        self.asked = 0

    def status(self, name: str) -> JobStatus:
        self.asked += 1
        said = self.answer(self.asked)
        if isinstance(said, Exception):
            raise said
        return JobStatus(name, JobState.of(said), raw_state=said)


def in_turn(*answers):
    """Answer with each in turn, and with the last ever after."""
    return lambda number: answers[min(number, len(answers)) - 1]


def follow(client, clock, status=None, polling=None, *, just_submitted=False):
    """Watch job ``j`` and return its end and the states told on the way."""
    told: list[str] = []
    end = watch(
        client,
        status or JobStatus("j", JobState.WAITING, raw_state="WAITING"),
        polling or Polling(),
        just_submitted=just_submitted,
        on_change=lambda status: told.append(status.raw_state),
        pause=clock.pause,
    )
    return end, told


def down():
    raise ServerFault("x")


def not_found() -> JobNotFound:
    return JobNotFound("no", status=404)


# ---------------------------------------------------------------- the schedule


@pytest.mark.parametrize(
    ("age", "wait"), [(0, 0.5), (5, 0.5), (10, 1), (60, 6), (300, 30), (86400, 30)], ids=str
)
def test_the_wait_is_a_tenth_of_the_age_between_its_bounds(age, wait):
    """Every 0.5 s at first, 6 s at a minute, 30 s from five minutes on; give or take a tenth."""
    waits = [next_wait(age, Polling()) for _ in range(300)]
    assert all(0.9 * wait <= one <= 1.1 * wait for one in waits)
    assert max(waits) - min(waits) > 0.1 * wait  # spread, so that many jobs do not ask at once


def test_the_bounds_are_those_of_the_settings():
    """poll_min and poll_max hold."""
    polling = Polling(shortest=2, longest=3)
    assert 1.8 <= next_wait(0, polling) <= 2.2
    assert 2.7 <= next_wait(1000, polling) <= 3.3


def test_an_hour_of_running_is_few_questions(clock):
    """A job of an hour is asked for less than 200 times, one of 5 s noticed within a second of its end."""
    long = Client(lambda _: "RUNNING" if clock.passed < 3600 else "SUCCEEDED")
    follow(long, clock)
    assert long.asked < 200
    clock.now = START
    short = Client(lambda _: "RUNNING" if clock.passed < 5 else "SUCCEEDED")
    follow(short, clock)
    assert clock.passed < 6


def test_a_job_taken_over_is_asked_for_by_its_own_age(clock):
    """The age counts from the server's time stamp, not from this process's start."""
    client = Client(in_turn("SUCCEEDED"))
    created = (START - 60) * 1000
    follow(client, clock, JobStatus("j", JobState.RUNNING, created_ms=int(created)))
    assert 5.4 <= clock.pauses[0] <= 6.6


def test_a_server_clock_ahead_of_ours_is_age_zero(clock):
    """A job from the future is a new one."""
    follow(
        Client(in_turn("SUCCEEDED")), clock, JobStatus("j", JobState.RUNNING, created_ms=int(START * 2000))
    )
    assert clock.pauses[0] < 0.6


def test_a_job_that_was_just_submitted_is_new_whatever_the_clocks_say(clock):
    """A server whose clock is a day behind does not make a new job look old."""
    status = JobStatus("j", JobState.RUNNING, created_ms=int((START - 86400) * 1000))
    follow(Client(in_turn("SUCCEEDED")), clock, status, just_submitted=True)
    assert clock.pauses[0] < 0.6


# ---------------------------------------------------------------- following


def test_a_finished_job_is_not_asked_for(clock):
    """An end that is known already is told, and returned at once."""
    client = Client(in_turn("RUNNING"))
    status = JobStatus("j", JobState.SUCCEEDED, raw_state="SUCCEEDED")
    assert follow(client, clock, status) == (status, ["SUCCEEDED"])
    assert (client.asked, clock.pauses) == (0, [])


def test_changes_are_told_once_each(clock):
    """The first status and each that says something new are told, the same again is not."""
    client = Client(in_turn("WAITING", "RUNNING", "RUNNING", "RUNNING", "FAILED"))
    end, told = follow(client, clock)
    assert told == ["WAITING", "RUNNING", "FAILED"]
    assert (end.name, end.state, client.asked) == ("j", JobState.FAILED, 5)


def test_unheard_of_states_are_no_ends(clock):
    """UNKNOWN, STOPPING and words of later releases are waited through."""
    client = Client(in_turn("UNKNOWN", "HIBERNATING", "STOPPING", "COMPLETING", "RETRY_PENDING", "SUCCEEDED"))
    end, told = follow(client, clock)
    assert end.succeeded
    assert told == [
        "WAITING",
        "UNKNOWN",
        "HIBERNATING",
        "STOPPING",
        "COMPLETING",
        "RETRY_PENDING",
        "SUCCEEDED",
    ]


def test_an_outage_of_a_minute_is_waited_out(clock):
    """Faults of a minute end in the job's own end, and change nothing that is told."""
    client = Client(
        lambda _: (
            ClusterUnreachable("down")
            if 2 < clock.passed < 62
            else "RUNNING"
            if clock.passed < 70
            else "SUCCEEDED"
        )
    )
    end, told = follow(client, clock)
    assert end.succeeded
    assert told == ["WAITING", "RUNNING", "SUCCEEDED"]


def test_an_outage_beyond_the_patience_is_raised(clock):
    """After poll_patience seconds without an answer the fault itself is raised."""
    with pytest.raises(ClusterUnreachable, match=r"^down$"):
        follow(Client(lambda _: ClusterUnreachable("down")), clock, polling=Polling(patience=100))
    assert 100 <= clock.passed < 102


@pytest.mark.parametrize("kind", [AuthenticationError, PermissionRefused])
def test_what_is_no_fault_is_raised_at_once(clock, kind):
    """A refusal will not go away by waiting."""
    client = Client(lambda _: kind("no", status=403))
    with pytest.raises(kind):
        follow(client, clock)
    assert client.asked == 1


# ---------------------------------------------------------------- a job that is not there


def test_a_job_that_is_not_shown_yet_is_waited_for(clock):
    """Right after the submit a server may not know the job: a minute of 404 is no loss."""
    client = Client(lambda _: not_found() if clock.passed < 50 else "SUCCEEDED")
    assert follow(client, clock)[0].succeeded


def test_a_job_that_stays_unknown_is_lost(clock):
    """After a minute of 404 the job is lost, and the error says what to do."""
    client = Client(in_turn("RUNNING", not_found()))
    with pytest.raises(PaiJobLost) as caught:
        follow(client, clock)
    assert str(caught.value) == (
        "job 'j' is no longer known to http://h:9186: it was deleted, or it ended and was forgotten while "
        "nobody looked; if its results are complete, and on HDFS, put a file _SUCCESS into its output "
        "folder, else run the task again to submit it anew"
    )
    assert 60 <= clock.passed < 80


def test_a_job_that_is_seen_again_is_not_lost(clock):
    """The minute counts from the last time that the job was seen."""
    client = Client(
        lambda _: "SUCCEEDED" if clock.passed > 200 else "RUNNING" if 50 < clock.passed < 100 else not_found()
    )
    with pytest.raises(PaiJobLost):
        follow(client, clock)
    assert 150 < clock.passed < 200


# ---------------------------------------------------------------- patience


def test_pauses_double_up_to_a_limit(clock):
    """0.5 s, then twice as long each time, up to 15 s, each shortened by up to a half at random."""
    patience = Patience(1000, clock.pause)
    for _ in range(12):
        patience.bear(ServerFault("x"))
    bounds = [0.5, 1, 2, 4, 8, 15, 15, 15, 15, 15, 15, 15]
    assert all(bound / 2 <= one <= bound for one, bound in zip(clock.pauses, bounds, strict=True))
    assert len({one / bound for one, bound in zip(clock.pauses, bounds, strict=True)}) > 6


def test_the_last_try_is_at_the_limit(clock):
    """The patience is used up to its end: the last pause does not go beyond it."""
    patience = Patience(20, clock.pause)
    with pytest.raises(ServerFault):
        patience.call(down)
    assert clock.passed == pytest.approx(20, abs=0.05)


def test_an_answer_starts_the_time_anew(clock):
    """Faults with answers in between never use the patience up, and begin with a short pause again."""
    patience = Patience(20, clock.pause)
    for _ in range(10):
        for _ in range(4):
            patience.bear(InvalidReply("x"))
        clock.now += 10
        patience.answered()
    assert all(one <= 0.5 for one in clock.pauses[::4])


def test_call_asks_until_there_is_an_answer(clock):
    """Each kind of fault is waited out and asked again."""
    answers = iter([ServerFault("x"), InvalidReply("x"), ClusterUnreachable("x"), "here"])

    def ask():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert Patience(100, clock.pause).call(ask) == "here"
    assert len(clock.pauses) == 3


def test_a_refusal_is_an_answer_too(clock):
    """What is no fault is raised, and shows that the server is there: the patience starts anew."""
    patience = Patience(20, clock.pause)
    patience.bear(ServerFault("x"))
    clock.now += 15

    def ask():
        raise not_found()

    with pytest.raises(JobNotFound):
        patience.call(ask)
    clock.now += 15
    patience.bear(ServerFault("x"))
    assert clock.pauses[-1] <= 0.5


def test_a_rate_limit_is_waited_for_until_its_end(clock):
    """The pause after a 429 ends right after the server's own moment."""
    Patience(1, clock.pause).bear(RateLimited("x", reset_at=START + 40))
    assert 40 <= clock.passed <= 44


@pytest.mark.parametrize("reset_at", [None, START - 100, START + 0.2])
def test_a_rate_limit_without_a_moment_to_come_is_a_second(clock, reset_at):
    """Where the server does not say, or its clock is behind, the next try is after a second."""
    Patience(1, clock.pause).bear(RateLimited("x", reset_at=reset_at))
    assert 1 <= clock.passed <= 1.1


def test_rate_limits_do_not_use_the_patience_up(clock):
    """However long the server's limits last, before or between other faults, they count for nothing."""
    patience = Patience(30, clock.pause)
    for _ in range(5):
        patience.bear(RateLimited("x", reset_at=clock.now + 3600))
    patience.bear(ServerFault("x"))
    patience.bear(RateLimited("x", reset_at=clock.now + 3600))
    patience.bear(ServerFault("x"))
    began = clock.now
    with pytest.raises(ServerFault):
        patience.call(down)
    assert 25 < clock.now - began < 30


def test_an_outage_is_told_once_at_its_begin_and_end(clock, caplog):
    """One warning when it begins, one line when it is over, nothing for each try."""
    caplog.set_level(logging.INFO, logger="luigi-interface")
    patience = Patience(1000, clock.pause)
    for _ in range(10):
        patience.bear(ServerFault("the server is down"))
    patience.answered()
    patience.answered()
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "the server is down (waiting for up to 1000 s)"
    assert messages[1].startswith("OpenPAI answers again after ")
    assert len(messages) == 2


def test_faults_are_what_says_nothing_about_the_job():
    """A missing job, a refused login or a name in use is an answer, and no fault."""
    assert set(FAULTS) == {ClusterUnreachable, InvalidReply, RateLimited, ServerFault}
