"""Jobs wait for what they need: virtual clusters, gangs, GPUs, ports; on 0.7.1 and 1.8, on real servers."""

from __future__ import annotations

import pytest
import requests
from local_client import LocalClient, role
from ports import own_port
from protocol_client import ProtocolClient, protocol, task_role
from waiting import wait_until

from luigi_pai.local import LocalPai

pytestmark = pytest.mark.slow

WAIT = "until [ -e {} ]; do sleep 0.02; done"
SMALL = ("default:cpu=4,memory=1000,gpu=4", "gpu-cluster:cpu=1,memory=1000,gpu=2")
SHOW_GPUS = "echo $CUDA_VISIBLE_DEVICES/$NVIDIA_VISIBLE_DEVICES"


@pytest.fixture(scope="module")
def small_v1():
    """A 0.7.1 with 4 CPUs and 4 GPUs, and a virtual cluster of 1 CPU and 2 GPUs."""
    with LocalPai(api="v1", port=own_port(), virtual_clusters=SMALL) as server:
        yield server


@pytest.fixture(scope="module")
def small_v2():
    """Such a 1.8."""
    with LocalPai(port=own_port(), virtual_clusters=SMALL) as server:
        yield server


@pytest.fixture
def v1(small_v1):
    """The administrator of the 0.7.1, which has no jobs."""
    yield LocalClient(small_v1)
    small_v1.empty()


@pytest.fixture
def v2(small_v2):
    """The administrator of the 1.8, which has no jobs."""
    yield ProtocolClient(small_v2)
    small_v2.empty()


def main(command, *, instances=1, **wanted):
    """Return the protocol of a job of one role."""
    return protocol(
        roles={"main": task_role(command, instances=instances, resourcePerInstance=needs(**wanted))}
    )


def needs(cpu=1, gpu=0, memory=100):
    return {"cpu": cpu, "memoryMB": memory, "gpu": gpu}


def events(v2, name, reason):
    listed = v2.send("GET", f"/jobs/{name}/events").json()["data"]
    return [event["message"] for event in listed if event["reason"] == reason]


def used(client):
    return client.send("GET", "/virtual-clusters/default").json()["resourcesUsed"]


# gangs and their order


def test_a_v2_job_that_never_fits_waits_and_says_why(v2):
    """As on 1.8 with the scheduler of Kubernetes; hived would have refused it."""
    name = v2.submit(protocol(roles={"main": task_role("true", resourcePerInstance=needs(cpu=3, gpu=5))}))
    other = v2.run("true", defaults={"virtualCluster": "gpu-cluster"})["jobStatus"]
    assert (other["state"], other["virtualCluster"]) == ("SUCCEEDED", "gpu-cluster")
    assert v2.job(name)["jobStatus"]["state"] == "WAITING"
    never = (
        "virtual cluster default has 4 GPUs in all, the job wants 5 GPUs: it can never run. Stop it, and "
        "ask for less or start the local server with --virtual-cluster default:gpu=5"
    )
    assert events(v2, name, "FailedScheduling") == [never]
    v2.stop(name)
    assert v2.wait(name)["jobStatus"]["appExitCode"] == -210


def test_the_page_and_the_v1_api_say_why_a_job_waits(v1, tmp_path):
    """For want of room, behind others, or in vain."""
    first = v1.submit(role(WAIT.format(tmp_path / "go"), cpuNumber=3))
    v1.wait(first, "RUNNING")
    names = [v1.submit(role("true", cpuNumber=number)) for number in (2, 1, 9)]
    page = f"{v1.server.url}/job-detail.html"
    pages = [requests.get(page, params={"jobName": name}, timeout=20).text for name in names]
    never = "virtual cluster default has 4 CPUs in all, the job wants 9 CPUs: it can never run."
    reasons = ("has 1 of 4 CPUs free, the job wants 2 CPUs", "1 job is before it in virtual cluster", never)
    for name, page, reason in zip(names, pages, reasons, strict=True):
        assert reason in page
        assert reason in v1.job(name)["jobStatus"]["appExitDiagnostics"]
    (tmp_path / "go").touch()
    v1.wait(names[1])


# without gang allocation


def test_without_gang_allocation_each_task_begins_when_it_fits(v2, tmp_path):
    """Some run, the others wait; the job runs."""
    command = f"{SHOW_GPUS}; {WAIT.format(tmp_path / 'go')}"
    main = task_role(command, instances=5, resourcePerInstance=needs(gpu=1))
    name = v2.submit(protocol(roles={"main": main}, extras={"gangAllocation": False}))
    wait_until(lambda: v2.wait(name, "RUNNING") and used(v2)["cpu"] == 4)
    states = [task["taskState"] for task in v2.job(name)["taskRoles"]["main"]["taskStatuses"]]
    assert states == ["RUNNING"] * 4 + ["WAITING"]
    assert events(v2, name, "FailedScheduling") == [
        "virtual cluster default has 0 of 4 CPUs and 0 of 4 GPUs free, the job wants 1 CPU and 1 GPU"
    ]
    (tmp_path / "go").touch()
    job = v2.wait(name)
    assert (job["jobStatus"]["state"], job["jobStatus"]["retries"]) == ("SUCCEEDED", 0)
    seen = [v2.log(job, index=index) for index in range(5)]
    assert seen[:4] == ["0/0\n", "1/1\n", "2/2\n", "3/3\n"]
    assert seen[4] in seen[:4]


def test_tasks_that_waited_when_the_server_was_killed_begin_later(v2, tmp_path):
    """The next server knows which of them ran."""
    runs = tmp_path / "runs"
    command = f"echo $PAI_TASK_INDEX >> {runs}; {WAIT.format(tmp_path / 'go')}"
    roles = {"main": task_role(command, instances=6)}
    name = v2.submit(protocol(roles=roles, extras={"gangAllocation": False}))
    wait_until(lambda: runs.exists() and len(runs.read_text().split()) == 4)
    v2.server.kill()
    v2.server.restart()
    assert used(v2)["cpu"] == 4
    (tmp_path / "go").touch()
    assert v2.end(name) == ("SUCCEEDED", 0, 0)
    assert sorted(runs.read_text().split()) == ["0", "1", "2", "3", "4", "5"]


# GPUs


def test_a_v1_task_says_which_gpus_it_has(v1, tmp_path):
    """As a bit map."""
    hold = f"{SHOW_GPUS}; {WAIT.format(tmp_path / 'go')}"
    first = v1.submit(role(hold, taskNumber=2, gpuNumber=1))
    v1.wait(first, "RUNNING")
    (tmp_path / "go").touch()
    job = v1.wait(first)
    assert [v1.log(job, index=index) for index in (0, 1)] == ["0/0\n", "1/1\n"]
    assert [task["containerGpus"] for task in job["taskRoles"]["main"]["taskStatuses"]] == [0b1, 0b10]


def test_what_still_runs_after_a_restart_keeps_what_it_has(v2, tmp_path):
    """The next job gets other GPUs; one that does not fit beside it waits."""
    first = v2.submit(main(f"touch {tmp_path}/began; {WAIT.format(tmp_path / 'go')}", gpu=3, cpu=2))
    wait_until((tmp_path / "began").exists)  # a job that runs may have tasks that are just being started
    v2.server.kill()
    v2.server.restart()
    assert {key: used(v2)[key] for key in ("cpu", "memory", "gpu")} == {"cpu": 2, "memory": 100, "gpu": 3}
    assert v2.log(v2.wait(v2.submit(main(SHOW_GPUS, gpu=1)))) == "3/3\n"
    large = v2.submit(main(SHOW_GPUS, gpu=2))
    assert v2.status(large)["state"] == "WAITING"
    (tmp_path / "go").touch()
    assert v2.log(v2.wait(large)) == "0,1/0,1\n"
    assert v2.status(first)["state"] == "SUCCEEDED"


# what the virtual clusters show


def test_1_8_shows_what_there_is_and_what_is_in_use(v2, tmp_path):
    before = v2.send("GET", "/virtual-clusters").json()
    assert list(before) == ["default", "gpu-cluster"]
    assert before["gpu-cluster"] == {
        "capacity": pytest.approx(100 * 2 / 6),
        "usedCapacity": 0,
        "dedicated": False,
        "resourcesUsed": {"cpu": 0, "memory": 0, "gpu": 0, "vCores": 0, "GPUs": 0},
        "resourcesGuaranteed": {"cpu": 1, "memory": 1000, "gpu": 2, "vCores": 1, "GPUs": 2},
        "resourcesTotal": {"cpu": 1, "memory": 1000, "gpu": 2, "vCores": 1, "GPUs": 2},
        "maxCapacity": pytest.approx(100 * 2 / 6),
    }
    name = v2.submit(main(WAIT.format(tmp_path / "go"), instances=2, gpu=1, memory=250))
    v2.wait(name, "RUNNING")
    expected = {"cpu": 2, "memory": 500, "gpu": 2, "vCores": 2, "GPUs": 2}
    shown = v2.send("GET", "/virtual-clusters/default").json()
    assert (shown["resourcesUsed"], shown["usedCapacity"]) == (expected, pytest.approx(100 * 2 / 6))
    (tmp_path / "go").touch()
    v2.wait(name)
    assert used(v2) == {"cpu": 0, "memory": 0, "gpu": 0, "vCores": 0, "GPUs": 0}


def test_0_7_1_shows_what_there_is_and_what_is_in_use(v1, tmp_path):
    name = v1.submit(role(WAIT.format(tmp_path / "go"), taskNumber=2, gpuNumber=1, memoryMB=250))
    waiting = v1.submit(role("true", cpuNumber=3))
    assert v1.run("true", virtualCluster="gpu-cluster")["jobStatus"]["virtualCluster"] == "gpu-cluster"
    v1.wait(name, "RUNNING")
    assert v1.call("GET", "/virtual-clusters/default").json() == {
        "capacity": 50,
        "maxCapacity": 50,
        "usedCapacity": 25,
        "numActiveJobs": 1,
        "numJobs": 2,
        "numPendingJobs": 1,
        "resourcesUsed": {"memory": 500, "vCores": 2, "GPUs": 2},
    }
    (tmp_path / "go").touch()
    for job in (name, waiting):
        v1.wait(job)


# ports

SEND = """python -c '
import os, socket
with socket.create_server(("127.0.0.1", int(os.environ["PAI_CONTAINER_HOST_PORT"]))) as server:
    for _ in range(2):
        connection, _ = server.accept()
        with connection:
            connection.sendall(os.environ["PAI_TASK_INDEX"].encode() * 3_000_000)
'"""
RECEIVE = """python -c '
import os, socket, time
for address in os.environ["PAI_TASK_ROLE_server_HOST_LIST"].split(","):
    host, _, port = address.partition(":")
    for _ in range(400):
        try:
            connection = socket.create_connection((host, int(port)))
            break
        except OSError:
            time.sleep(0.05)
    with connection, connection.makefile("rb") as file:
        got = file.read()
    print(got[:1].decode(), len(got), len(set(got)))
'"""


@pytest.mark.parametrize("api", ["v1", "v2"])
def test_workers_read_from_their_servers(api, request):
    """Two servers, two workers, by host list and port: real bytes; the servers do not end the job."""
    user = request.getfixturevalue(api)
    if api == "v1":
        job = user.run(role(SEND, name="server", taskNumber=2), role(RECEIVE, name="worker", taskNumber=2))
    else:
        server = task_role(SEND, instances=2, completion={"minSucceededInstances": -1})
        job = user.run(roles={"server": server, "worker": task_role(RECEIVE, instances=2)})
    assert job["jobStatus"]["state"] == "SUCCEEDED", job["jobStatus"]["appExitDiagnostics"]
    assert [user.log(job, "worker", index) for index in (0, 1)] == ["0 3000000 1\n1 3000000 1\n"] * 2
