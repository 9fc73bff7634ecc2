"""The storages that a user's groups name, on the v2 API: shown, and mounted by jobs."""

from __future__ import annotations

import pytest
from protocol_client import ProtocolClient, protocol

from luigi_pai.local import LocalPai

ALL = ["datasets", "mnist", "nfs1"]


@pytest.fixture(scope="module")
def admin(tmp_path_factory):
    """The administrator of a server with three storages."""
    with LocalPai(tmp_path_factory.mktemp("storages"), api="v2") as server:
        for name in ALL:
            (server.data / "storages" / name).mkdir(exist_ok=True)
        yield ProtocolClient(server)


@pytest.fixture(scope="module")
def zoe(admin):
    user = {"username": "zoe", "password": "zoes-password", "email": ""}
    assert admin.send("POST", "/users", user).status_code == 201
    return ProtocolClient(admin.server, "zoe", "zoes-password")


@pytest.fixture
def grant(admin, zoe):
    """Have the groups of everybody, and of zoe, name storages; afterwards they are as they were."""

    def put(default, own=()):
        admin.send("POST", "/groups", {"groupname": "own"})
        for name, storages in (("default", default), ("own", own)):
            acls = {"virtualClusters": ["default"], "storageConfigs": storages}
            body = {"patch": True, "data": {"groupname": name, "extension": {"acls": acls}}}
            assert admin.send("PUT", "/groups", body).status_code == 201
        assert (
            admin.send("PUT", f"/users/{zoe.username}/grouplist", {"grouplist": ["own"]}).status_code == 201
        )

    yield put
    for name in ("default", "own"):
        admin.send("DELETE", f"/groups/{name}")


def shown(user, **query):
    reply = user.send("GET", "/storages", **query)
    assert reply.status_code == 200, reply.text
    return {item["name"]: item["default"] for item in reply.json()["storages"]}


def mounted(user, storages):
    """Return which storages a job mounts."""
    job = user.run("ls mnt", extras={"storages": storages})
    return user.log(job).split()


@pytest.mark.slow
def test_everybody_has_every_storage_until_a_group_says_otherwise(zoe):
    """The first one is the default: what a job mounts that names none."""
    assert shown(zoe) == {"datasets": False, "mnist": False, "nfs1": True}
    assert shown(zoe, default="true") == {"nfs1": True}
    assert mounted(zoe, []) == ["nfs1"]
    assert mounted(zoe, [{"name": "mnist"}]) == ["mnist"]


@pytest.mark.slow
def test_a_user_has_the_storages_of_their_groups(zoe, admin, grant):
    """The default ones are the first of each group; what is not there is not shown."""
    grant(["mnist", "nfs1"], ["datasets", "elsewhere"])
    assert zoe.send("GET", "/users/zoe").json()["storageConfig"] == ["mnist", "nfs1", "datasets", "elsewhere"]
    assert shown(zoe) == {"datasets": True, "mnist": True, "nfs1": False}
    assert shown(zoe, default="true") == {"datasets": True, "mnist": True}
    assert mounted(zoe, []) == ["datasets", "mnist"]
    grant(["mnist"])
    assert shown(zoe) == {"mnist": True}
    assert shown(admin) == {"datasets": False, "mnist": True, "nfs1": True}  # by admingroup


@pytest.mark.slow
def test_a_storage_of_no_group_of_theirs_is_kept_from_a_user(zoe, grant):
    """Alone it is 403; a job that names it, and the older routes, do not find it."""
    grant(["mnist"])
    reply = zoe.send("GET", "/storages/nfs1")
    assert (reply.status_code, reply.json()) == (
        403,
        {"code": "ForbiddenUserError", "message": "User zoe is not allowed to access nfs1."},
    )
    assert zoe.send("GET", "/storages/mnist").status_code == 200
    assert zoe.send("GET", "/storages/nosuch").status_code == 404
    reply = zoe.post(protocol("true", extras={"storages": [{"name": "nfs1"}]}))
    assert (reply.status_code, reply.json()["message"]) == (404, "Storage nfs1 is not found.")
    assert [item["name"] for item in zoe.send("GET", "/storage/config").json()] == ["mnist"]
    assert [item["spn"] for item in zoe.send("GET", "/storage/server").json()] == ["mnist-pv"]
    assert zoe.send("GET", "/storage/config/nfs1").status_code == 500


@pytest.mark.slow
@pytest.mark.parametrize("nothing", [None, 0, "", False, []])
def test_no_storages_are_none(zoe, grant, nothing):
    """Whatever JavaScript takes for nothing."""
    grant(nothing)
    assert shown(zoe) == {}
    assert mounted(zoe, []) == []
    assert zoe.send("GET", "/users/zoe").json()["storageConfig"] == []


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["nfs1", 5, True, {}, {"nfs1": True}])
def test_storages_that_are_no_list_are_taken_and_failed_over(zoe, grant, wrong):
    """The schema of a group's access lists looks at its virtual clusters and its admin only."""
    grant(wrong)
    sentence = "groupItem.extension.acls.storageConfigs.forEach is not a function"
    for path in ("/storages", "/storages/nfs1", "/storage/config", "/storage/server"):
        reply = zoe.send("GET", path)
        assert (reply.status_code, reply.json()) == (500, {"message": sentence}), path
    for path in ("/users", "/users/zoe"):
        reply = zoe.send("GET", path)
        assert (reply.status_code, reply.json()) == (500, {"code": "UnknownError", "message": sentence}), path
    assert zoe.post(protocol("true", extras={"storages": [{"name": "nfs1"}]})).json() == {"message": sentence}
    assert zoe.run("true")["jobStatus"]["state"] == "SUCCEEDED"
    assert shown(zoe, default="true") == {}


def test_the_items_of_a_list_of_storages_are_not_checked(zoe, grant):
    """It is shown as it is."""
    grant([{"name": "nfs1"}, ["nfs1"], None, "nfs1", "nfs1"])
    assert zoe.send("GET", "/users/zoe").json()["storageConfig"] == [{"name": "nfs1"}, ["nfs1"], None, "nfs1"]
    assert shown(zoe) == {"nfs1": False}
