"""Many jobs, watched by lists: what is looked up alone, how often lists are made, what they cannot tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from api_cases import cases
from api_stories import lookups

from luigi_pai.api.polling import Polling
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.api.watched import Deadline, Outcome
from luigi_pai.api.watching import Watcher

NAMES = [f"j{number}" for number in range(30)]


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
    assert Counter(lookups(faulty)) == {"j0": 1}


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
    assert Counter(lookups(faulty))["young"] > 5
    assert faulty.lists <= 1


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


# ---------------------------------------------------------------- lists that fail, and their pace


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
    assert len(lookups(faulty)) < 4 * 60


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
    assert max(Counter(lookups(faulty))[name] for name in NAMES[3:]) < 20  # as often as their age says
    assert faulty.lists <= 7


# ---------------------------------------------------------------- many callers


@cases("status code kind")
def test_a_job_that_the_server_never_shows_ends_alone(faulty, known_cluster, follow, status, code, kind):
    """Of a watcher for many callers, with the error: the others are watched to their ends."""
    add_jobs(faulty, NAMES[:2], runs_for=600)
    faulty.fail("GET", "/jobs/j1$", status, times=10_000, body={"code": code, "message": "no"})
    watcher = Watcher(known_cluster(polling=Polling(patience=100)).book, isolated=True)
    for name in NAMES[:2]:
        watcher.add(JobStatus(name, JobState.RUNNING), new=True)
    refused, ended = [update for update in follow(watcher) if update.outcome is not Outcome.CHANGED]
    assert (refused.name, refused.outcome, type(refused.error).__name__) == ("j1", Outcome.REFUSED, kind)
    assert (ended.name, ended.outcome, ended.error) == ("j0", Outcome.ENDED, None)


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
