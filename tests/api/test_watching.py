"""Many jobs, watched: schedule, deadlines, lost jobs, outages. On a clock that the test moves."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from luigi_pai.api.deadlines import Deadline
from luigi_pai.api.polling import Polling, next_wait
from luigi_pai.api.status import JobState, JobStatus, TaskStatus
from luigi_pai.api.watched import Outcome
from luigi_pai.api.watching import Watcher
from luigi_pai.errors import (
    AuthenticationError,
    ClusterUnreachable,
    InvalidReply,
    JobNotFound,
    PermissionRefused,
    RateLimited,
    ServerFault,
)


class ScriptedBook:
    """Answers as it is told: by a function of the job's name, which returns a state or an error.

    Attributes:
        asked: how often each job was looked up.
        stopped: the jobs that were to be stopped, in order.
        pause: seconds for which the request limit wants polling to pause.
    """

    def __init__(self, clock, answer, polling) -> None:
        self.clock = clock
        self.polling = polling
        self.answer = answer
        self.asked: Counter[str] = Counter()
        self.stopped: list[str] = []
        self.pause = 0.0

    @property
    def api(self) -> ScriptedBook:
        """The same object: it has the few members that a watcher calls."""
        return self

    session = limits = dialect = api
    version = "v2"

    @property
    def explanations(self) -> ScriptedBook:
        return self

    def count_waiting(self) -> int:
        return 1

    def status(self, name: str) -> JobStatus:
        self.asked[name] += 1
        said = self.answer(name)
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, JobStatus) else JobStatus(name, JobState.of(said), raw_state=said)

    def stop(self, name: str) -> None:
        self.stopped.append(name)

    def polling_wait(self) -> float:
        return self.pause

    def list_wait(self) -> None:
        """Have no lists."""


@pytest.fixture
def scripted(clock):
    """Make a book whose answers are in a test's hands."""
    return lambda answer, polling=None: ScriptedBook(clock, answer, polling or Polling())


@pytest.fixture
def passed(clock):
    """Return the seconds that have passed since the test began."""
    start = clock.monotonic()
    return lambda: clock.monotonic() - start


@pytest.fixture
def follow(clock):
    """Step until nothing is watched any more, and return the updates."""

    def run(watcher, limit=100_000):
        updates, end = [], clock.monotonic() + limit
        while len(watcher):
            assert clock.monotonic() < end, f"still watching after {limit} s: {updates}"
            clock.sleep(watcher.idle())
            updates += watcher.step()
        return updates

    return run


def status_of(name="j", state="WAITING", **about):
    return JobStatus(name, JobState.of(state), raw_state=state, **about)


def watching(cluster, *names, **about):
    """Watch new jobs that wait in the queue."""
    watcher = Watcher(cluster)
    for name in names or ("j",):
        watcher.add(status_of(name), new=True, **about)
    return watcher


def states(updates, name="j"):
    return [update.status.raw_state for update in updates if update.name == name]


def by_turns(*answers):
    """Answer with each in turn, and with the last ever after."""
    left = list(answers)
    return lambda _name: left.pop(0) if len(left) > 1 else left[0]


def not_found() -> JobNotFound:
    return JobNotFound("no", status=404)


# ---------------------------------------------------------------- the schedule


@pytest.mark.parametrize(
    ("queued", "age", "wait"),
    [
        (True, 0, 0.1),
        (True, 0.4, 0.1),
        (True, 1, 0.25),
        (True, 4, 1),
        (True, 10, 2.5),
        (True, 20, 5),
        (True, 40, 10),
        (True, 3600, 10),
        (False, 0, 0.1),
        (False, 0.8, 0.1),
        (False, 4, 0.5),
        (False, 8, 1),
        (False, 20, 2.5),
        (False, 60, 7.5),
        (False, 120, 15),
        (False, 240, 30),
        (False, 86400, 30),
    ],
)
def test_the_schedule_is_that_of_the_docstring(queued, age, wait):
    """A quarter of the time in the queue, an eighth of the run time, within bounds, give or take a tenth."""
    waits = [next_wait(age, Polling(), queued=queued) for _ in range(300)]
    longest = 10 if queued else 30
    assert all(0.9 * wait <= one <= min(1.1 * wait, longest) for one in waits)
    assert max(waits) - min(waits) > 0.05 * wait  # spread, so that many jobs are not looked up at once


def test_the_bounds_are_those_of_the_settings():
    """poll_min and poll_max hold, for the queue too."""
    polling = Polling(shortest=2, longest=3)
    for queued in (True, False):
        assert 1.8 <= next_wait(0, polling, queued=queued) <= 2.2
        assert 2.7 <= next_wait(1000, polling, queued=queued) <= 3
    slow = Polling(shortest=20, longest=60)
    assert 18 <= next_wait(1000, slow, queued=True) <= 20
    assert 54 <= next_wait(1000, slow, queued=False) <= 60


def test_an_hour_of_running_is_few_lookups(scripted, follow, passed):
    """A job of an hour is looked up less than 200 times."""
    cluster = scripted(lambda _: "RUNNING" if passed() < 3600 else "SUCCEEDED")
    follow(watching(cluster))
    assert cluster.asked["j"] < 200
    assert passed() < 3631


@pytest.mark.parametrize("queue", [0, 3600])
def test_a_short_job_is_noticed_soon_however_long_it_queued(scripted, follow, passed, queue):
    """The age counts from RUNNING: after an hour in the queue the end of 20 s is noticed as after none."""

    def answer(_name):
        return "WAITING" if passed() < queue else "RUNNING" if passed() < queue + 20 else "SUCCEEDED"

    follow(watching(scripted(answer)))
    assert 20 <= passed() - queue < 23


def test_a_job_taken_over_is_looked_up_by_its_own_age(scripted, clock):
    """The age counts from the server's time stamps; if there is none of the start of the run, from now."""
    now_ms = int(clock.time() * 1000)
    minute = 60_000
    for about, low, high in (
        ({"created_ms": now_ms - 2 * minute}, 0.09, 0.11),
        ({"created_ms": now_ms - 60 * minute, "launched_ms": now_ms - minute}, 6.7, 8.3),
    ):
        watcher = Watcher(scripted(by_turns("SUCCEEDED")))
        watcher.add(status_of(state="RUNNING", **about))
        assert low <= watcher.idle() <= high
    watcher = Watcher(scripted(by_turns("SUCCEEDED")))
    watcher.add(status_of(state="WAITING", created_ms=now_ms - minute // 6))
    assert 2.2 <= watcher.idle() <= 2.8


def test_a_server_clock_ahead_of_ours_is_age_zero(scripted, clock):
    """A job from the future is a new one."""
    watcher = Watcher(scripted(by_turns("SUCCEEDED")))
    watcher.add(status_of(state="RUNNING", created_ms=int(clock.time() * 2000)))
    assert watcher.idle() < 0.2


def test_a_job_that_was_just_submitted_is_new_whatever_the_clocks_say(scripted, clock):
    """A server whose clock is a day behind does not make a new job look old."""
    watcher = Watcher(scripted(by_turns("SUCCEEDED")))
    watcher.add(
        status_of(state="RUNNING", created_ms=int((clock.time() - 86400) * 1000)), new=True, run_timeout=60
    )
    assert watcher.idle() < 0.2


def test_a_wall_clock_that_is_set_changes_nothing(scripted, follow, clock, passed):
    """Ages and deadlines are measured on the monotonic clock."""
    cluster = scripted(lambda _: "RUNNING" if passed() < 20 else "SUCCEEDED")
    watcher = watching(cluster, run_timeout=3600)
    clock.set_wall_clock(86400)
    follow(watcher)
    assert passed() < 24
    assert cluster.stopped == []


# ---------------------------------------------------------------- updates


def test_nothing_watched_is_nothing_to_do(scripted):
    """An empty watcher waits for ever, and a step does nothing."""
    watcher = Watcher(scripted(by_turns("RUNNING")))
    assert (watcher.idle(), watcher.step(), len(watcher)) == (math.inf, [], 0)


def test_a_step_before_a_job_is_due_asks_nothing(scripted):
    """Steps never sleep, so they may be too early."""
    cluster = scripted(by_turns("RUNNING"))
    watcher = watching(cluster)
    assert watcher.step() == []
    assert not cluster.asked


def test_changes_are_updates_once_each(scripted, follow):
    """Each status that says something new, and the end; the same again is none."""
    cluster = scripted(by_turns("WAITING", "RUNNING", "RUNNING", "RUNNING", "FAILED"))
    updates = follow(watching(cluster))
    assert states(updates) == ["RUNNING", "FAILED"]
    assert [update.outcome for update in updates] == [Outcome.CHANGED, Outcome.ENDED]
    assert updates[-1].status.state is JobState.FAILED
    assert cluster.asked["j"] == 5


def test_unheard_of_states_are_no_ends(scripted, follow):
    """UNKNOWN, STOPPING and words of later releases are waited through."""
    words = ("UNKNOWN", "HIBERNATING", "STOPPING", "COMPLETING", "RETRY_PENDING", "SUCCEEDED")
    assert states(follow(watching(scripted(by_turns(*words))))) == list(words)


def test_a_job_that_is_removed_is_not_looked_up_any_more(scripted, follow):
    """The others are."""
    cluster = scripted(lambda _: "SUCCEEDED")
    watcher = watching(cluster, "a", "b")
    watcher.remove("a")
    watcher.remove("never there")
    assert [update.name for update in follow(watcher)] == ["b"]
    assert cluster.asked["a"] == 0


def test_a_job_that_is_added_again_is_looked_up_once_at_a_time(scripted, clock, passed):
    """Its earlier schedule is forgotten with it."""
    cluster = scripted(lambda _: "RUNNING")
    watcher = watching(cluster)
    for _ in range(10):
        watcher.remove("j")
        watcher.add(status_of(), new=True)
    watcher.add(status_of(), new=True)
    while passed() < 0.5:
        clock.sleep(watcher.idle())
        watcher.step()
    assert cluster.asked["j"] <= 6


@pytest.mark.parametrize("kind", [AuthenticationError, PermissionRefused])
def test_a_refusal_is_raised_at_once(scripted, follow, kind):
    """It will not go away by waiting."""
    cluster = scripted(lambda _: kind("no", status=403))
    with pytest.raises(kind):
        follow(watching(cluster))
    assert cluster.asked["j"] == 1


# ---------------------------------------------------------------- lost jobs


def test_a_job_that_is_not_shown_yet_is_waited_for(scripted, follow, passed):
    """Right after the submission a server may not know the job: a minute of 404 is no loss."""
    cluster = scripted(lambda _: not_found() if passed() < 50 else "SUCCEEDED")
    assert follow(watching(cluster))[-1].status.succeeded


def test_a_job_that_stays_unknown_is_lost(scripted, follow, passed):
    """After a minute of 404, with the last that was known of it."""
    updates = follow(watching(scripted(by_turns("RUNNING", not_found()))))
    assert [(update.outcome, update.status.raw_state) for update in updates] == [
        (Outcome.CHANGED, "RUNNING"),
        (Outcome.LOST, "RUNNING"),
    ]
    assert 60 <= passed() < 80


def test_a_job_that_is_seen_again_is_not_lost(scripted, follow, passed):
    """The minute counts from the last time that the job was seen."""
    cluster = scripted(lambda _: "RUNNING" if 50 < passed() < 100 else not_found())
    assert follow(watching(cluster))[-1].outcome is Outcome.LOST
    assert 150 < passed() < 200


@pytest.mark.slow
def test_one_lost_job_of_many_leaves_the_others(scripted, follow, passed):
    """They are watched to their ends."""
    names = [f"j{number}" for number in range(20)]

    def answer(name):
        if name == "j7" and passed() > 5:
            return not_found()
        return "RUNNING" if passed() < 200 else "SUCCEEDED"

    updates = follow(watching(scripted(answer), *names))
    ends = {update.name: update.outcome for update in updates if update.outcome is not Outcome.CHANGED}
    assert ends == {name: Outcome.LOST if name == "j7" else Outcome.ENDED for name in names}


# ---------------------------------------------------------------- deadlines


def test_a_job_that_queues_too_long_is_stopped_once(scripted, follow, passed):
    """At queue_timeout, to the second; it is watched until it is seen to have stopped."""
    cluster = scripted(lambda _: "WAITING" if passed() < 65 else "STOPPED")
    stops = []
    cluster.stop = lambda name: stops.append((name, round(passed())))
    updates = follow(watching(cluster, queue_timeout=60))
    assert stops == [("j", 60)]
    assert [(update.outcome, update.missed) for update in updates] == [(Outcome.ENDED, Deadline.QUEUE)]
    assert updates[-1].status.raw_state == "STOPPED"


def test_a_job_that_runs_too_long_is_stopped_once(scripted, follow, passed):
    """run_timeout counts from when it was seen to run, not from its submission."""
    cluster = scripted(
        lambda _: "WAITING" if passed() < 100 else "RUNNING" if not cluster.stopped else "STOPPED"
    )
    updates = follow(watching(cluster, run_timeout=60))
    assert 160 <= passed() < 180
    assert cluster.stopped == ["j"]
    assert updates[-1].missed is Deadline.RUN


@pytest.mark.parametrize("timeouts", [{}, {"queue_timeout": 60}, {"run_timeout": 60}])
def test_a_deadline_that_is_kept_stops_nothing(scripted, follow, passed, timeouts):
    """A long run is no long queue, nor the other way round."""
    running = "run_timeout" not in timeouts
    cluster = scripted(
        lambda _: "SUCCEEDED" if passed() > 500 else "RUNNING" if running or passed() > 470 else "WAITING"
    )
    updates = follow(watching(cluster, **timeouts))
    assert cluster.stopped == []
    assert updates[-1].missed is None


def test_a_job_that_begins_to_run_before_its_deadline_is_not_stopped(scripted, follow, passed):
    """It is looked up before it is stopped: in a long queue the last lookup is seconds ago."""
    cluster = scripted(
        lambda _: "WAITING" if passed() < 599.9 else "RUNNING" if passed() < 700 else "SUCCEEDED"
    )
    updates = follow(watching(cluster, queue_timeout=600))
    assert cluster.stopped == []
    assert updates[-1].missed is None


def test_a_job_that_ends_before_its_deadline_is_not_stopped(scripted, follow, passed):
    """Its failure is its own."""
    cluster = scripted(lambda _: "RUNNING" if passed() < 599.9 else "FAILED")
    updates = follow(watching(cluster, run_timeout=600))
    assert cluster.stopped == []
    assert (updates[-1].status.raw_state, updates[-1].missed) == ("FAILED", None)


def test_a_requeued_job_has_its_time_in_the_queue_anew(scripted, follow, passed):
    """RETRY_PENDING and WAITING after RUNNING: the cluster starts it again, and both deadlines count anew."""

    def answer(_name):
        moment = passed()
        if moment > 240:
            return "SUCCEEDED"
        return (
            "RUNNING" if 50 < moment < 100 or moment > 180 else "RETRY_PENDING" if moment > 50 else "WAITING"
        )

    cluster = scripted(answer)
    updates = follow(watching(cluster, queue_timeout=95, run_timeout=80))
    assert states(updates) == ["RUNNING", "RETRY_PENDING", "RUNNING", "SUCCEEDED"]
    assert cluster.stopped == []


def test_a_requeued_job_can_queue_too_long(scripted, follow, passed):
    """From the moment that it was seen to queue again."""
    cluster = scripted(
        lambda _: "STOPPED" if cluster.stopped else "RUNNING" if 5 < passed() < 100 else "WAITING"
    )
    updates = follow(watching(cluster, queue_timeout=60))
    assert updates[-1].missed is Deadline.QUEUE
    assert 160 <= passed() < 190


@pytest.mark.parametrize("before", ["WAITING", "RUNNING"])
def test_a_job_whose_work_is_done_misses_no_deadline(scripted, follow, passed, before):
    """Its launcher may take minutes to say how it ended; a stop would make that STOPPED."""
    cluster = scripted(
        lambda _: "SUCCEEDED" if passed() > 1000 else "COMPLETING" if passed() > 30 else before
    )
    updates = follow(watching(cluster, queue_timeout=60, run_timeout=60))
    assert cluster.stopped == []
    assert (updates[-1].status.raw_state, updates[-1].missed) == ("SUCCEEDED", None)


def test_a_job_that_starts_again_after_its_end_has_all_its_time_to_run(scripted, follow, passed):
    """It is queued for less than the time between two lookups."""
    cluster = scripted(
        lambda _: "SUCCEEDED" if passed() > 150 else "COMPLETING" if 55 < passed() < 100 else "RUNNING"
    )
    follow(watching(cluster, run_timeout=60))
    assert cluster.stopped == []


HOUR_MS = 3_600_000
HAS_RUN = [
    {"state": "WAITING", "retries": 1},
    {"state": "WAITING", "launched_ms": 1},
    {"state": "RETRY_PENDING"},
]


@pytest.mark.parametrize(
    ("about", "seconds"),
    [
        ({"state": "WAITING"}, 0),
        *[(about, 60) for about in HAS_RUN],
        ({"state": "RUNNING", "launched_ms": 1}, 0),
        ({"state": "RUNNING", "launched_ms": 1, "retries": 1, "tasks": (TaskStatus("main", 0),)}, 0),
        ({"state": "RUNNING", "launched_ms": 1, "retries": 1}, 60),
        ({"state": "COMPLETING", "launched_ms": 1}, None),
    ],
)
def test_a_job_taken_over_has_the_time_that_is_left(scripted, follow, clock, passed, about, seconds):
    """One that has run, and waits again, has been queued for less than since its submission."""
    now_ms = int(clock.time() * 1000)
    state, more = about["state"], {key: value for key, value in about.items() if key != "state"}
    if "launched_ms" in more:
        more["launched_ms"] = now_ms - HOUR_MS
    status = status_of(state=state, created_ms=now_ms - HOUR_MS, **more)
    cluster = scripted(lambda _: "STOPPED" if cluster.stopped else "SUCCEEDED" if passed() > 200 else status)
    watcher = Watcher(cluster)
    watcher.add(status, queue_timeout=60, run_timeout=60)
    follow(watcher)
    assert cluster.stopped == ([] if seconds is None else ["j"])
    assert passed() >= (seconds or 0)
    assert seconds is None or passed() < seconds + 35  # a stopped job is looked up by its age


def test_a_lookup_tells_the_start_that_a_list_does_not(scripted, follow, clock, passed):
    """The time to run counts from there, not from when the job was taken over."""
    launched = status_of(state="RUNNING", launched_ms=int(clock.time() * 1000) - 30_000)
    cluster = scripted(lambda _: "STOPPED" if cluster.stopped else launched)
    watcher = Watcher(cluster)
    watcher.add(status_of(state="RUNNING"), run_timeout=60)
    updates = follow(watcher)
    assert updates[-1].missed is Deadline.RUN
    assert 30 <= passed() < 40


def test_a_stop_that_fails_is_sent_again(scripted, follow):
    """An error of the server leaves it to the next step; when it was taken, that was the last."""
    cluster = scripted(lambda _: "STOPPED" if len(stops) >= 3 else "RUNNING")
    stops = []

    def stop(name):
        stops.append(name)
        if len(stops) < 3:
            raise ServerFault("500", status=500)

    cluster.stop = stop
    updates = follow(watching(cluster, run_timeout=10))
    assert len(stops) == 3
    assert states(updates) == ["RUNNING", "STOPPED"]
    assert updates[-1].missed is Deadline.RUN


def test_the_deadline_of_one_job_is_not_that_of_another(scripted, follow):
    """Each job has its own."""
    cluster = scripted(lambda name: "STOPPED" if name in cluster.stopped else "RUNNING")
    watcher = Watcher(cluster)
    for number in range(1, 6):
        watcher.add(status_of(f"j{number}"), new=True, run_timeout=10.0 * number)
    follow(watcher)
    assert cluster.stopped == ["j1", "j2", "j3", "j4", "j5"]


# ---------------------------------------------------------------- errors


def test_an_outage_of_a_minute_is_waited_out(scripted, follow, passed):
    """It changes nothing of what is seen."""

    def answer(_name):
        if 2 < passed() < 62:
            return ClusterUnreachable("down")
        return "RUNNING" if passed() < 90 else "SUCCEEDED"

    assert states(follow(watching(scripted(answer)))) == ["RUNNING", "SUCCEEDED"]


def test_an_outage_ends_with_its_error_after_poll_patience(scripted, follow, passed):
    """poll_patience seconds without an answer, then the error itself."""
    cluster = scripted(lambda _: ClusterUnreachable("down"), Polling(patience=100))
    with pytest.raises(ClusterUnreachable, match=r"^down$"):
        follow(watching(cluster))
    assert 100 <= passed() < 102


def test_an_outage_pauses_all_jobs(scripted, follow, passed):
    """Who does not answer for one job does for none: the waits and the patience are those of one job."""
    cluster = scripted(lambda _: ClusterUnreachable("down"), Polling(patience=100))
    with pytest.raises(ClusterUnreachable, match=r"^down$"):
        follow(watching(cluster, *(f"j{number}" for number in range(500))))
    assert 100 <= passed() < 103
    assert cluster.asked.total() < 30


@pytest.mark.slow
def test_all_jobs_go_on_after_an_outage(scripted, follow, passed):
    """None is forgotten, and none is looked up twice as often."""
    names = [f"j{number}" for number in range(50)]

    def answer(_name):
        if 10 < passed() < 70:
            return ClusterUnreachable("down")
        return "RUNNING" if passed() < 100 else "SUCCEEDED"

    updates = follow(watching(scripted(answer), *names))
    assert Counter(update.name for update in updates if update.outcome is Outcome.ENDED) == Counter(names)
    assert passed() < 130


def test_errors_with_answers_between_never_end_the_watch(scripted, follow, passed):
    """The patience counts from the last good answer, of whichever job."""

    def answer(name):
        if passed() > 1000:
            return "SUCCEEDED"
        return ClusterUnreachable("reset") if name == "bad" else "RUNNING"

    cluster = scripted(answer, Polling(patience=50, longest=5))
    updates = follow(watching(cluster, "bad", "good"))
    assert [update.name for update in updates if update.outcome is Outcome.ENDED].count("bad") == 1


@pytest.mark.parametrize("error", [ServerFault("500", status=500), InvalidReply("no JSON")])
def test_a_job_that_the_server_cannot_show_does_not_hold_up_the_others(scripted, follow, passed, error):
    """What concerns one job waits for that job."""

    def answer(name):
        if name == "bad" and passed() < 300:
            return error
        return "RUNNING" if passed() < 8 else "SUCCEEDED"

    cluster = scripted(answer)
    updates = follow(watching(cluster, "bad", "a", "b", "c"))
    ends = [update.name for update in updates if update.outcome is Outcome.ENDED]
    assert sorted(ends[:3]) == ["a", "b", "c"]
    assert ends[3] == "bad"
    assert cluster.asked["bad"] < 50


def test_a_job_that_the_server_never_shows_ends_the_watch(scripted, follow, passed):
    """After the patience, with the error."""
    cluster = scripted(
        lambda name: ServerFault("boom", status=500) if name == "bad" else "RUNNING", Polling(patience=100)
    )
    with pytest.raises(ServerFault, match=r"^boom$"):
        follow(watching(cluster, "bad", "good"))
    assert 100 <= passed() < 105


def test_a_used_up_limit_pauses_all_jobs(scripted, follow, clock, passed):
    """Until the moment that it ends, and without end: all is well."""
    start = clock.time()
    cluster = scripted(
        lambda _: RateLimited("x", reset_at=start + 5000, sent=False) if passed() < 5000 else "SUCCEEDED",
        Polling(patience=10),
    )
    follow(watching(cluster, *(f"j{number}" for number in range(100))))
    assert 5000 <= passed() < 10_000
    assert cluster.asked.total() < 110


def test_polling_pauses_to_keep_the_request_limit(scripted, clock):
    """The wait that the limit wants is waited before the next lookup."""
    cluster = scripted(lambda _: "RUNNING")
    watcher = watching(cluster)
    cluster.pause = 30.0
    clock.sleep(watcher.idle())
    assert watcher.step() == []
    assert 30 <= watcher.idle() <= 33
    assert not cluster.asked
    cluster.pause = 0.0
    clock.sleep(watcher.idle())
    assert states(watcher.step()) == ["RUNNING"]


def test_an_error_loses_no_update_of_the_same_step(faulty, new_cluster, clock):
    """What was looked up before the error is returned; the next step meets the error again."""
    faulty.add("a", runs_for=0.0)
    faulty.add("b", runs_for=0.0)
    cluster = new_cluster(faulty.url, clock=clock)
    watcher = Watcher(cluster.book)
    for name in ("a", "b"):
        watcher.add(JobStatus(name, JobState.RUNNING), new=True)
        clock.advance(0.05)
    faulty.fail("GET", "/jobs/b$", 403, times=2, body='{"code": "ForbiddenUserError", "message": "no"}')
    clock.advance(5)
    assert [update.name for update in watcher.step()] == ["a"]
    with pytest.raises(PermissionRefused):
        watcher.step()
