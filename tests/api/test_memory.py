"""What a cluster remembers of jobs, how much, and until when. On a clock that the test moves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from luigi_pai.api.memory import Ends, Remembered
from luigi_pai.api.status import JobState, JobStatus

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def ended(name="j", state=JobState.SUCCEEDED, **about):
    return JobStatus(name, state, **{"username": "admin", "created_ms": 1} | about)


# ---------------------------------------------------------------- Remembered


def test_the_oldest_entries_are_forgotten():
    """A process that lives for months does not grow."""
    memory = Remembered(most=3)
    for number in range(10):
        memory.put(number, str(number))
    assert len(memory) == 3
    assert memory.values() == ["7", "8", "9"]
    assert memory.get(0) is None


def test_an_entry_that_is_renewed_is_not_the_oldest():
    """What counts is when it was put last."""
    memory = Remembered(most=2)
    for key in ("a", "b", "a", "c"):
        memory.put(key, key)
    assert memory.values() == ["a", "c"]


def test_what_is_made_is_bounded_too():
    """A process that talks to ever new clusters."""
    memory = Remembered(most=3)
    for number in range(10):
        memory.get_or_make(number, lambda number=number: str(number))
    assert memory.values() == ["7", "8", "9"]


def test_a_value_is_made_once():
    """By many threads at once, too."""
    memory, made = Remembered(), []
    barrier = threading.Barrier(8)

    def make():
        made.append(1)
        return object()

    def get(_):
        barrier.wait(5)
        return memory.get_or_make("key", make)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(get, range(8)))) == 1
    assert len(made) == 1


def test_what_is_forgotten_is_gone():
    """One key, or all; forgetting what is not there is fine."""
    memory = Remembered()
    memory.put("a", 1)
    memory.put("b", 2)
    memory.pop("a")
    memory.pop("a")
    assert (memory.get("a"), memory.get("b")) == (None, 2)
    memory.clear()
    assert len(memory) == 0


def test_a_fork_is_not_held_up_by_a_thread_of_its_parent(in_forks):
    """The lock that a thread holds at that moment is not the child's."""
    memory = Remembered()
    memory.put("a", 1)
    with memory._held():
        in_forks(lambda _: memory.put("b", memory.get("a")))
    assert memory.get("b") is None


# ---------------------------------------------------------------- Ends


@pytest.fixture
def ends(clock):
    return Ends(clock)


KEY = ("v1", "j")


def test_an_end_is_trusted_for_half_a_minute(ends, clock):
    """Then the job is to be looked up; if it is as it was, it is trusted for as long again."""
    ends.confirm(KEY, ended(), epoch=0)
    clock.advance(29)
    assert ends.trusted(KEY, 0) == ended()
    clock.advance(2)
    assert ends.trusted(KEY, 0) is None
    ends.confirm(KEY, ended(), epoch=0)
    assert ends.trusted(KEY, 0) == ended()


def test_one_confirmed_end_confirms_all(ends, clock):
    """A server that knows one of them as it was is the same server: thousand tasks cost one lookup."""
    keys = [("v1", f"j{number}") for number in range(1000)]
    for key in keys:
        ends.confirm(key, ended(key[1]), epoch=0)
    clock.advance(40)
    assert not any(ends.trusted(key, 0) for key in keys)
    ends.confirm(keys[500], ended("j500"), epoch=0)
    assert all(ends.trusted(key, 0) for key in keys)


def test_a_new_end_confirms_none(ends, clock):
    """Another server may have a job that ended, too."""
    ends.confirm(KEY, ended(), epoch=0)
    clock.advance(40)
    ends.confirm(("v1", "new"), ended("new"), epoch=0)
    assert ends.trusted(KEY, 0) is None


@pytest.mark.parametrize("now", [None, ended(state=JobState.FAILED), ended(created_ms=2)])
def test_an_end_that_is_not_what_it_was_is_the_end_of_all(ends, now):
    """Another server answers: nothing of the first one's is believed."""
    ends.confirm(KEY, ended(), epoch=0)
    ends.confirm(("v1", "k"), ended("k"), epoch=0)
    ends.confirm(KEY, now, epoch=0)
    assert ends.trusted(("v1", "k"), 0) is None
    assert ends.trusted(KEY, 0) == now


def test_an_unknown_job_that_was_never_known_changes_nothing(ends):
    """Most lookups of new work say that."""
    ends.confirm(KEY, ended(), epoch=0)
    ends.confirm(("v1", "new"), None, epoch=0)
    assert ends.trusted(KEY, 0) == ended()


def test_an_end_is_trusted_on_the_connections_of_its_lookup(ends):
    """When they were lost, another server may be there since."""
    ends.confirm(KEY, ended(), epoch=3)
    assert ends.trusted(KEY, 3) == ended()
    assert ends.trusted(KEY, 4) is None
    ends.confirm(KEY, ended(), epoch=4)
    assert ends.trusted(KEY, 4) == ended()


@pytest.mark.parametrize(
    "status", [ended(state=JobState.RUNNING), ended(username=None), ended(created_ms=None)]
)
def test_only_the_ends_of_real_servers_are_remembered(ends, status):
    """A job that goes on changes; a bare reply of a mocked test may be another next time."""
    ends.confirm(KEY, status, epoch=0)
    assert ends.trusted(KEY, 0) is None


def test_each_dialect_has_its_own(ends):
    """The same name may be two jobs."""
    ends.confirm(KEY, ended(), epoch=0)
    assert ends.trusted(("v2", "j"), 0) is None
