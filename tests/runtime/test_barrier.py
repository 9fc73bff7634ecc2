"""barrier(): processes wait for each other over a reserved port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from container_environments import Role, v1, v2
from job_cases import cases
from old_python import oldest_python
from waiting import wait_until

from luigi_pai import runtime
from luigi_pai.runtime import BarrierTimeout, ContainerError, barrier

SCRIPT = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import runtime
time.sleep(float(os.environ.get("LATE", 0)))
for name in sys.argv[2].split(","):
    began = time.time()
    try:
        runtime.barrier(name, float(sys.argv[3]))
    except runtime.ContainerError as error:
        sys.exit(str(error))
    print(name, began, time.time(), flush=True)
"""


def roles(count):
    """Return a job whose first task has a port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ports = [{"http": [port + number], "ssh": [1]} for number in range(count)]
    return [Role("worker", ["127.0.0.1"] * count, ports)]


def start(environ, names="ready", timeout=100, python=sys.executable, before=""):
    return subprocess.Popen(
        [python, "-c", before + SCRIPT, str(Path(runtime.__file__).parent), names, str(timeout)],
        env={"PATH": os.environ["PATH"], **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def results(processes):
    """Return the exit code, lines and error of each process, all of them ended."""
    found = []
    with ExitStack() as stack:
        for process in processes:
            stack.enter_context(process)
            stack.callback(process.kill)
        for process in processes:
            out, err = process.communicate(timeout=120)
            found.append((process.returncode, [line.split() for line in out.splitlines()], err.strip()))
    return found


@pytest.fixture
def enter(monkeypatch):
    """Be in a container of a v1 job."""

    def environment(job, index):
        for name, value in v1(job, "worker", index).items():
            monkeypatch.setenv(name, value)

    return environment


CASES = [
    pytest.param(case, id=name, marks=[pytest.mark.slow] if case.get("is_slow", True) else [])
    for name, case in cases("barrier")["meetings"].items()
]


@pytest.mark.parametrize("case", CASES)
def test_a_meeting(case):
    """Tasks that come late, at other barriers, with many files, or never; the others say which."""
    job = roles(case["tasks"])
    about = {"python": oldest_python()} if case.get("is_old") else {}
    ended = results(
        [
            start(
                v1(job, "worker", index, LATE=str(case.get("late", {}).get(index, 0))),
                case.get("barriers", {}).get(index, case.get("barrier", "ready")),
                case.get("timeout", 100),
                before=case.get("before", {}).get(index, ""),
                **about,
            )
            for index in case.get("come", range(case["tasks"]))
        ]
    )
    errors = case.get("errors", [""] * case["tasks"])
    assert [error for _, _, error in ended] == errors
    assert [code for code, _, _ in ended] == [1 if error else 0 for error in errors]
    passed = case.get("barrier", "ready").split(",")
    assert all([line[0] for line in lines] == ([] if code else passed) for code, lines, _ in ended)


@pytest.mark.slow
@pytest.mark.parametrize("environment", [v1, v2])
def test_no_task_passes_before_the_last_one_has_come(environment):
    """Eight tasks, one of them late."""
    job = roles(8)
    late = {5: {"LATE": "1.5"}}
    ended = results([start(environment(job, "worker", n, **late.get(n, {}))) for n in range(8)])
    assert [code for code, _, _ in ended] == [0] * 8, ended
    came = max(float(lines[0][1]) for _, lines, _ in ended)
    passed = min(float(lines[0][2]) for _, lines, _ in ended)
    assert passed >= came


@pytest.mark.slow
def test_a_task_that_dies_while_it_waits_is_named():
    job = roles(3)
    processes = [start(v1(job, "worker", index), timeout=6) for index in range(2)]
    time.sleep(2)
    processes[1].kill()
    (code, _, error), _ = results(processes)
    assert code == 1
    assert error.startswith("barrier 'ready': worker[1], worker[2] did not arrive within 6 s")


@pytest.mark.slow
def test_a_task_that_meets_itself(monkeypatch, enter):
    """Linux connects a socket to itself when it picks the port it calls, on the same host, as its own."""
    job = roles(2)
    enter(job, 1)
    connect, own = socket.create_connection, []

    def connect_to_itself(address, timeout):
        connection = connect(address, timeout, source_address=address)
        own.append(connection.getsockname() == connection.getpeername())
        return connection

    monkeypatch.setattr(socket, "create_connection", connect_to_itself)
    with pytest.raises(BarrierTimeout, match=r"^barrier 'ready': worker\[0\] did not arrive within 0.5 s"):
        barrier("ready", timeout=0.5)
    assert own
    assert all(own)
    with socket.socket() as first:
        first.bind(("127.0.0.1", job[0].ports[0]["http"][0]))


def connection_to(address):
    """Return a connection; None where nobody listens yet."""
    with suppress(OSError):
        return socket.create_connection(address, 60)
    return None


def test_strangers_at_the_port_do_no_harm():
    """A port scan, an HTTP request, a task of another job."""
    job = roles(2)
    first = start(v1(job, "worker", 0))
    address = ("127.0.0.1", job[0].ports[0]["http"][0])
    with ExitStack() as stack:
        other_tasks = b'["other", "ready", 1]\n', b'["train", "ready", 7]\n'
        others = b"", b"GET / HTTP/1.1\r\n\r\n", b"5\n", b"null\n", b"[" * 4000 + b"\n", b"x" * 9000
        for said in (*other_tasks, *others):
            stranger = wait_until(lambda: connection_to(address))
            stack.enter_context(stranger).sendall(said)
        ended = results([first, start(v1(job, "worker", 1))])
    assert [code for code, _, _ in ended] == [0, 0], ended


def test_a_job_of_one_task_does_not_wait(enter):
    enter(roles(1), 0)
    barrier("alone", timeout=0)


def test_a_port_in_use_is_named(enter):
    job = roles(2)
    enter(job, 0)
    with socket.socket() as other:
        other.bind(("127.0.0.1", job[0].ports[0]["http"][0]))
        other.listen()
        with pytest.raises(
            ContainerError, match=r"^the barrier cannot use port 'http' \(\d+\) of worker\[0\]: Addr"
        ):
            barrier("ready", timeout=1)
