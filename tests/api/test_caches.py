"""BoundedCache: its size, threads, forks."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from luigi_pai.api.caches import BoundedCache

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def test_the_oldest_entries_are_dropped():
    """A process that lives for months, and talks to ever new clusters, does not grow."""
    cache, made = BoundedCache(most=3), BoundedCache(most=3)
    for number in range(10):
        cache.put(number, str(number))
        made.get_or_make(number, lambda number=number: str(number))
    assert list(cache.values()) == list(made.values()) == ["7", "8", "9"]
    cache.put(7, "renewed")
    cache.put(10, "new")
    assert list(cache.values()) == ["9", "renewed", "new"]


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


def test_a_fork_is_not_held_up_by_a_thread_of_its_parent(in_forks):
    """The lock that a thread holds at that moment is not the child's."""
    cache = BoundedCache()
    cache.put("a", 1)
    with cache._locks[os.getpid()]:
        in_forks(lambda _: cache.put("b", cache.get("a")))
    assert cache.get("b") is None
