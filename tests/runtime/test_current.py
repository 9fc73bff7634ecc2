"""current(): the task that runs here, from the environments of both APIs, and outside a container."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from container_environments import Role, v1, v2
from old_python import OLDEST_MINOR, oldest_python

from luigi_pai import runtime
from luigi_pai.runtime import ContainerError, Task, attempt_of, current

FILE = Path(runtime.__file__)
TWO_ROLES = [
    Role(
        "worker",
        ["10.0.0.2", "10.0.0.3"],
        [
            {"http": [1001], "ssh": [1002], "tf": [1003, 1004], "my_label_0": [1005]},
            {"http": [1011], "ssh": [1012], "tf": [1013, 1014], "my_label_0": [1015]},
        ],
        gpus=2,
    ),
    Role("ps", ["10.0.0.3"], [{"http": [1021], "ssh": [1022], "tf": [1023]}]),
]
MANY = [
    Role(
        "worker",
        [f"10.0.{number // 10}.{number}" for number in range(100)],
        [{"http": [2000 + number], "ssh": [3000 + number]} for number in range(100)],
    )
]
ALONE = [Role("main", ["10.0.0.2"], [{"http": [1001], "ssh": [1002]}])]

FACTS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import runtime
task = runtime.current()
print(json.dumps([
    task.api, task.user, task.job, task.name, task.attempt, task.role, task.index, task.count, task.rank,
    task.world_size, task.host, task.ports, task.gpus, task.cpus, task.memory_mb, task.shm_mb,
    task.virtual_cluster, task.work_dir,
    [[str(peer), peer.host, peer.ports, peer.gpus] for peer in task.peers],
], sort_keys=True))
"""


def facts(environ, python=sys.executable):
    """Return what a Python sees of an environment, the file being imported alone."""
    run = subprocess.run(
        [python, "-c", FACTS, str(FILE.parent)],
        env=environ, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("environment", [v1, v2])
def test_names_and_place_in_the_job(environment):
    task = Task(environment(TWO_ROLES, "worker", 1))
    assert (task.api, task.user, task.job, task.name, task.attempt) == (
        environment.__name__, "alice", "train", "train", 1,
    )  # fmt: skip
    assert (task.role, task.index, task.count, task.rank, task.world_size) == ("worker", 1, 2, 1, 3)
    assert (task.virtual_cluster, task.host) == ("default", "10.0.0.3")
    assert [str(peer) for peer in task.peers] == ["worker[0]", "worker[1]", "ps[0]"]
    assert (task.gpus, task.cpus, task.memory_mb) == (2, 4, 8192)
    assert Task(environment(TWO_ROLES, "ps", 0)).rank == 2


@pytest.mark.parametrize("environment", [v1, v2])
def test_own_ports_of_every_label(environment):
    task = Task(environment(TWO_ROLES, "worker", 0))
    assert task.ports == {"http": [1001], "ssh": [1002], "tf": [1003, 1004], "my_label_0": [1005]}
    assert task.own.port("tf") == 1003
    assert task.own.address("my_label_0") == "10.0.0.2:1005"


def test_v2_knows_the_ports_and_gpus_of_every_task():
    """Labels with ``_`` included."""
    task = Task(v2(TWO_ROLES, "ps", 0))
    assert task.roles["worker"][1].ports == TWO_ROLES[0].ports[1]
    assert task.roles["worker"][1].address("tf") == "10.0.0.3:1013"
    assert [peer.gpus for peer in task.peers] == [2, 2, 0]
    assert task.shm_mb == 512


def test_v1_knows_the_http_port_of_other_tasks_alone():
    """What it does not say is an error that says so; the GPUs of other roles are not known."""
    task = Task(v1(TWO_ROLES, "worker", 0))
    assert task.roles["worker"][1].address() == "10.0.0.3:1011"
    with pytest.raises(
        ContainerError,
        match=r"^port 'tf' of worker\[1\] is not known here, only: http; reserve it in the job. "
        r"On OpenPAI 0.7 to 0.14 \(v1\) a task sees only 'http' ports of others$",
    ):
        task.roles["worker"][1].port("tf")
    assert [peer.gpus for peer in task.peers] == [2, 2, None]


def test_a_label_without_ports_is_an_error():
    with pytest.raises(
        ContainerError, match=r"port 'nccl' of worker\[0\] is not known here, only: http, my_l"
    ):
        Task(v2(TWO_ROLES, "worker", 0)).own.port("nccl")


@pytest.mark.parametrize("environment", [v1, v2])
def test_a_hundred_tasks(environment):
    task = Task(environment(MANY, "worker", 57))
    assert (task.rank, task.world_size, task.count, task.host) == (57, 100, 100, "10.0.5.57")
    assert [peer.port() for peer in task.peers] == list(range(2000, 2100))


@pytest.mark.parametrize("environment", [v1, v2])
def test_a_job_of_one_task(environment):
    task = Task(environment(ALONE, "main", 0))
    assert (task.rank, task.world_size, task.own.address()) == (0, 1, "10.0.0.2:1001")


def test_roles_with_a_common_prefix_are_distinguished():
    """v2 has ``worker`` and ``worker2`` in one list of instances."""
    roles = [
        Role("worker", ["10.0.0.2"], [{"http": [1], "ssh": [2]}]),
        Role("worker2", ["10.0.0.3", "10.0.0.4"], [{"http": [3], "ssh": [4]}, {"http": [5], "ssh": [6]}]),
    ]
    task = Task(v2(roles, "worker2", 1))
    assert [peer.address() for peer in task.peers] == ["10.0.0.2:1", "10.0.0.3:3", "10.0.0.4:5"]


def test_roles_that_a_conversion_renamed_are_found_by_both_names():
    """As the command of a converted v1 job exports them."""
    roles = [
        Role("myrole", ["10.0.0.2", "10.0.0.3"], [{"http": [1], "ssh": [2]}, {"http": [3], "ssh": [4]}], 1)
    ]
    environ = v2(roles, "myrole", 1) | {
        "PAI_JOB_NAME": "train__attempt2",
        "PAI_CURRENT_TASK_ROLE_NAME": "My_Role",
        "PAI_TASK_ROLE_NAME": "My_Role",
        "PAI_TASK_ROLE_My_Role_HOST_LIST": "10.0.0.2:1,10.0.0.3:3",
        "PAI_OUTPUT_DIR": "hdfs://10.0.0.1:9000/out",
    }
    task = Task(environ)
    assert (task.api, task.role, task.rank, task.count, task.gpus) == ("v2", "My_Role", 1, 2, 1)
    assert task.roles["My_Role"] == task.roles["myrole"] == task.peers
    assert (task.name, task.attempt, task.output_dir) == ("train", 2, "hdfs://10.0.0.1:9000/out")


def test_a_role_that_is_not_there():
    with pytest.raises(ContainerError, match=r"^the job has no task role 'chief', only worker, ps$"):
        Task(v2(TWO_ROLES, "ps", 0)).roles["chief"]


def test_without_gang_allocation_others_may_have_no_address_yet():
    task = Task(v2(TWO_ROLES, "worker", 0, placed=[("worker", 0)]))
    assert task.host == "10.0.0.2"
    assert task.roles["ps"][0].host is None
    with pytest.raises(ContainerError, match=r"^ps\[0\] has no address yet: without gang allocation"):
        task.roles["ps"][0].address()


def test_variables_that_contradict_each_other():
    """As where a job's own commands set them."""
    environ = v1(ALONE, "main", 0) | {"PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "3"}
    with pytest.raises(
        ContainerError, match=r"this is main\[3\], but the role has 1 tasks according to PAI_TASK_ROLE_main_"
    ):
        Task(environ)


def test_variables_of_v2_that_contradict_each_other():
    """The error names the variable that v2 has."""
    environ = v2(ALONE, "main", 0) | {"PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "3"}
    with pytest.raises(ContainerError, match=r"the role has 1 tasks according to PAI_TASK_ROLE_INSTANCES$"):
        Task(environ)


# ---------------------------------------------------------------- names of jobs


def test_job_names_of_v2_lose_their_user():
    """``user~job``: what is named after the job matches the task's name again."""
    task = Task(v2(ALONE, "main", 0, job="train__attempt3", user="bob"))
    assert (task.job, task.name, task.attempt) == ("train__attempt3", "train", 3)


def test_job_names_of_v1_keep_a_tilde():
    assert Task(v1(ALONE, "main", 0, job="alice~train")).job == "alice~train"


def test_the_attempt_that_luigi_pai_exported_counts():
    assert Task(v1(ALONE, "main", 0, LUIGI_PAI_ATTEMPT="4")).attempt == 4


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ("a", ("a", 1)),
        ("a__attempt2", ("a", 2)),
        ("a__attempt2__attempt3", ("a__attempt2", 3)),
        ("a__attempt0", ("a__attempt0", 1)),
    ],
)
def test_attempts_by_name(job, expected):
    assert attempt_of(job) == expected


# ---------------------------------------------------------------- folders


def test_folders():
    task = Task(v1(ALONE, "main", 0))
    assert task.data_dir == "hdfs://10.0.0.1:9000/data"
    assert task.output_dir == "hdfs://10.0.0.1:9000/train/output"
    assert task.checkpoint_dir == "hdfs://10.0.0.1:9000/train/output/_checkpoint"
    assert task.work_dir == "/root/work"
    with pytest.raises(ContainerError, match=r"^job train has no codeDir; set codeDir in the job$"):
        _ = task.code_dir


def test_v2_jobs_have_no_folders_of_their_own():
    task = Task(v2(ALONE, "main", 0))
    with pytest.raises(
        ContainerError,
        match=r"^job train has no outputDir; set outputDir in the job, "
        r"or export PAI_OUTPUT_DIR in its commands$",
    ):
        _ = task.checkpoint_dir


def test_the_checkpoint_folder_that_was_exported_counts():
    task = Task(v2(ALONE, "main", 0, LUIGI_PAI_CHECKPOINT_DIR="/mnt/nfs1/checkpoints"))
    assert task.checkpoint_dir == "/mnt/nfs1/checkpoints"


# ---------------------------------------------------------------- outside a container


def test_outside_a_container_it_is_a_job_of_one_task(monkeypatch, tmp_path):
    """A script that uses it runs by hand; any port is there."""
    monkeypatch.chdir(tmp_path)
    task = current()
    assert (task.api, task.role, task.index, task.rank, task.world_size) == (None, "main", 0, 0, 1)
    assert task.own.port("tf") == task.own.port("tf") > 1023
    assert {task.data_dir, task.code_dir, task.output_dir, task.work_dir} == {str(tmp_path)}
    assert task.checkpoint_dir == f"{tmp_path}/_checkpoint"


def test_outside_a_container_left_over_variables_do_no_harm(monkeypatch):
    monkeypatch.setenv("PAI_TASK_INDEX", "3")
    monkeypatch.setenv("PAI_OUTPUT_DIR", "/results")
    assert (current().index, current().output_dir) == (0, "/results")


# ---------------------------------------------------------------- old Pythons


def test_it_is_written_for_python_3_6():
    """By its grammar."""
    ast.parse(FILE.read_text("utf-8"), feature_version=(3, OLDEST_MINOR))


@pytest.mark.parametrize(
    "environ",
    [v1(TWO_ROLES, "ps", 0), v2(TWO_ROLES, "worker", 1), v2(MANY, "worker", 99), v1(MANY, "worker", 7), {}],
    ids=["v1", "v2", "v2-100", "v1-100", "outside"],
)
def test_the_oldest_python_sees_the_same(environ):
    """On its own, without luigi_pai."""
    assert facts(environ, oldest_python()) == facts(environ)


@pytest.mark.slow
def test_importing_it_takes_less_than_30_milliseconds():
    """Of the processor's time, at best of five: the rest is the load of this machine."""
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); begin = time.process_time(); import runtime; "
        "print(time.process_time() - begin)"
    )
    runs = [
        subprocess.run(
            [oldest_python(), "-c", code, str(FILE.parent)],
            env={},
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(5)
    ]
    assert min(float(run.stdout) for run in runs) < 0.030


def test_no_two_variables_have_one_name():
    """Of one API: what each says is one thing."""
    for api in ("v1", "v2"):
        names = [name for row in runtime.VARIABLES.values() for name in getattr(row, api)]
        assert len(names) == len(set(names))
