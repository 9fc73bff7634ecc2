"""What the v2 API says of the cluster and of users."""

from __future__ import annotations

import pytest
from mounting import ROOT
from protocol_client import ProtocolClient

from luigi_pai.local import LocalPai


@pytest.fixture(scope="module")
def admin(tmp_path_factory):
    """The administrator of a server with three storages."""
    with LocalPai(tmp_path_factory.mktemp("storages"), api="v2", virtual_clusters=["night"]) as server:
        for name in ("datasets", "mnist"):
            (server.data / "storages" / name).mkdir()
        yield ProtocolClient(server)


def shown(user, **query):
    reply = user.send("GET", "/storages", **query)
    assert reply.status_code == 200, reply.text
    return {item["name"]: item["default"] for item in reply.json()["storages"]}


@pytest.mark.slow
def test_a_job_that_names_no_storage_mounts_the_default_one(admin):
    """The one that a new data folder has, where it is there."""
    assert shown(admin) == {"datasets": False, "mnist": False, "nfs1": True}
    assert shown(admin, default="true") == {"nfs1": True}
    for extras, mounted in (
        ({"storages": []}, ["nfs1"]),
        ({"storages": [{"name": "mnist"}]}, ["mnist"]),
    ):
        at = f"{ROOT}/mnt"
        job = admin.run(f"for name in nfs1 mnist; do test ! -e {at}/$name || echo $name; done", extras=extras)
        assert admin.log(job).split() == mounted


def test_a_client_on_this_machine_finds_the_folder_of_a_storage(admin, tmp_path):
    """As NFS of this machine, at the path where the folder really is."""
    link = admin.server.data / "storages" / "linked"
    link.symlink_to(tmp_path)
    try:
        shown = admin.send("GET", "/storages/linked").json()
    finally:
        link.unlink()
    assert list(shown.items()) == [
        ("name", "linked"),
        ("share", True),
        ("volumeName", "linked-pv"),
        ("type", "nfs"),
        ("data", {"server": "127.0.0.1", "path": str(tmp_path)}),
        ("readOnly", False),
        ("mountOptions", ["nfsvers=4.1"]),
    ]
    gone = admin.send("GET", "/storages/linked")
    assert (gone.status_code, gone.json()["code"]) == (404, "NoStorageError")
    assert gone.json()["message"] == "Storage linked is not found."
