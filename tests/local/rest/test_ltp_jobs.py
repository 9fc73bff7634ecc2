"""Jobs on a local LTP 1.5: who finds them, and what is there otherwise than on 1.8."""

from __future__ import annotations

import pytest
from local_client import unique
from protocol_client import ProtocolClient, protocol

from luigi_pai.local import LocalPai


@pytest.fixture(scope="module")
def night(with_bob):
    """The users of an LTP with a second virtual cluster."""
    with LocalPai(api="ltp", virtual_clusters=["night"]) as server:
        yield with_bob(ProtocolClient(server))


def names(user, **query):
    reply = user.send("GET", "/jobs", **query)
    assert reply.status_code == 200, reply.text
    return {row["name"] for row in reply.json()}


def test_a_list_has_ones_own_virtual_clusters_only(night):
    """Whatever ``vc`` asks for; there, jobs of others, too."""
    admin, bob = night.admin, night.bob
    at_night = admin.submit(protocol("true", defaults={"virtualCluster": "night"})).partition("~")[2]
    by_day = night.job.partition("~")[2]
    assert {at_night, by_day} <= names(admin)
    assert names(bob) == {by_day}
    assert names(bob, vc="night") == set()
    assert bob.send("GET", "/jobs", vc="night", withTotalCount="true").json() == {"totalCount": 0, "data": []}
    assert set(bob.send("GET", "/virtual-clusters").json()) == {"default"}
    assert set(admin.send("GET", "/virtual-clusters").json()) == {"default", "night"}


@pytest.mark.slow
def test_a_job_has_a_type_which_is_its_first_tag(ltp_users):
    """Lists filter by it, and by it or a tag."""
    admin, types = ltp_users.admin, {kind: unique() for kind in ("training", "others")}
    admin.submit(protocol("true", name=types["training"], jobType="training"))
    admin.submit(protocol("true", name=types["others"]))
    for kind, name in types.items():
        assert admin.job(f"admin~{name}")["tags"] == [kind]
        assert name in names(admin, jobType=kind)
    assert types["others"] not in names(admin, jobType="training")
    assert set(types.values()) <= names(admin, jobType="training", tagsContain="others")


def test_a_token_says_what_its_user_administers(ltp_users, v2_users):
    """That of 1.8 does not."""
    assert ltp_users.admin.send("GET", "/tokens/check").json()["vcadmins"] == []
    assert "vcadmins" not in v2_users.admin.send("GET", "/tokens/check").json()


@pytest.mark.slow
def test_a_plugin_that_the_cluster_serves_runs_nothing(ltp_users):
    """dind: a Docker of the task's own."""
    extras = {"com.microsoft.pai.runtimeplugin": [{"plugin": "dind"}]}
    assert ltp_users.admin.run("true", extras=extras)["jobStatus"]["state"] == "SUCCEEDED"
