"""The document that forked processes share: in real forks, threads, and with processes that are killed."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from waiting import wait_until

from luigi_pai.api.shared import SharedDocument

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*use of fork:DeprecationWarning"
)  # threads are what is tested


def count(shared: SharedDocument, times: int, key: str = "count") -> None:
    for _ in range(times):
        with shared.update() as state:
            state[key] = state.get(key, 0) + 1


def test_what_was_written_is_read():
    """And replaced by what is written later; a new document is empty, and shares nothing with others."""
    shared = SharedDocument()
    with shared.update() as state:
        state |= {"a": 1, "b": [None, "é", 2.5]}
    with shared.update() as state:
        del state["a"]
    assert shared.read() == {"b": [None, "é", 2.5]}
    assert SharedDocument().read() == {}


def test_a_change_that_fails_changes_nothing():
    """An exception leaves the document as it was, for others and for the process itself."""
    shared = SharedDocument()
    shared.share()
    with shared.update() as state:
        state["a"] = 1
    with pytest.raises(ZeroDivisionError), shared.update() as state:
        state["a"] = 1 / 0
    assert shared.read() == {"a": 1}
    with pytest.raises(TypeError), shared.update() as state:
        state["b"] = object()
    assert shared.read() == {"a": 1}
    count(shared, 1)
    assert shared.read() == {"a": 1, "count": 1}


@pytest.mark.slow
def test_the_file_is_closed_with_it():
    """A process that makes many clusters does not run out of descriptors."""
    before = psutil.Process().num_fds()
    for _ in range(50):
        SharedDocument().share()
    gc.collect()
    assert psutil.Process().num_fds() < before + 10


def test_nothing_is_written_before_the_first_fork():
    """Most processes never fork, and a list takes a while to write; started programs do not get the file."""
    shared = SharedDocument()
    count(shared, 3)
    assert (shared._fd, shared.read()) == (None, {"count": 3})
    shared.share()
    assert not os.get_inheritable(shared._fd)


# ---------------------------------------------------------------- forks


def test_what_a_process_writes_is_known_to_all(in_forks):
    """Children start from what their parent knew; what a child writes is known to its siblings and parent."""
    shared = SharedDocument()
    count(shared, 3)

    def child(number):
        assert shared.read()["count"] == 3
        with shared.update() as state:
            state[f"child {number}"] = number
        wait_until(lambda: len(shared.read()) == 5)

    in_forks(child, 4)
    expected = {"count": 3} | {f"child {number}": number for number in range(4)}
    assert shared.read() == expected

    def later(_number):
        assert shared.read() == expected

    in_forks(later)


def test_no_change_of_many_processes_is_lost(in_forks):
    """Each builds on the last one."""
    shared = SharedDocument()
    in_forks(lambda _: count(shared, 200), 8, meanwhile=lambda: count(shared, 200))
    assert shared.read() == {"count": 1800}


def test_threads_and_forks_at_once(in_forks):
    """Locks within locks, in several threads of several processes: no change is lost, and nobody fails."""
    shared = SharedDocument()

    def work(number):
        for _ in range(60):
            if number % 2:
                with shared.locked("login" if number % 4 == 1 else "dialect"):
                    count(shared, 1)
            else:
                count(shared, 1)
            assert shared.read()["count"] >= 1

    def process(_number=0):
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))

    in_forks(process, 4, meanwhile=process)
    assert shared.read() == {"count": 5 * 6 * 60}


@pytest.mark.slow
def test_a_fork_of_many_threads_is_not_held_up(in_forks):
    """A child is forked while threads of its parent hold the locks that it then needs."""
    shared = SharedDocument()
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            count(shared, 1, "parent")

    def child(number):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: count(shared, 25, f"child {number}"), range(4)))

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            in_forks(child, 4)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    document = shared.read()
    assert {key: value for key, value in document.items() if key != "parent"} == {
        f"child {number}": 300 for number in range(4)
    }


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["document", "login", "dialect"])
def test_a_process_that_is_killed_with_a_lock_releases_it(lock):
    """The kernel takes it back."""
    shared = SharedDocument()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover  in the child
        with shared.locked(lock):
            os.write(writer, b"x")
            time.sleep(60)
        os._exit(0)
    os.read(reader, 1)
    waited = threading.Event()

    def wait():
        with shared.locked(lock):
            waited.set()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        assert not waited.wait(0.1)  # it is held as long as the process lives
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
    assert waited.wait(10)
    thread.join()


@pytest.mark.slow
def test_a_process_that_is_killed_anywhere_leaves_a_whole_document():
    """Killed in the middle of its writing, whenever: the document is that before or after."""
    shared = SharedDocument()
    for _ in range(20):
        child = os.fork()
        if child == 0:  # pragma: no cover  in the child
            while True:
                with shared.update() as state:
                    state["n"] = state.get("n", 0) + 1
                    state["text"] = str(state["n"]) * (state["n"] % 50)
        before = shared.read().get("n", 0)
        wait_until(lambda: shared.read().get("n", 0) != before)  # noqa: B023  called in this round
        time.sleep(random.uniform(0.001, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        document = shared.read()
        assert document.get("text", "") == str(document.get("n", 0)) * (document.get("n", 0) % 50)
    count(shared, 1)
    assert shared.read()["n"] == document["n"]


# ---------------------------------------------------------------- growing and shrinking


@pytest.mark.slow
def test_a_document_that_grows_and_shrinks_stays_right(in_forks):
    """1,000 times, by turns of a process and its child's; the file does not grow without end."""
    shared, longest = SharedDocument(), 5000
    lengths = random.Random(7).choices(range(longest), k=1000)

    def write(length):
        with shared.update() as state:
            state["text"] = "x" * length

    for number, length in enumerate(lengths):
        if number % 100:
            write(length)
        else:
            in_forks(lambda _, length=length: write(length))
        assert shared.read() == {"text": "x" * length}
    assert os.fstat(shared._fd).st_size < 3 * longest
