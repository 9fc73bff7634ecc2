"""Many jobs, watched: schedule, deadlines, lost jobs, outages. On a clock that the test moves."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
from api_cases import cases

from luigi_pai.api.polling import Polling, next_wait
from luigi_pai.api.status import JobState, JobStatus, TaskStatus
from luigi_pai.api.watched import Deadline, Outcome
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

ERRORS = {
    "NOT_FOUND": JobNotFound("no", status=404),
    "DOWN": ClusterUnreachable("down"),
    "FAULT": ServerFault("500", status=500),
    "NO_JSON": InvalidReply("no JSON"),
}


class ScriptedBook:
    """Answers as a story tells: states and errors by turns with the seconds at which the next one begins.

    Attributes:
        stories: of each job, or one of all jobs, or a function that is given a job's name.
        asked: how often each job was looked up.
        stops: when each job was stopped first; a job that was is STOPPED, unless its story has that word.
        failing_stops: how many stops fail from now on.
        pause: seconds for which the request limit wants polling to pause.
    """

    def __init__(self, clock, stories, polling) -> None:
        self.clock = clock
        self.polling = polling
        self.stories = stories
        self.asked: Counter[str] = Counter()
        self.stops: dict[str, float] = {}
        self.failing_stops = 0
        self.pause = 0.0
        self._start = clock.monotonic()

    @property
    def api(self) -> ScriptedBook:
        """The same object: it has the few members that a watcher calls."""
        return self

    session = limits = dialect = explanations = api
    version = "v2"

    def count_waiting(self) -> int:
        return 1

    def _tell(self, name: str) -> str | JobStatus | Exception:
        if callable(self.stories):
            said = self.stories(name)
            return "STOPPED" if name in self.stops and not isinstance(said, Exception) else said
        words = (self.stories[name] if isinstance(self.stories, dict) else self.stories).split()
        if name in self.stops and "STOPPED" not in words:
            return "STOPPED"
        passed = self.clock.monotonic() - self._start
        turn = sum(passed >= float(until) for until in words[1::2])
        return ERRORS.get(words[2 * turn], words[2 * turn])

    def status(self, name: str) -> JobStatus:
        self.asked[name] += 1
        said = self._tell(name)
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, JobStatus) else status_of(name, said)

    def stop(self, name: str) -> None:
        if self.failing_stops:
            self.failing_stops -= 1
            raise ServerFault("500", status=500)
        assert name not in self.stops
        self.stops[name] = self.clock.monotonic() - self._start

    def polling_wait(self) -> float:
        return self.pause

    def list_wait(self) -> None:
        """Have no lists."""


@pytest.fixture
def scripted(clock):
    """Make a book whose answers are in a test's hands."""
    return lambda stories, polling=None: ScriptedBook(clock, stories, polling or Polling())


@pytest.fixture
def passed(clock):
    """Return the seconds that have passed since the test began."""
    start = clock.monotonic()
    return lambda: clock.monotonic() - start


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


def ends(updates):
    return {update.name: update.outcome for update in updates if update.outcome is not Outcome.CHANGED}


# ---------------------------------------------------------------- the schedule


@cases("queued age wait")
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
    cluster = scripted("RUNNING 3600 SUCCEEDED")
    follow(watching(cluster))
    assert cluster.asked["j"] < 200
    assert passed() < 3631


@pytest.mark.parametrize("queue", [0, 3600])
def test_a_short_job_is_noticed_soon_however_long_it_queued(scripted, follow, passed, queue):
    """The age counts from RUNNING: after an hour in the queue the end of 20 s is noticed as after none."""
    follow(watching(scripted(f"WAITING {queue} RUNNING {queue + 20} SUCCEEDED")))
    assert 20 <= passed() - queue < 23


@cases("state created launched new low high")
def test_a_job_is_looked_up_by_its_own_age(scripted, clock, state, created, launched, new, low, high):
    """The age counts from the server's time stamps, here given in seconds ago; that of a new job from now."""
    at = [None if ago is None else int((clock.time() - ago) * 1000) for ago in (created, launched)]
    watcher = Watcher(scripted("SUCCEEDED"))
    watcher.add(status_of(state=state, created_ms=at[0], launched_ms=at[1]), new=new, run_timeout=1e6)
    assert low <= watcher.idle() <= high


def test_a_wall_clock_that_is_set_changes_nothing(scripted, follow, clock, passed):
    """Ages and deadlines are measured on the monotonic clock."""
    cluster = scripted("RUNNING 20 SUCCEEDED")
    watcher = watching(cluster, run_timeout=3600)
    clock.set_wall_clock(86400)
    follow(watcher)
    assert passed() < 24
    assert cluster.stops == {}


# ---------------------------------------------------------------- updates


def test_a_step_without_a_due_job_asks_nothing(scripted):
    """Steps never sleep, so they may be too early; an empty watcher waits for ever."""
    cluster = scripted("RUNNING")
    watcher = Watcher(cluster)
    assert (watcher.idle(), watcher.step(), len(watcher)) == (math.inf, [], 0)
    watcher.add(status_of(), new=True)
    assert (watcher.step(), len(watcher), "j" in watcher, "k" in watcher) == ([], 1, True, False)
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
    cluster = scripted("SUCCEEDED")
    watcher = watching(cluster, "a", "b")
    watcher.remove("a")
    watcher.remove("never there")
    assert [update.name for update in follow(watcher)] == ["b"]
    assert cluster.asked["a"] == 0


def test_a_job_that_is_added_again_is_looked_up_once_at_a_time(scripted, clock, passed):
    """Its earlier schedule is forgotten with it."""
    cluster = scripted("RUNNING")
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


@pytest.mark.slow
def test_one_lost_job_of_many_leaves_the_others(scripted, follow):
    """They are watched to their ends."""
    names = [f"j{number}" for number in range(20)]
    stories = dict.fromkeys(names, "RUNNING 200 SUCCEEDED") | {"j7": "RUNNING 5 NOT_FOUND"}
    updates = follow(watching(scripted(stories), *names))
    assert ends(updates) == dict.fromkeys(names, Outcome.ENDED) | {"j7": Outcome.LOST}


# ---------------------------------------------------------------- one job, and how it ends


@cases("story queue run end low high")
def test_the_story_of_a_job(scripted, follow, passed, story, queue, run, end, low, high):
    """Losses, outages and deadlines: it is stopped once if it misses one, and else never."""
    cluster = scripted(story)
    seen = follow(watching(cluster, queue_timeout=queue, run_timeout=run))
    told = [word for word in story.split()[::2] if word not in ERRORS]
    told += {"lost": told[-1:], "queue": ["STOPPED"], "run": ["STOPPED"]}.get(end, [])
    changes = [word for before, word in itertools.pairwise(["WAITING", *told]) if word != before]
    assert states(seen) == (changes + told[-1:] if end == "lost" else changes)
    assert [update.outcome for update in seen[:-1]] == [Outcome.CHANGED] * (len(seen) - 1)
    assert seen[-1].outcome is (Outcome.LOST if end == "lost" else Outcome.ENDED)
    assert seen[-1].missed is {"queue": Deadline.QUEUE, "run": Deadline.RUN}.get(end)
    assert len(cluster.stops) == (end in ("queue", "run"))
    assert end != "queue" or low - 5 <= cluster.stops["j"] < high
    assert low <= passed() < high


def test_a_deadline_is_kept_to_the_second(scripted, follow):
    """Each job has its own."""
    cluster = scripted("WAITING 25 RUNNING")
    watcher = Watcher(cluster)
    for number in range(1, 6):
        watcher.add(status_of(f"j{number}"), new=True, queue_timeout=4.0 * number)
    follow(watcher)
    assert [(name, round(at)) for name, at in cluster.stops.items()] == [
        (f"j{number}", 4 * number) for number in range(1, 6)
    ]


@cases("about seconds")
def test_a_job_taken_over_has_the_time_that_is_left(scripted, follow, clock, passed, about, seconds):
    """One that has run, and waits again, has been queued for less than since its submission."""
    hour_ago = int(clock.time() * 1000) - 3_600_000
    started = {"launched_ms": hour_ago} if "launched_ms" in about else {}
    tasks = (TaskStatus("main", 0),) * about.get("tasks", 0)
    status = status_of(**about | {"created_ms": hour_ago, "tasks": tasks} | started)
    cluster = scripted(lambda _: "SUCCEEDED" if passed() > 200 else status)
    watcher = Watcher(cluster)
    watcher.add(status, queue_timeout=60, run_timeout=60)
    follow(watcher)
    assert len(cluster.stops) == (seconds is not None)
    assert passed() >= (seconds or 0)
    assert seconds is None or passed() < seconds + 35  # a stopped job is looked up by its age


def test_a_lookup_tells_the_start_that_a_list_does_not(scripted, follow, clock, passed):
    """The time to run counts from there, not from when the job was taken over."""
    launched = status_of(state="RUNNING", launched_ms=int(clock.time() * 1000) - 30_000)
    cluster = scripted(lambda _: launched)
    watcher = Watcher(cluster)
    watcher.add(status_of(state="RUNNING"), run_timeout=60)
    updates = follow(watcher)
    assert updates[-1].missed is Deadline.RUN
    assert 30 <= passed() < 40


def test_a_stop_that_fails_is_sent_again(scripted, follow):
    """An error of the server leaves it to the next step; when it was taken, that was the last."""
    cluster = scripted("RUNNING")
    cluster.failing_stops = 2
    updates = follow(watching(cluster, run_timeout=10))
    assert cluster.failing_stops == 0
    assert states(updates) == ["RUNNING", "STOPPED"]
    assert updates[-1].missed is Deadline.RUN


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("count", [1, 500])
def test_an_outage_ends_with_its_error_after_poll_patience(scripted, follow, passed, count):
    """Who does not answer for one job does for none: waits and patience of many jobs are those of one."""
    cluster = scripted("DOWN", Polling(patience=100))
    with pytest.raises(ClusterUnreachable, match=r"^down$"):
        follow(watching(cluster, *(f"j{number}" for number in range(count))))
    assert 100 <= passed() < 103
    assert cluster.asked.total() < 30


@pytest.mark.slow
def test_all_jobs_go_on_after_an_outage(scripted, follow, passed):
    """None is forgotten, and none is looked up twice as often."""
    names = [f"j{number}" for number in range(50)]
    updates = follow(watching(scripted("RUNNING 10 DOWN 70 RUNNING 100 SUCCEEDED"), *names))
    assert Counter(update.name for update in updates if update.outcome is Outcome.ENDED) == Counter(names)
    assert passed() < 130


@cases("bad others seconds")
def test_errors_with_answers_between_never_end_the_watch(scripted, follow, passed, bad, others, seconds):
    """The patience counts from the last good answer; what concerns one job waits for that job."""
    patience = 50 if seconds == 1000 else 600
    cluster = scripted({"bad": bad, **dict.fromkeys("abc", others)}, Polling(patience=patience, longest=5))
    updates = follow(watching(cluster, *cluster.stories))
    assert ends(updates) == dict.fromkeys(cluster.stories, Outcome.ENDED)
    assert seconds <= passed() < seconds + 31
    if seconds == 300:
        assert [update.name for update in updates if update.outcome is Outcome.ENDED][3] == "bad"
        assert cluster.asked["bad"] < 50


def test_a_job_that_the_server_never_shows_ends_the_watch(scripted, follow, passed):
    """After the patience, with the error."""
    cluster = scripted({"bad": "FAULT", "good": "RUNNING"}, Polling(patience=100))
    with pytest.raises(ServerFault, match=r"^500$"):
        follow(watching(cluster, "bad", "good"))
    assert 100 <= passed() < 105


def test_a_used_up_limit_pauses_all_jobs(scripted, follow, clock, passed):
    """Until the moment that it ends, and without end: all is well."""
    limit = RateLimited("x", reset_at=clock.time() + 5000, sent=False)
    cluster = scripted(lambda _: limit if passed() < 5000 else "SUCCEEDED", Polling(patience=10))
    follow(watching(cluster, *(f"j{number}" for number in range(100))))
    assert 5000 <= passed() < 10_000
    assert cluster.asked.total() < 110


def test_polling_pauses_to_keep_the_request_limit(scripted, clock):
    """The wait that the limit wants is waited before the next lookup."""
    cluster = scripted("RUNNING")
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
