"""Processes of tasks: which belong to a task, which one is which, and how they are ended."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest
from waiting import wait_for_end, wait_until

from luigi_pai.local.container import processes
from luigi_pai.local.container.processes import TASK_VARIABLE

SLEEP = "import time; time.sleep(60)"
LEAVES_SESSION = f"""
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        {SLEEP}
    os._exit(0)
{SLEEP}
"""
"""Starts a session whose first process is a zombie, and whose second runs."""


@contextmanager
def task(folder, code=SLEEP, **more):
    """A first process of a task, as the server starts it: its last word is the task's folder."""
    env = {**os.environ, TASK_VARIABLE: str(folder)}
    command = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(
        command, env=env, start_new_session=True, stdout=subprocess.PIPE, text=True, **more
    ) as child:
        try:
            wait_until(lambda: processes.members({str(folder): None}))
            yield child
        finally:
            for pid in processes.members({str(folder): child.pid}):
                os.kill(pid, 9)


@pytest.fixture
def as_on_macos(monkeypatch):
    """The environment of a program of the system is not shown."""
    monkeypatch.setattr(processes.psutil, "LINUX", False)

    def environ(process):
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(processes.psutil.Process, "environ", environ)


def test_a_task_has_the_processes_that_inherit_its_variable(tmp_path):
    """Another task, this process, and a process that has ended are not among them."""
    with task(tmp_path / "a") as one, task(tmp_path / "b") as other:
        assert processes.members({str(tmp_path / "a"): None}) == {one.pid}
        assert processes.members({str(tmp_path / n): None for n in "ab"}) == {one.pid, other.pid}
        one.kill()
        wait_until(lambda: processes.members({str(tmp_path / "a"): one.pid}) == set())
        wait_until(lambda: psutil.Process(one.pid).status() == psutil.STATUS_ZOMBIE)


def test_a_process_that_leaves_the_session_stays_a_member(tmp_path):
    """Even in a session whose first process is a zombie, which the task does not reap."""
    with task(tmp_path / "a", LEAVES_SESSION) as first:
        hidden = int(first.stdout.readline())
        zombie = os.getsid(hidden)
        assert zombie not in (hidden, first.pid)
        wait_until(lambda: psutil.Process(zombie).status() == psutil.STATUS_ZOMBIE)
        assert processes.members({str(tmp_path / "a"): first.pid}) == {first.pid, hidden}


def test_a_first_process_is_found_by_its_folder(tmp_path):
    """Not the task of another folder; nor anything once it has ended."""
    with task(tmp_path / "a") as first:
        assert processes.first_process(str(tmp_path / "a")) == first.pid
        assert processes.first_process(str(tmp_path / "ab")) is None
    assert processes.first_process(str(tmp_path / "a")) is None


@pytest.mark.slow
def test_the_start_time_tells_processes_apart(tmp_path):
    """It is the same in each server, whatever the clock says meanwhile; a process that has ended has none."""
    code = (
        "import sys; from luigi_pai.local.container import processes as p; print(p.started(int(sys.argv[1])))"
    )
    with task(tmp_path / "a") as first:
        when = processes.started(first.pid)
        command = [sys.executable, "-c", code, str(first.pid)]
        other = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert other.stdout.strip() == when == processes.started(first.pid)
        assert when != processes.started(os.getpid())
        first.kill()
        wait_until(lambda: processes.started(first.pid) is None)  # a zombie
    assert processes.started(first.pid) is None


@pytest.mark.skipif(not psutil.LINUX, reason="elsewhere the start time does not depend on the boot time")
def test_a_clock_that_is_set_changes_no_start_time(monkeypatch):
    """The kernel reports another boot time then."""
    when, boot = processes.started(os.getpid()), psutil.boot_time()
    created = psutil.Process(os.getpid()).create_time()
    monkeypatch.setattr(processes.psutil, "boot_time", lambda: boot + 3600)
    monkeypatch.setattr(processes.psutil.Process, "create_time", lambda _: created + 3600)
    assert processes.started(os.getpid()) == when


@pytest.mark.slow
async def test_the_end_of_a_process_is_awaited(tmp_path):
    """Of a child with its exit code; of another process, or one that has another start time, without."""
    with task(tmp_path / "a") as first:
        when = processes.started(first.pid)
        await asyncio.wait_for(processes.wait_ended(first.pid, "another"), 5)
        await asyncio.wait_for(processes.wait_ended(2**22 + 1, None), 5)  # there is no such process
        child = asyncio.create_task(processes.wait_child(first))
        other = asyncio.create_task(processes.wait_ended(first.pid, when))
        await asyncio.sleep(0.05)
        assert not child.done()
        assert not other.done()
        first.kill()
        assert await asyncio.wait_for(child, 20) == -9
        await asyncio.wait_for(other, 20)


@pytest.mark.slow
async def test_ending_a_task_leaves_no_process(tmp_path):
    """One that ignores SIGTERM is killed after the grace."""
    with task(tmp_path / "a", LEAVES_SESSION) as first:
        hidden = int(first.stdout.readline())
        await processes.end({str(tmp_path / "a"): first.pid}, 0.1)
        wait_for_end(hidden)
        assert first.wait(20) == -9


def test_the_tasks_of_a_data_folder_are_killed(tmp_path):
    """Not those of a folder whose name begins alike."""
    with task(tmp_path / "data/jobs/a") as first, task(tmp_path / "data2/jobs/a") as other:
        processes.kill_all_under(tmp_path / "data")
        assert first.wait(20) == -9
        assert other.poll() is None


@pytest.mark.usefixtures("as_on_macos")
def test_without_environments_the_session_of_a_task_is_known(tmp_path):
    """By its first process, which is known, or by the command of that."""
    bash = shutil.which("bash")
    script = tmp_path / "run-task.sh"
    script.write_text("sleep 60 & while :; do wait; done\n")
    folder = str(tmp_path / "data/jobs/a")
    with subprocess.Popen([bash, str(script), folder], start_new_session=True) as first:
        children = wait_until(lambda: psutil.Process(first.pid).children())
        assert processes.members({folder: None}) == set()
        assert processes.members({folder: first.pid}) == {first.pid, *(child.pid for child in children)}
        assert processes.first_process(folder) == first.pid
        processes.kill_all_under(tmp_path / "data")
        assert first.wait(20) == -9
        assert [child for child in children if child.is_running() and child.status() != "zombie"] == []
