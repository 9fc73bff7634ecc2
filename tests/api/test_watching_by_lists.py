"""Many jobs, watched by lists: what is looked up alone, how often lists are made, what they cannot tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from api_cases import cases

from luigi_pai.api.polling import Polling
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.api.watched import Deadline, Outcome
from luigi_pai.api.watching import Watcher
from luigi_pai.errors import JobNotFound

RELEASES = ["0.7.1", "1.8.0"]
NAMES = [f"j{number}" for number in range(30)]


@pytest.fixture
def follow(clock):
    """Step until nothing is watched any more, or for some seconds, and return the updates."""

    def run(watcher, seconds=100_000):
        updates, end = [], clock.monotonic() + seconds
        while len(watcher) and clock.monotonic() + watcher.idle() < end:
            clock.sleep(watcher.idle())
            updates += watcher.step()
        return updates

    return run


def watching(cluster, names=NAMES, **about):
    """Watch jobs that were submitted just now; one of them was looked up then, as all are."""
    cluster.job(names[0]).status()
    watcher = Watcher(cluster.book)
    for name in names:
        watcher.add(JobStatus(name, JobState.WAITING, raw_state="WAITING"), new=True, **about)
    return watcher


def add_jobs(pai, names=NAMES, **about):
    for name in names:
        pai.add(name, **about)


def lookups(pai):
    """Return how often each job was looked up alone."""
    paths = [path for method, path in pai.calls if method == "GET" and "/jobs/" in path]
    return Counter(path.rpartition("/")[2].removeprefix("admin~") for path in paths)


def ends(updates):
    return {update.name: update.status.raw_state for update in updates if update.outcome is Outcome.ENDED}


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_many_jobs_are_watched_by_lists(faulty, known_cluster, follow, clock, release):
    """No job is looked up alone that has not failed; all ends are noticed within a fraction of the run."""
    faulty.release = release
    add_jobs(faulty, waits_for=5, runs_for=300)
    watcher = watching(known_cluster())
    start = clock.monotonic()
    updates = follow(watcher)
    assert ends(updates) == dict.fromkeys(NAMES, "SUCCEEDED")
    assert clock.monotonic() - start < 305 + 31
    assert lookups(faulty) == {"j0": 1}
    assert faulty.lists < 90
    changes = Counter(update.status.raw_state for update in updates)
    assert changes == dict.fromkeys(("WAITING", "RUNNING", "SUCCEEDED"), 30)


@pytest.mark.slow
def test_many_long_jobs_are_three_lists_a_minute(faulty, known_cluster, follow):
    """At most, once they have run for some minutes: the waits of single jobs are 30 s then."""
    names = [f"j{number}" for number in range(100)]
    add_jobs(faulty, names, runs_for=36_000)
    known = known_cluster()
    start = known.book.status("j0")
    watcher = Watcher(known.book)
    for name in names:
        watcher.add(replace(start, name=name))
    follow(watcher, 600)
    before = faulty.lists
    follow(watcher, 300)
    assert 10 <= faulty.lists - before <= 15
    assert lookups(faulty) == {"j0": 1}


@pytest.mark.parametrize("count", [1, 2])
def test_few_jobs_are_looked_up_alone(faulty, known_cluster, follow, count):
    """As if each were the only one."""
    add_jobs(faulty, runs_for=60)
    assert len(ends(follow(watching(known_cluster(), NAMES[:count])))) == count
    assert faulty.lists == 0


@pytest.mark.slow
def test_a_young_job_among_old_ones_is_looked_up_alone(faulty, known_cluster, follow, clock):
    """By its own schedule: the lists go on at that of the others."""
    add_jobs(faulty, runs_for=36_000)
    watcher = watching(known_cluster())
    follow(watcher, 600)
    faulty.calls.clear()
    faulty.add("young", runs_for=2)
    watcher.add(JobStatus("young", JobState.RUNNING), new=True)
    start = clock.monotonic()
    while "young" in watcher:
        clock.sleep(watcher.idle())
        watcher.step()
    assert 2 <= clock.monotonic() - start < 2.5
    assert lookups(faulty)["young"] > 5
    assert faulty.lists <= 1


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("state", ["FAILED", "STOPPED"])
def test_a_failed_job_is_looked_up_once(faulty, known_cluster, follow, release, state):
    """A list has neither its diagnostics nor its tasks. One that has succeeded is not looked up."""
    faulty.release = release
    for name in NAMES:
        failed = {"ends_as": state, "exit_code": 3, "diagnostics": "why"} if name in NAMES[5:9] else {}
        faulty.add(name, runs_for=60, **failed)
    updates = follow(watching(known_cluster()))
    assert ends(updates) == dict.fromkeys(NAMES, "SUCCEEDED") | dict.fromkeys(NAMES[5:9], state)
    assert lookups(faulty) == {"j0": 1} | dict.fromkeys(NAMES[5:9], 1)
    failed = [update.status for update in updates if update.status.raw_state == state]
    assert {(status.exit_code, status.diagnostics) for status in failed} == {(3, "why")}


def test_the_end_in_a_list_is_that_of_a_lookup(faulty, known_cluster, follow):
    """State, owner, times and exit code; a lookup of the job agrees and has its tasks."""
    add_jobs(faulty, runs_for=60)
    known = known_cluster()
    updates = follow(watching(known))
    listed = next(u.status for u in updates if u.name == "j20" and u.outcome is Outcome.ENDED)
    full = known.book.status("j20")
    for fact in ("name", "state", "username", "created_ms", "completed_ms", "exit_code", "virtual_cluster"):
        assert getattr(listed, fact) == getattr(full, fact)
    assert (listed.tasks, len(full.tasks)) == ((), 1)


@pytest.mark.slow
def test_what_a_list_lacks_is_no_change(faulty, known_cluster, follow):
    """The tasks of an earlier lookup stay while the state does."""
    add_jobs(faulty, runs_for=3600)
    known = known_cluster()
    watcher = Watcher(known.book)
    for name in NAMES[:8]:
        watcher.add(known.book.status(name), new=True)
    assert follow(watcher, 300) == []
    assert faulty.lists > 5


# ---------------------------------------------------------------- what is not in the list


@pytest.mark.slow
def test_jobs_that_lists_omit_are_looked_up_alone(faulty, known_cluster, follow):
    """Those of virtual clusters that LTP hides; the others go on by lists, no more of them than before."""
    faulty.release = "ltp-1.5"
    add_jobs(faulty, runs_for=600)
    for name in NAMES[:5]:
        faulty.jobs[name].config["virtualCluster"] = "left"
    faulty.left_clusters = {"left"}
    updates = follow(watching(known_cluster()))
    assert ends(updates) == dict.fromkeys(NAMES, "SUCCEEDED")
    assert set(lookups(faulty)) == set(NAMES[:5])
    assert faulty.lists < 90


@pytest.mark.slow
def test_a_job_that_has_vanished_is_lost(faulty, known_cluster, follow):
    """After a minute of lookups that do not find it."""
    add_jobs(faulty, runs_for=600)
    watcher = watching(known_cluster())
    follow(watcher, 60)
    del faulty.jobs["j20"]
    updates = follow(watcher, 200)
    assert [(update.name, update.outcome) for update in updates] == [("j20", Outcome.LOST)]
    assert set(lookups(faulty)) == {"j0", "j20"}


@pytest.mark.slow
def test_lists_that_lag_behind_are_tried_again(faulty, known_cluster, follow):
    """They have none of the jobs for a minute after the submission, and all of them later."""
    add_jobs(faulty, runs_for=3600)
    known = known_cluster()
    watcher = watching(known)
    faulty.fail("GET", r"/jobs\?", 200, times=2, body=[])
    follow(watcher, 120)
    faulty.calls.clear()
    follow(watcher, 300)
    assert not lookups(faulty)
    assert 10 <= faulty.lists <= 20


@pytest.mark.slow
def test_another_users_job_of_the_same_name_is_not_mine(faulty, known_cluster, follow):
    """0.15 lists the jobs of all users: my job is missing, which is what its lookup says."""
    faulty.release = "0.15.0"
    add_jobs(faulty, runs_for=60)
    faulty.add("j20", runs_for=60, username="bob")
    updates = follow(watching(known_cluster()))
    outcomes = {update.name: update.outcome for update in updates}
    assert outcomes == dict.fromkeys(NAMES, Outcome.ENDED) | {"j20": Outcome.LOST}


# ---------------------------------------------------------------- lists that fail, and their pace


@pytest.mark.slow
@pytest.mark.parametrize("kind", [500, 403, 429, "reset"])
def test_a_list_that_fails_is_replaced_by_lookups(faulty, known_cluster, follow, clock, kind):
    """All ends are noticed all the same, and lists are tried again ever more rarely."""
    add_jobs(faulty, NAMES[:8], runs_for=120)
    faulty.fail("GET", r"/jobs\?", kind, times=10_000, body='{"code": "X", "message": "no"}')
    start = clock.monotonic()
    updates = follow(watching(known_cluster(), NAMES[:8]))
    assert ends(updates) == dict.fromkeys(NAMES[:8], "SUCCEEDED")
    assert clock.monotonic() - start < 120 + 31
    assert len(lookups(faulty)) == 8
    assert faulty.lists <= 18  # a reset one counts twice


@pytest.mark.slow
def test_young_jobs_do_not_wait_for_slow_lists(faulty, known_cluster, slow_lists, clock):
    """They are looked up alone meanwhile, a few a second; older ones wait."""
    for number, name in enumerate(NAMES):
        faulty.add(name, runs_for=20 + number)
    slow_lists(6)
    watcher = watching(known_cluster())
    began, late = clock.time(), []
    while len(watcher):
        clock.sleep(watcher.idle())
        ended = [update.name for update in watcher.step() if update.outcome is Outcome.ENDED]
        late += [clock.time() - began - 20 - NAMES.index(name) for name in ended]
    assert len(late) == len(NAMES)
    assert max(late) < 20  # with the lists alone it would be 36
    assert faulty.lists <= 3
    assert sum(lookups(faulty).values()) < 4 * 60


# ---------------------------------------------------------------- deadlines


@pytest.mark.slow
def test_a_deadline_is_kept_to_the_second(faulty, known_cluster, follow, clock):
    """Of each job its own; those in between are looked up by lists."""
    start = clock.monotonic()
    add_jobs(faulty, runs_for=3600)
    known = known_cluster()
    watcher = watching(known, NAMES[:20])
    for number, name in enumerate(NAMES[20:25]):
        watcher.add(JobStatus(name, JobState.RUNNING), new=True, run_timeout=100.0 + 10 * number)
    stops = {}
    api = known.book.api
    stop = api.stop
    api.stop = lambda name: (stops.update({name: round(clock.monotonic() - start)}), stop(name))
    updates = follow(watcher, 300)
    assert stops == {"j20": 100, "j21": 110, "j22": 120, "j23": 130, "j24": 140}
    missed = {update.name: update.missed for update in updates if update.outcome is Outcome.ENDED}
    assert missed == dict.fromkeys(stops, Deadline.RUN)


@pytest.mark.slow
def test_deadlines_and_omitted_jobs_do_not_wait_for_a_list(faulty, known_cluster, follow, clock):
    """Lists are limited to one a minute: what is due long before the next is looked up alone."""
    faulty.release = "ltp-1.5"
    faulty.limits = {"list": 2, "call": 10_000}
    add_jobs(faulty, runs_for=3600)
    for name in NAMES[:3]:
        faulty.jobs[name].config["virtualCluster"] = "left"
    faulty.left_clusters = {"left"}
    watcher = watching(known_cluster())
    late = JobStatus("late", JobState.RUNNING)
    faulty.add("late", runs_for=3600)
    watcher.add(late, new=True, run_timeout=7)
    start = clock.monotonic()
    while "late" in watcher:
        clock.sleep(watcher.idle())
        watcher.step()
    assert 7 <= clock.monotonic() - start < 8
    follow(watcher, 300)
    assert {*NAMES[:3], "late"} <= set(lookups(faulty))
    assert max(lookups(faulty)[name] for name in NAMES[3:]) < 20  # as often as their age says
    assert faulty.lists <= 7


# ---------------------------------------------------------------- many callers


@cases("status code kind")
def test_a_job_that_the_server_never_shows_ends_alone(faulty, known_cluster, follow, status, code, kind):
    """Of a watcher for many callers, with the error: the others are watched to their ends."""
    add_jobs(faulty, NAMES[:2], runs_for=600)
    faulty.fail("GET", "/jobs/j1$", status, times=10_000, body={"code": code, "message": "no"})
    watcher = Watcher(known_cluster().book, Polling(patience=100), isolated=True)
    for name in NAMES[:2]:
        watcher.add(JobStatus(name, JobState.RUNNING), new=True)
    refused, ended = [update for update in follow(watcher) if update.outcome is not Outcome.CHANGED]
    assert (refused.name, refused.outcome, type(refused.error).__name__) == ("j1", Outcome.REFUSED, kind)
    assert (ended.name, ended.outcome, ended.error) == ("j0", Outcome.ENDED, None)


def test_a_watcher_knows_its_jobs(faulty, known_cluster):
    """Whether it watches a job, and how many."""
    faulty.add("j0")
    known = known_cluster()
    watcher = Watcher(known.book)
    with pytest.raises(JobNotFound):
        known.book.status("j1")
    watcher.add(known.book.status("j0"))
    assert ("j0" in watcher, "j1" in watcher, len(watcher)) == (True, False, 1)


@pytest.mark.slow
def test_lists_are_made_again_soon_after_an_outage(faulty, known_cluster, follow):
    """Not minutes later, in which each job would be looked up alone: lists failed as all requests did."""
    add_jobs(faulty, runs_for=36_000)
    watcher = watching(known_cluster())
    follow(watcher, 600)
    faulty.down()
    follow(watcher, 1200)
    faulty.up()
    follow(watcher, 60)
    faulty.calls.clear()
    follow(watcher, 240)
    assert lookups(faulty) == {}
    assert 5 < faulty.lists < 20


@pytest.mark.slow
@pytest.mark.parametrize("fault", [502, "reset"])
def test_an_outage_is_met_by_one_request_for_all_jobs(faulty, known_cluster, follow, fault):
    """Not by one for each: 50 jobs, a minute."""
    for number in range(50):
        faulty.add(f"m{number}", runs_for=36_000)
    watcher = watching(known_cluster(), [f"m{number}" for number in range(50)])
    follow(watcher, 300)
    faulty.fail("*", "", fault, times=float("inf"))
    faulty.calls.clear()
    follow(watcher, 60)
    assert 3 < len(faulty.calls) < 60


def test_a_step_ends_though_more_jobs_are_due(faulty, known_cluster, clock, monkeypatch):
    """Lists fail, and a round of lookups takes longer than the longest wait of a job."""
    names = [f"j{number}" for number in range(400)]
    add_jobs(faulty, names, runs_for=36_000)
    faulty.fail("GET", r"/jobs\?", 500, times=float("inf"))
    known = known_cluster()
    watcher = watching(known, names)
    looked_up = Counter()

    def slow(name):
        clock.advance(0.1)
        looked_up[name] += 1
        assert looked_up.total() < 3000
        return JobStatus(name, JobState.RUNNING, raw_state="RUNNING")

    monkeypatch.setattr(known.book.api, "status", slow)
    changed = set()
    while len(changed) < len(names):
        clock.sleep(watcher.idle())
        began = clock.monotonic()
        changed |= {update.name for update in watcher.step()}
        assert clock.monotonic() - began < 1
    assert min(looked_up.values()) > 0
