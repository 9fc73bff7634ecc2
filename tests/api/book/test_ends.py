"""Ends: how long the end of a job is valid, and what ends that. On a clock that the test moves."""

from __future__ import annotations

import pytest

from luigi_pai.api.book.ends import Ends
from luigi_pai.api.status import JobState, JobStatus


def ended(name="j", state=JobState.SUCCEEDED, **about):
    return JobStatus(name, state, **{"username": "admin", "created_ms": 1} | about)


class Connections:
    """The connections to a server; ``epoch`` changes when they are lost."""

    epoch = 0


@pytest.fixture
def connections():
    return Connections()


@pytest.fixture
def ends(connections, clock):
    return Ends(lambda: connections.epoch, clock)


KEY = ("v1", "j")


def test_an_end_is_trusted_for_half_a_minute(ends, clock):
    """Then the job is to be looked up; if it is as it was, it is trusted for as long again."""
    ends.take(KEY, ended())
    clock.advance(29)
    assert ends.of(KEY) == ended()
    clock.advance(2)
    assert ends.of(KEY) is None
    ends.take(KEY, ended())
    assert ends.of(KEY) == ended()


def test_one_confirmed_end_confirms_all(ends, clock):
    """A server that knows one of them as it was is the same server: thousand tasks cost one lookup."""
    keys = [("v1", f"j{number}") for number in range(1000)]
    for key in keys:
        ends.take(key, ended(key[1]))
    clock.advance(40)
    assert not any(ends.of(key) for key in keys)
    ends.take(keys[500], ended("j500"))
    assert all(ends.of(key) for key in keys)


def test_a_new_end_confirms_none(ends, clock):
    """Another server may have a job that ended, too."""
    ends.take(KEY, ended())
    clock.advance(40)
    ends.take(("v1", "new"), ended("new"))
    assert ends.of(KEY) is None


@pytest.mark.parametrize("now", [None, ended(state=JobState.FAILED), ended(created_ms=2)])
def test_an_end_that_is_not_what_it_was_is_the_end_of_all(ends, now):
    """Another server answers: nothing of the first one's is believed."""
    ends.take(KEY, ended())
    ends.take(("v1", "k"), ended("k"))
    ends.take(KEY, now)
    assert ends.of(("v1", "k")) is None
    assert ends.of(KEY) == now


def test_an_unknown_job_that_was_never_known_changes_nothing(ends):
    """Most lookups of new work say that."""
    ends.take(KEY, ended())
    ends.take(("v1", "new"), None)
    assert ends.of(KEY) == ended()


def test_an_end_is_trusted_on_the_connections_of_its_lookup(ends, connections):
    """When they were lost, another server may be there since."""
    ends.take(KEY, ended())
    assert ends.of(KEY) == ended()
    connections.epoch += 1
    assert ends.of(KEY) is None
    ends.take(KEY, ended())
    assert ends.of(KEY) == ended()


@pytest.mark.parametrize(
    "status", [ended(state=JobState.RUNNING), ended(username=None), ended(created_ms=None)]
)
def test_only_the_ends_of_real_servers_are_remembered(ends, status):
    """A job that goes on changes; a bare reply of a mocked test may be another next time."""
    ends.take(KEY, status)
    assert ends.of(KEY) is None


def test_each_dialect_has_its_own(ends):
    """The same name may be two jobs."""
    ends.take(KEY, ended())
    assert ends.of(("v2", "j")) is None


# ---------------------------------------------------------------- lists


def listed(*names, **about):
    return {("v1", name): ended(name, **about) for name in names}


def test_the_ends_of_a_list_are_enough_for_some(ends, clock):
    """They are trusted for half a minute, and are no statuses."""
    ends.take_listed(listed("j", "k"))
    assert ends.of(KEY, listed=True) == ended()
    assert ends.of(KEY) is None
    clock.advance(31)
    assert ends.of(KEY, listed=True) is None


def test_a_list_confirms_what_was_known(ends, clock):
    """One of its jobs was known before, as it is."""
    ends.take(KEY, ended(exit_code=0))
    ends.take(("v1", "gone"), ended("gone"))
    clock.advance(31)
    ends.take_listed(listed("j", "k"))
    assert ends.of(KEY) == ended(exit_code=0)
    assert ends.of(("v1", "gone")) == ended("gone")


def test_a_list_of_none_that_was_known_may_be_another_servers(ends, clock):
    """What is in it counts, and nothing else."""
    ends.take(KEY, ended())
    clock.advance(31)
    ends.take_listed(listed("k"))
    assert ends.of(KEY) is None
    assert ends.of(("v1", "k"), listed=True) == ended("k")


@pytest.mark.parametrize("other", [{"state": JobState.FAILED}, {"created_ms": 100_000}])
def test_a_list_that_differs_is_another_servers(ends, other):
    """Another end of the same name, or one that was created minutes apart."""
    ends.take_listed(listed("j", "k"))
    ends.take_listed(listed("j", **other))
    assert ends.of(("v1", "k"), listed=True) is None
    assert ends.of(KEY, listed=True) == ended(**other)


def test_a_lookup_confirms_a_list_or_refutes_it(ends, clock):
    """With more facts than the list has; a new end confirms none."""
    ends.take_listed(listed("j", "k"))
    clock.advance(31)
    ends.take(("v1", "new"), ended("new"))
    assert ends.of(("v1", "k"), listed=True) is None
    ends.take(KEY, ended(exit_code=0, diagnostics="fine"))
    assert ends.of(("v1", "k"), listed=True) == ended("k")
    ends.take(("v1", "k"), None)
    assert ends.of(KEY, listed=True) is None
