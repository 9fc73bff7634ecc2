"""Processes of tasks: which belong to a task, which one is which, and how they are ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest
from local_client import LocalClient
from waiting import wait_for_end, wait_until

from luigi_pai.local import LocalPai
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


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not psutil.LINUX, reason="elsewhere orphans come to init, and the machine is searched"
    ),
]

SCENARIO = """
import asyncio, json, os, psutil, re, subprocess, sys
from luigi_pai.local.container import processes
from luigi_pai.local.container.processes import Orphans

def start(command, folder):
    env = {**os.environ, processes.TASK_VARIABLE: folder}
    child = subprocess.Popen(["sh", "-c", command], env=env, start_new_session=True)
    child.wait()
    return child.pid

def end(tasks):
    asyncio.run(processes.end(tasks, 0, orphans.members))

opened = []
orphans = Orphans()
orphans.adopt()
tasks = {"/one": start("(setsid sh -c 'sleep 60 & sleep 60' &) ; sleep 60 & exit 0", "/one")}
other = {"/other": start("setsid sleep 60 & exit 0", "/other")}
while len(orphans.members(tasks)) < 4 or len(orphans.members(other)) < 1:
    pass
known = {"self", str(os.getpid()), *map(str, orphans.members(tasks) | orphans.members(other))}
asks = ("open", "os.listdir", "os.scandir")
sys.addaudithook(lambda event, about: opened.append(str(about[0])) if event in asks else None)
found = len(orphans.members(tasks))
asked = {match[1] for match in map(re.compile("/proc/?([0-9]+|self|$)").match, opened) if match}
end(tasks)
orphans.reap()
left = len(psutil.Process().children(recursive=True))
end(other)
print(json.dumps({"found": found, "strangers asked": sorted(asked - known), "left": left}))
"""


def test_the_search_for_a_tasks_processes_asks_no_stranger():
    """Only what is below the server: the task's orphans are found, ended and reaped; another task's stay."""
    strangers = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(5)]
    try:
        report = subprocess.check_output([sys.executable, "-c", SCENARIO], timeout=60)
    finally:
        for stranger in strangers:
            stranger.kill()
            stranger.wait()
    assert json.loads(report) == {"found": 4, "strangers asked": [], "left": 1}


@pytest.fixture
def own(tmp_path):
    """A server of this test's own."""
    with LocalPai(tmp_path / "data", api="v1", stop_grace=0.2) as server:
        yield LocalClient(server)


def test_orphans_that_end_while_their_task_runs_are_reaped(own, tmp_path):
    """At once: a task may start any number of them."""
    go = tmp_path / "go"
    name = own.submit(f"for i in 1 2 3 4 5; do (sh -c : &); done; until [ -e {go} ]; do sleep 0.02; done")
    server = psutil.Process(pid_of(own))

    def only_the_task():
        with contextlib.suppress(psutil.NoSuchProcess):  # an orphan that is reaped meanwhile
            return [child.name() for child in server.children()] == ["bash"]

    wait_until(only_the_task)
    go.touch()
    assert own.wait(name)["jobStatus"]["state"] == "SUCCEEDED"


def pid_of(client):
    return json.loads((client.server.data / "server.json").read_text())["pid"]
