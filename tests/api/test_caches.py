"""Caches of finished jobs: size, validity, forks. On a clock that the test moves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from luigi_pai.api.caches import BoundedCache, FinishedJobs
from luigi_pai.api.status import JobState, JobStatus

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def ended(name="j", state=JobState.SUCCEEDED, **about):
    return JobStatus(name, state, **{"username": "admin", "created_ms": 1} | about)


# ---------------------------------------------------------------- BoundedCache


def test_the_oldest_entries_are_dropped():
    """A process that lives for months does not grow."""
    cache = BoundedCache(most=3)
    for number in range(10):
        cache.put(number, str(number))
    assert len(cache) == 3
    assert cache.values() == ["7", "8", "9"]
    assert cache.get(0) is None


def test_an_entry_that_is_renewed_is_not_the_oldest():
    """What counts is when it was put last."""
    cache = BoundedCache(most=2)
    for key in ("a", "b", "a", "c"):
        cache.put(key, key)
    assert cache.values() == ["a", "c"]


def test_what_is_made_is_bounded_too():
    """A process that talks to ever new clusters."""
    cache = BoundedCache(most=3)
    for number in range(10):
        cache.get_or_make(number, lambda number=number: str(number))
    assert cache.values() == ["7", "8", "9"]


def test_a_value_is_made_once():
    """By many threads at once, too."""
    cache, made = BoundedCache(), []
    barrier = threading.Barrier(8)

    def make():
        made.append(1)
        return object()

    def get(_):
        barrier.wait(5)
        return cache.get_or_make("key", make)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(get, range(8)))) == 1
    assert len(made) == 1


def test_a_removed_entry_is_gone():
    """One key, or all; removing a missing key is fine."""
    cache = BoundedCache()
    cache.put("a", 1)
    cache.put("b", 2)
    cache.pop("a")
    cache.pop("a")
    assert (cache.get("a"), cache.get("b")) == (None, 2)
    cache.clear()
    assert len(cache) == 0


def test_a_fork_is_not_held_up_by_a_thread_of_its_parent(in_forks):
    """The lock that a thread holds at that moment is not the child's."""
    cache = BoundedCache()
    cache.put("a", 1)
    with cache._lock():
        in_forks(lambda _: cache.put("b", cache.get("a")))
    assert cache.get("b") is None


# ---------------------------------------------------------------- FinishedJobs


@pytest.fixture
def finished(clock):
    return FinishedJobs(clock)


KEY = ("v1", "j")


def test_an_end_is_trusted_for_half_a_minute(finished, clock):
    """Then the job is to be looked up; if it is as it was, it is trusted for as long again."""
    finished.update(KEY, ended(), epoch=0)
    clock.advance(29)
    assert finished.get(KEY, 0) == ended()
    clock.advance(2)
    assert finished.get(KEY, 0) is None
    finished.update(KEY, ended(), epoch=0)
    assert finished.get(KEY, 0) == ended()


def test_one_confirmed_end_confirms_all(finished, clock):
    """A server that knows one of them as it was is the same server: thousand tasks cost one lookup."""
    keys = [("v1", f"j{number}") for number in range(1000)]
    for key in keys:
        finished.update(key, ended(key[1]), epoch=0)
    clock.advance(40)
    assert not any(finished.get(key, 0) for key in keys)
    finished.update(keys[500], ended("j500"), epoch=0)
    assert all(finished.get(key, 0) for key in keys)


def test_a_new_end_confirms_none(finished, clock):
    """Another server may have a job that ended, too."""
    finished.update(KEY, ended(), epoch=0)
    clock.advance(40)
    finished.update(("v1", "new"), ended("new"), epoch=0)
    assert finished.get(KEY, 0) is None


@pytest.mark.parametrize("now", [None, ended(state=JobState.FAILED), ended(created_ms=2)])
def test_an_end_that_is_not_what_it_was_is_the_end_of_all(finished, now):
    """Another server answers: nothing of the first one's is believed."""
    finished.update(KEY, ended(), epoch=0)
    finished.update(("v1", "k"), ended("k"), epoch=0)
    finished.update(KEY, now, epoch=0)
    assert finished.get(("v1", "k"), 0) is None
    assert finished.get(KEY, 0) == now


def test_an_unknown_job_that_was_never_known_changes_nothing(finished):
    """Most lookups of new work say that."""
    finished.update(KEY, ended(), epoch=0)
    finished.update(("v1", "new"), None, epoch=0)
    assert finished.get(KEY, 0) == ended()


def test_an_end_is_trusted_on_the_connections_of_its_lookup(finished):
    """When they were lost, another server may be there since."""
    finished.update(KEY, ended(), epoch=3)
    assert finished.get(KEY, 3) == ended()
    assert finished.get(KEY, 4) is None
    finished.update(KEY, ended(), epoch=4)
    assert finished.get(KEY, 4) == ended()


@pytest.mark.parametrize(
    "status", [ended(state=JobState.RUNNING), ended(username=None), ended(created_ms=None)]
)
def test_only_the_ends_of_real_servers_are_remembered(finished, status):
    """A job that goes on changes; a bare reply of a mocked test may be another next time."""
    finished.update(KEY, status, epoch=0)
    assert finished.get(KEY, 0) is None


def test_each_dialect_has_its_own(finished):
    """The same name may be two jobs."""
    finished.update(KEY, ended(), epoch=0)
    assert finished.get(("v2", "j"), 0) is None


# ---------------------------------------------------------------- lists


def listed(*names, **about):
    return {("v1", name): ended(name, **about) for name in names}


def test_the_ends_of_a_list_are_enough_for_some(finished, clock):
    """They are trusted for half a minute, and are no statuses."""
    finished.update_listed(listed("j", "k"), epoch=0)
    assert finished.get(KEY, 0, listed=True) == ended()
    assert finished.get(KEY, 0) is None
    assert finished.get(KEY, 1, listed=True) is None
    clock.advance(31)
    assert finished.get(KEY, 0, listed=True) is None


def test_a_list_confirms_what_was_known(finished, clock):
    """One of its jobs was known before, as it is."""
    finished.update(KEY, ended(exit_code=0), epoch=0)
    finished.update(("v1", "gone"), ended("gone"), epoch=0)
    clock.advance(31)
    finished.update_listed(listed("j", "k"), epoch=0)
    assert finished.get(KEY, 0) == ended(exit_code=0)
    assert finished.get(("v1", "gone"), 0) == ended("gone")


def test_a_list_of_none_that_was_known_may_be_another_servers(finished, clock):
    """What is in it counts, and nothing else."""
    finished.update(KEY, ended(), epoch=0)
    clock.advance(31)
    finished.update_listed(listed("k"), epoch=0)
    assert finished.get(KEY, 0) is None
    assert finished.get(("v1", "k"), 0, listed=True) == ended("k")


@pytest.mark.parametrize("other", [{"state": JobState.FAILED}, {"created_ms": 100_000}])
def test_a_list_that_differs_is_another_servers(finished, other):
    """Another end of the same name, or one that was created minutes apart."""
    finished.update_listed(listed("j", "k"), epoch=0)
    finished.update_listed(listed("j", **other), epoch=0)
    assert finished.get(("v1", "k"), 0, listed=True) is None
    assert finished.get(KEY, 0, listed=True) == ended(**other)


def test_a_lookup_confirms_a_list_or_refutes_it(finished, clock):
    """With more facts than the list has; a new end confirms none."""
    finished.update_listed(listed("j", "k"), epoch=0)
    clock.advance(31)
    finished.update(("v1", "new"), ended("new"), epoch=0)
    assert finished.get(("v1", "k"), 0, listed=True) is None
    finished.update(KEY, ended(exit_code=0, diagnostics="fine"), epoch=0)
    assert finished.get(("v1", "k"), 0, listed=True) == ended("k")
    finished.update(("v1", "k"), None, epoch=0)
    assert finished.get(KEY, 0, listed=True) is None
