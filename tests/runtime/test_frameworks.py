"""What frameworks are started with: torch's variables, TF_CONFIG, an MPI host list."""

from __future__ import annotations

import json
import os
from functools import partial

import pytest
from container_environments import Role, v1, v2

from luigi_pai.runtime import ContainerError, barrier, export_torch, mpi_hosts, tf_config

ROLES = [
    Role(
        "worker",
        ["10.0.0.2", "10.0.0.3"],
        [{"http": [1001], "ssh": [1002], "tf": [1003]}, {"http": [1011], "ssh": [1012], "tf": [1013]}],
        gpus=4,
    ),
    Role("ps", ["10.0.0.4"], [{"http": [1021], "ssh": [1022], "tf": [1023]}]),
]


@pytest.fixture
def inside(monkeypatch):
    """Be in a container; what is exported there is gone after the test."""

    def enter(environ):
        for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
            monkeypatch.setenv(name, "stale")
        for name, value in environ.items():
            monkeypatch.setenv(name, value)

    return enter


@pytest.mark.parametrize("environment", [v1, v2])
def test_torch_meets_at_the_first_task_of_all(inside, environment):
    inside(environment(ROLES, "ps", 0))
    exported = export_torch()
    assert exported == {"MASTER_ADDR": "10.0.0.2", "MASTER_PORT": "1001", "RANK": "2", "WORLD_SIZE": "3"}
    assert {name: os.environ[name] for name in exported} == exported


def test_torch_with_one_role_and_a_port_of_its_own(inside):
    inside(v2(ROLES, "worker", 1))
    assert export_torch(port="tf", roles=["worker"]) == {
        "MASTER_ADDR": "10.0.0.2",
        "MASTER_PORT": "1003",
        "RANK": "1",
        "WORLD_SIZE": "2",
    }


def test_a_task_that_takes_no_part_says_so(inside):
    inside(v2(ROLES, "ps", 0))
    with pytest.raises(
        ContainerError, match=r"^ps\[0\] is none of the tasks that take part: worker\[0\], worker"
    ):
        export_torch(roles=["worker"])
    assert os.environ["RANK"] == "stale"


@pytest.mark.parametrize("ask", [export_torch, tf_config, mpi_hosts, partial(barrier, "start")])
def test_a_text_is_not_a_list_of_roles(inside, ask):
    inside(v2(ROLES, "worker", 0))
    with pytest.raises(TypeError, match=r"^roles = 'worker' is a text; give a list: roles=\['worker'\]$"):
        ask(roles="worker")


def test_torch_on_v1_has_no_port_but_http(inside):
    inside(v1(ROLES, "worker", 1))
    with pytest.raises(ContainerError, match=r"port 'tf' of worker\[0\] is not known here"):
        export_torch(port="tf")


def test_torch_by_hand(inside):
    """A script that runs on a laptop trains in one process."""
    inside({})
    exported = export_torch()
    assert (exported["MASTER_ADDR"], exported["RANK"], exported["WORLD_SIZE"]) == ("127.0.0.1", "0", "1")
    assert 1023 < int(exported["MASTER_PORT"]) < 65536


@pytest.mark.parametrize("environment", [v1, v2])
def test_tf_config_names_every_role(inside, environment):
    inside(environment(ROLES, "worker", 1))
    assert json.loads(tf_config()) == {
        "cluster": {"worker": ["10.0.0.2:1001", "10.0.0.3:1011"], "ps": ["10.0.0.4:1021"]},
        "task": {"type": "worker", "index": 1},
    }


def test_tf_config_at_the_ports_of_a_label_and_with_some_roles(inside):
    inside(v2(ROLES, "worker", 0))
    assert json.loads(tf_config("tf", ["worker"]))["cluster"] == {
        "worker": ["10.0.0.2:1003", "10.0.0.3:1013"]
    }


def test_mpi_hosts_have_a_slot_for_each_gpu(inside):
    inside(v2(ROLES, "worker", 0))
    assert mpi_hosts() == "10.0.0.2:4,10.0.0.3:4,10.0.0.4:1"
    assert mpi_hosts(2, ["worker"]) == "10.0.0.2:2,10.0.0.3:2"


def test_v1_does_not_say_how_many_gpus_other_roles_have(inside):
    inside(v1(ROLES, "worker", 0))
    assert mpi_hosts(roles=["worker"]) == "10.0.0.2:4,10.0.0.3:4"
    with pytest.raises(
        ContainerError, match=r"^OpenPAI v1 does not say how many GPUs ps\[0\] has: give mpi_"
    ):
        mpi_hosts()
    assert mpi_hosts(slots=1) == "10.0.0.2:1,10.0.0.3:1,10.0.0.4:1"


def test_mpi_hosts_need_addresses(inside):
    inside(v2(ROLES, "worker", 0, placed=[("worker", 0)]))
    with pytest.raises(ContainerError, match=r"^worker\[1\] has no address yet"):
        mpi_hosts(1)
