"""current(): the task that runs here, from the environments of both APIs, and outside a container."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from container_environments import Role, v1, v2
from job_cases import cases
from old_python import OLDEST_MINOR, oldest_python

from luigi_pai import runtime
from luigi_pai.runtime import ContainerError, Task, current, export_torch

FILE = Path(runtime.__file__)
CASES = cases("runtime")
ROLES = {name: [Role(*role) for role in roles] for name, roles in CASES["roles"].items()}
MANY = [
    Role(
        "worker",
        [f"10.0.{number // 10}.{number}" for number in range(100)],
        [{"http": [2000 + number], "ssh": [3000 + number]} for number in range(100)],
    )
]

FACTS = """
import json, sys
def facts(task):
    names = "api user job name attempt role index count rank world_size host ports gpus cpus memory_mb shm_mb"
    peers = [[str(peer), peer.host, peer.ports, peer.gpus] for peer in task.peers]
    return [[getattr(task, name) for name in names.split() + ["virtual_cluster", "work_dir"]], peers]
"""
IN_A_CHILD = """
sys.path.insert(0, sys.argv[1])
import runtime
print(json.dumps([facts(runtime.Task(environ)) for environ in json.load(sys.stdin)]))
"""


@pytest.fixture
def seen(monkeypatch):
    """Be in a container, and return the value of an expression there; exports are gone after the test."""
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.setenv(name, "stale")

    def value(expression, api, job, role, index, options):
        if "placed" in options:
            options = options | {"placed": [tuple(place) for place in options["placed"]]}
        for name, variable in {"v1": v1, "v2": v2}[api](ROLES[job], role, index, **options).items():
            monkeypatch.setenv(name, variable)
        return eval(expression.replace("task.", "current()."), {**vars(runtime), "os": os, "json": json})

    return value


@pytest.mark.parametrize(
    ("api", "place", "expected"),
    [(api, place, expected) for apis, *place, expected in CASES["sees"] for api in apis.split()],
)
def test_what_a_task_sees(seen, api, place, expected):
    """Its names and place in the job, ports, resources, folders, and what frameworks are started with."""
    for expression, value in expected.items():
        assert seen(expression, api, *place) == (api if value == "{api}" else value), expression


@pytest.mark.parametrize(("api", "job", "role", "index", "options", "expression", "message"), CASES["errors"])
def test_what_a_container_does_not_have_is_an_error(
    seen, api, job, role, index, options, expression, message
):
    """It says what is there; nothing is exported."""
    with pytest.raises((ContainerError, TypeError)) as caught:
        seen(expression, api, job, role, index, options)
    assert str(caught.value) == message
    assert os.environ["RANK"] == "stale"


@pytest.mark.parametrize("environment", [v1, v2])
def test_a_hundred_tasks(environment):
    task = Task(environment(MANY, "worker", 57))
    assert (task.rank, task.world_size, task.count, task.host) == (57, 100, 100, "10.0.5.57")
    assert [peer.port() for peer in task.peers] == list(range(2000, 2100))


# ---------------------------------------------------------------- outside a container


def test_outside_a_container_it_is_a_job_of_one_task(monkeypatch, tmp_path):
    """A script that uses it runs by hand; any port is there."""
    monkeypatch.chdir(tmp_path)
    task = current()
    assert (task.api, task.role, task.index, task.rank, task.world_size) == (None, "main", 0, 0, 1)
    assert task.own.port("tf") == task.own.port("tf") > 1023
    assert {task.data_dir, task.code_dir, task.output_dir, task.work_dir} == {str(tmp_path)}
    assert task.checkpoint_dir == f"{tmp_path}/_checkpoint"


@pytest.mark.usefixtures("seen")
def test_torch_by_hand():
    """A script that runs on a laptop trains in one process."""
    exported = export_torch()
    assert (exported["MASTER_ADDR"], exported["RANK"], exported["WORLD_SIZE"]) == ("127.0.0.1", "0", "1")
    assert 1023 < int(exported["MASTER_PORT"]) < 65536


def test_outside_a_container_left_over_variables_do_no_harm(monkeypatch):
    monkeypatch.setenv("PAI_TASK_INDEX", "3")
    monkeypatch.setenv("PAI_OUTPUT_DIR", "/results")
    assert (current().index, current().output_dir) == (0, "/results")


# ---------------------------------------------------------------- old Pythons


def test_it_is_written_for_python_3_6():
    """By its grammar."""
    ast.parse(FILE.read_text("utf-8"), feature_version=(3, OLDEST_MINOR))


def test_the_oldest_python_sees_the_same():
    """On its own, without luigi_pai: in small and large jobs of both APIs, and outside of one."""
    environs = [v1(ROLES["two"], "ps", 0), v2(ROLES["two"], "worker", 1), {}]
    environs += [v1(MANY, "worker", 7), v2(MANY, "worker", 99)]
    command = [oldest_python(), "-c", FACTS + IN_A_CHILD, str(FILE.parent)]
    run = subprocess.run(
        command, input=json.dumps(environs), capture_output=True, text=True, check=True, timeout=60
    )
    here: dict[str, Any] = {}
    exec(FACTS, here)
    assert json.loads(run.stdout) == [here["facts"](Task(environ)) for environ in environs]


def test_importing_it_is_fast():
    """It loads the few modules that it needs at once, and nothing that starts up slowly."""
    names = {
        name.partition(".")[0]
        for node in ast.parse(FILE.read_text("utf-8")).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert names == {"collections", "contextlib", "functools", "json", "os", "re", "sys", "time"}


def test_no_two_variables_have_one_name():
    """Of one API: what each says is one thing."""
    for api in ("v1", "v2"):
        names = [name for row in runtime.VARIABLES.values() for name in getattr(row, api)]
        assert len(names) == len(set(names))
