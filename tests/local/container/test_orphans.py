"""Processes that a task leaves are found below the server, whatever else runs on the machine."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import psutil
import pytest
from local_client import LocalClient
from waiting import wait_until

from luigi_pai.local import LocalPai

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
