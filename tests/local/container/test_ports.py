"""Ports of this machine, reserved for tasks."""

from __future__ import annotations

import socket

import pytest
from local_client import LocalClient, role
from protocol_client import ProtocolClient, protocol, task_role
from waiting import wait_until

from luigi_pai.local import LocalPai
from luigi_pai.local.container.ports import Ports

WEB = [{"label": "web", "beginAt": 0, "portNumber": 2}]


def numbers(reserved):
    return [port for given in reserved for group in given.values() for port in group]


def test_every_task_has_ports_of_its_own():
    """Those asked for, one http and one ssh; all of them free."""
    reserved = Ports().reserve_all([{"taskNumber": 3, "portList": WEB}, {"taskNumber": 1, "portList": []}])
    assert [list(given) for given in reserved] == [["web", "http", "ssh"]] * 3 + [["http", "ssh"]]
    assert len(set(numbers(reserved))) == 3 * 4 + 2
    for port in numbers(reserved):
        with socket.socket() as free:
            free.bind(("", port))


def test_a_job_gets_all_of_its_ports_or_none():
    """What was reserved for its first tasks is released."""
    some = Ports(11_000)
    first = some.reserve_all([{"taskNumber": 240, "portList": WEB}])
    with pytest.raises(OSError, match="48 ports wanted, and 40 of this machine are left"):
        some.reserve_all([{"taskNumber": 12, "portList": WEB}])
    others = sorted(set(range(10_000, 11_000)) - set(numbers(first)))
    with socket.socket() as program:
        program.bind(("", others[0]))
        with pytest.raises(OSError, match="no free port found"):
            some.reserve_all([{"taskNumber": 10, "portList": WEB}])
    assert len(some) == len(numbers(first))
    for given in first:
        some.release(given)
    assert len(some) == 0


@pytest.mark.parametrize("count", [-3, 0])
def test_less_than_no_ports_are_none(count):
    """1.8 takes the number, and so did earlier files."""
    less = {"label": "web", "beginAt": 0, "portNumber": count}
    odd = [less, {"label": "x", "beginAt": -1, "portNumber": 2}]
    (given,) = Ports().reserve_all([{"taskNumber": 1, "portList": odd}])
    counts = {label: len(group) for label, group in given.items()}
    assert counts == {"web": 0, "x": 2, "http": 1, "ssh": 1}


def test_more_ports_than_there_are_are_refused_at_once():
    """Also where a negative number would make up for them, or the first lies beyond the last port."""
    many = {"label": "many", "beginAt": 70_000, "portNumber": 10**12}
    less = {"label": "less", "beginAt": 0, "portNumber": -(10**12)}
    some = Ports()
    with pytest.raises(OSError, match="1000000000002 ports wanted"):
        some.reserve_all([{"taskNumber": 1, "portList": [many, less]}])
    assert len(some) == 0


@pytest.fixture
def crowded(tmp_path, request):
    """A client of 0.7.1 or 1.8 whose jobs hold nearly every port there is, and what makes room."""
    with LocalPai(api=request.param) as server:
        client = LocalClient(server) if request.param == "v1" else ProtocolClient(server)
        left = Ports().left
        held = []
        while left > 4000:
            wait = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done"
            tasks = min(5, left // 1002)
            held.append(client.submit(_job(request.param, wait, tasks, 1000)))
            left -= tasks * 1002
        for name in held:
            client.wait(name, "RUNNING")
        yield client, (tmp_path / "go").touch


def _job(api, command, tasks, ports):
    """Return a role or a protocol, whose tasks want a number of ports each."""
    if api == "v1":
        return role(command, taskNumber=tasks, portList=[{"label": "web", "portNumber": ports}])
    resources = {"cpu": 1, "memoryMB": 100, "gpu": 0, "ports": {"web": ports}}
    return protocol(roles={"main": task_role(command, instances=tasks, resourcePerInstance=resources)})


@pytest.mark.slow
@pytest.mark.parametrize("crowded", ["v1"], indirect=True)
def test_a_v1_job_without_ports_waits_for_them(crowded):
    """As the launcher of 0.7 goes on asking; no attempt is made."""
    client, make_room = crowded
    name = client.submit(_job("v1", "true", 5, 900))
    assert client.run("true")["jobStatus"]["state"] == "SUCCEEDED"
    status = client.status(name)
    assert (status["state"], status["appId"]) == ("WAITING", None)
    make_room()
    assert client.end(name) == ("SUCCEEDED", 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("crowded", ["v2"], indirect=True)
def test_a_v2_job_without_ports_is_tried_again_with_253(crowded):
    """A fault of the platform, which is not counted."""
    v2, make_room = crowded
    name = v2.submit(_job("v2", "true", 5, 900))
    wait_until(lambda: v2.job(name)["jobStatus"]["retries"] >= 2)
    first = v2.send("GET", f"/jobs/{name}/attempts/0").json()
    codes = [task["containerExitCode"] for task in first["taskRoles"]["main"]["taskStatuses"]]
    assert codes == [253, -220, -220, -220, -220]
    assert first["jobStatus"]["appExitSpec"]["phrase"] == "ContainerPortConflict"
    make_room()
    status = v2.wait(name)["jobStatus"]
    assert (status["state"], status["retryDetails"]["user"]) == ("SUCCEEDED", 0)
