"""What the v2 API says of the cluster: virtual clusters, storages."""

from __future__ import annotations

import pytest
import requests
from protocol_client import protocol, task_role
from waiting import wait_until


def error(reply):
    body = reply.json()
    return reply.status_code, body["code"], body["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("PUT", "/vc1", {"vcCapacity": 50}, (400, "NotImplementedError", "updateVc not implemented in k8s")),
        ("DELETE", "/vc1", None, (400, "NotImplementedError", "removeVc not implemented in k8s")),
        (
            "PUT",
            "/vc1/status",
            {"vcStatus": "stopped"},
            (400, "NotImplementedError", "stopVc not implemented in k8s"),
        ),
        (
            "PUT",
            "/vc1/status",
            {"vcStatus": "running"},
            (400, "NotImplementedError", "activeVc not implemented in k8s"),
        ),
        (
            "PUT",
            "/vc1/status",
            {"vcStatus": "asleep"},
            (
                400,
                "InvalidParametersError",
                'child "vcStatus" fails because ["vcStatus" must be one of [stopped, running]]',
            ),
        ),
        (
            "PUT",
            "/vc1",
            {},
            (400, "InvalidParametersError", 'child "vcCapacity" fails because ["vcCapacity" is required]'),
        ),
        (
            "PUT",
            "/admingroup",
            {"vcCapacity": 50},
            (409, "ConflictVcError", "Group name admingroup already exists."),
        ),
        (
            "DELETE",
            "/admingroup",
            None,
            (403, "ForbiddenUserError", "The name 'admingroup' is occupied by admin group."),
        ),
        (
            "DELETE",
            "/default",
            None,
            (403, "ForbiddenUserError", "Update operation to default vc isn't allowed"),
        ),
        (
            "PUT",
            "/a-b",
            {"vcCapacity": 50},
            (
                400,
                "InvalidParametersError",
                "VC name should only contain alpha-numeric and underscore characters",
            ),
        ),
    ],
)
def test_virtual_clusters_cannot_be_changed_on_kubernetes(method, path, body, expected, v2):
    """1.8 says so in these words."""
    assert error(v2.send(method, f"/virtual-clusters{path}", body)) == expected


def test_the_nodes_say_which_gpus_are_free(v2):
    """One machine."""
    node = v2.send("GET", "/virtual-clusters?nodes").json()["localhost"]
    assert node["gpuUsed"] + node["gpuAvailable"] == node["gpuTotal"]


def test_the_older_routes_show_the_same_storages(v2, local_pai):
    """As clients of 0.17 ask for them."""
    config = v2.send("GET", "/storage/config/nfs1").json()
    assert config == {
        "name": "nfs1",
        "default": True,
        "servers": ["nfs1-pv"],
        "mountInfos": [{"mountPoint": "/mnt/nfs1", "path": "", "server": "nfs1-pv", "permission": "rw"}],
    }
    assert config in v2.send("GET", "/storage/config").json()
    assert v2.send("GET", "/storage/config?names=nfs1&names=other").json() == [config]
    server = v2.send("GET", "/storage/server/nfs1-pv").json()
    folder = str(local_pai.data / "storages/nfs1")
    assert server["data"] == {"address": "127.0.0.1", "rootPath": folder}
    assert server in v2.send("GET", "/storage/server").json()
    for kind in ("config", "server"):
        reply = v2.send("GET", f"/storage/{kind}/nosuch")
        assert error(reply) == (500, "UnknownError", f"{kind.title()} not found.")


@pytest.mark.slow
def test_an_administrator_sees_the_pods_of_running_tasks(v2, local_pai):
    """As the portal's page of services asks for them; a job that has ended has none."""
    name = v2.submit(protocol(roles={"w": task_role("sleep 60", instances=2)}))
    v2.wait(name, "RUNNING")

    def pods(**query):
        items = v2.send("GET", "/kubernetes/pods", **query).json()["items"]
        return [item for item in items if item["metadata"]["labels"]["jobName"] == name.partition("~")[2]]

    found = wait_until(lambda: len(pods()) == 2 and pods())
    assert [item["metadata"]["labels"]["FC_TASK_INDEX"] for item in found] == ["0", "1"]
    assert {item["spec"]["nodeName"] for item in found} == {"localhost"}
    assert {item["status"]["phase"] for item in found} == {"Running"}
    assert pods(namespace="pai-system") == []
    v2.stop(name)
    wait_until(lambda: pods() == [])
    reply = requests.get(f"{local_pai.url}/api/v2/kubernetes/pods", timeout=20)
    assert (reply.status_code, reply.json()["code"]) == (401, "UnauthorizedUserError")
