"""current() in containers of the local OpenPAI, against what its REST API says of the same job."""

from __future__ import annotations

import json

import pytest
from job_cases import cases
from local_client import LocalClient, unique
from protocol_client import ProtocolClient

from luigi_pai import PaiTask, Port, TaskRole
from luigi_pai.runtime import Task

pytestmark = pytest.mark.slow

SHOW = "python -c 'import json, os; print(json.dumps(dict(os.environ)))'"
NEVER = {"minFailedTaskCount": None, "minSucceededTaskCount": None}
PROTOCOL = cases("runtime")["protocol"]


class TwoRoles(PaiTask):
    image = "python"
    name = "shared"

    @property
    def tasks(self):
        ports = [Port("tf", 0, 2), Port("my_label")]
        return [
            TaskRole("Worker_1", SHOW, 2, cpuNumber=2, memoryMB=300, portList=ports, **NEVER),
            TaskRole("ps", SHOW, 1, cpuNumber=3, memoryMB=200, **NEVER),
        ]


def check(tasks, statuses, others_ports):
    """Compare what each task sees with what the API shows: (role, index) -> (host, ports by label)."""
    order = list(tasks)
    for rank, (role, index) in enumerate(order):
        task = tasks[role, index]
        assert (task.rank, task.world_size, task.index) == (rank, len(order), index)
        assert [(peer.role, peer.index) for peer in task.peers] == order
        assert task.ports == statuses[role, index][1]
        for peer in task.peers:
            host, ports = statuses[peer.role, peer.index]
            assert (peer.host, peer.port()) == (host, ports["http"][0])
            if others_ports or peer is task.own:
                assert peer.ports == ports


def seen(client, job):
    """Return what each task of a job sees, and what the API shows of it, by role and index."""
    tasks, statuses = {}, {}
    for role, about in job["taskRoles"].items():
        for status in about["taskStatuses"]:
            place = role, status["taskIndex"]
            tasks[place] = Task(json.loads(client.log(job, *place)))
            ports = {
                label: [int(port) for port in str(text).split(",")]
                for label, text in status["containerPorts"].items()
            }
            statuses[place] = status["containerIp"], ports
    return tasks, statuses


def test_v1(cluster):
    task = TwoRoles()
    task.run()
    client = LocalClient(cluster)
    tasks, statuses = seen(client, client.job(task.name))
    check(tasks, statuses, others_ports=False)
    first = tasks["Worker_1", 0]
    assert (first.api, first.job, first.user, first.role) == ("v1", task.name, "admin", "Worker_1")
    assert (first.cpus, first.memory_mb, first.gpus, first.virtual_cluster) == (2, 300, 0, "default")
    assert first.output_dir == f"{cluster.fs_uri}/shared/output"


def test_v2(local_pai_v2):
    client = ProtocolClient(local_pai_v2)
    name = unique()
    client.submit(json.dumps({**PROTOCOL, "name": name}))
    tasks, statuses = seen(client, client.wait(f"admin~{name}"))
    check(tasks, statuses, others_ports=True)
    ps = tasks["ps", 0]
    assert (ps.api, ps.job, ps.user, ps.role) == ("v2", name, "admin", "ps")
    assert (ps.cpus, ps.memory_mb, ps.shm_mb, ps.gpus) == (2, 300, None, 0)


def test_a_v1_job_on_a_v2_cluster(local_pai_v2, as_settings):
    """Converted: its roles and folders have the names of the task's own job."""
    as_settings(local_pai_v2)
    task = TwoRoles()
    task.run()
    client = ProtocolClient(local_pai_v2)
    job = client.job(f"admin~{task.name}")
    worker = Task(json.loads(client.log(job, "worker1", 1)))
    assert (worker.api, worker.job, worker.role, worker.rank) == ("v2", task.name, "Worker_1", 1)
    assert worker.roles["Worker_1"][0].ports.keys() == {"http", "ssh", "tf", "my_label"}
    assert worker.output_dir == f"{local_pai_v2.fs_uri}/shared/output"
    assert (worker.cpus, worker.memory_mb, worker.shm_mb) == (2, 300, 64)
