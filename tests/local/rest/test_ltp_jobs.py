"""Jobs on a local LTP 1.5: who finds and sees them, and what the server says where there is none."""

from __future__ import annotations

import pytest
from local_client import unique
from protocol_client import ProtocolClient, protocol

from luigi_pai.local import LocalPai

TASK = "attempts/0/taskRoles/main/taskIndex/0/attempts"


@pytest.fixture(scope="module")
def server():
    """An LTP with a second virtual cluster."""
    with LocalPai(api="ltp", virtual_clusters=["night"]) as server:
        yield server


@pytest.fixture(scope="module")
def admin(server):
    return ProtocolClient(server)


@pytest.fixture(scope="module")
def bob(server, admin):
    """A plain user."""
    reply = admin.send("POST", "/users", {"username": "bob", "password": "bobs-password"})
    assert reply.status_code == 201, reply.text
    return ProtocolClient(server, "bob", "bobs-password")


@pytest.fixture(scope="module")
def done(admin):
    """A job that has ended."""
    name = admin.submit(protocol("true"))
    admin.wait(name)
    return name


def said(reply):
    body = reply.json()
    return reply.status_code, body.get("code"), body["message"]


# ---------------------------------------------------------------- what is not there


@pytest.mark.parametrize("path", ["", "/config", "/events", "/attempts/0", f"/{TASK}/0/logs"])
def test_a_missing_job_is_a_failure(admin, path):
    """With one sentence for all of them, whatever the reason."""
    sentence = "Failed to retrieve job admin~nosuch."
    assert said(admin.send("GET", f"/jobs/admin~nosuch{path}")) == (500, "UnknownError", sentence)


def test_a_missing_attempt_is_a_failure_of_its_job(admin, done):
    """But for logs, which are looked for after the job."""
    assert said(admin.send("GET", f"/jobs/{done}/attempts/9")) == (
        500,
        "UnknownError",
        f"Failed to retrieve job {done}.",
    )
    logs = admin.send("GET", f"/jobs/{done}/{TASK.replace('0', '9', 1)}/0/logs")
    assert said(logs) == (500, "UnknownError", "Failed to get log list")


def test_one_route_tells_a_missing_job(admin, bob, done):
    """Anyone may ask it; a task or attempt that is not there has a sentence of its own."""
    found = "jobs/{}/attempts/{}/taskRoles/{}/taskIndex/{}/attempts"
    for path, sentence in (
        (("admin~nosuch", 0, "main", 0), "Job admin~nosuch is not found."),
        ((done, 9, "main", 0), f"Job attempt not found in job {done} with jobAttemptIndex 9"),
        (
            (done, 0, "other", 3),
            f"Task not found in Job {done} with jobAttemptIndex 0, taskRoleName other and taskIndex 3.",
        ),
    ):
        assert said(bob.send("GET", "/" + found.format(*path))) == (404, "NoJobError", sentence)
    assert bob.send("GET", f"/jobs/{done}/{TASK}").status_code == 200
    assert said(admin.send("PUT", "/jobs/admin~nosuch/executionType", {"value": "STOP"}))[:2] == (
        404,
        "NoJobError",
    )


# ---------------------------------------------------------------- who may see a job


def test_jobs_of_others_are_not_shown(bob, done):
    """Not their config, events or logs either; their owner and administrators see them."""
    for path in ("", "/config", "/events", "/attempts/0", f"/{TASK}/0/logs"):
        assert said(bob.send("GET", f"/jobs/{done}{path}")) == (
            403,
            "ForbiddenUserError",
            f"User bob is not allowed to access job {done}.",
        )


def test_only_an_owner_and_administrators_stop_a_job(bob, done):
    status, code, _ = said(bob.send("PUT", f"/jobs/{done}/executionType", {"value": "STOP"}))
    assert (status, code) == (403, "ForbiddenUserError")


def test_a_token_says_what_its_user_administers(admin):
    assert admin.send("GET", "/tokens/check").json()["vcadmins"] == []


# ---------------------------------------------------------------- lists


def names(reply):
    assert reply.status_code == 200, reply.text
    return {row["name"] for row in reply.json()}


def test_a_list_has_ones_own_virtual_clusters_only(admin, bob, done):
    """Whatever ``vc`` asks for; there, jobs of others, too."""
    at_night = admin.submit(protocol("true", defaults={"virtualCluster": "night"})).partition("~")[2]
    by_day = done.partition("~")[2]
    assert {at_night, by_day} <= names(admin.send("GET", "/jobs"))
    assert at_night not in names(bob.send("GET", "/jobs"))
    assert by_day in names(bob.send("GET", "/jobs"))
    assert names(bob.send("GET", "/jobs", vc="night")) == set()
    assert bob.send("GET", "/jobs", vc="night", withTotalCount="true").json() == {"totalCount": 0, "data": []}
    assert set(bob.send("GET", "/virtual-clusters").json()) == {"default"}
    assert set(admin.send("GET", "/virtual-clusters").json()) == {"default", "night"}


@pytest.mark.slow
def test_a_job_has_a_type_which_is_its_first_tag(admin):
    """Lists filter by it, and by it or a tag."""
    types = {kind: unique() for kind in ("training", "others")}
    admin.submit(protocol("true", name=types["training"], jobType="training"))
    admin.submit(protocol("true", name=types["others"]))
    for kind, name in types.items():
        assert admin.job(f"admin~{name}")["tags"] == [kind]
        assert name in names(admin.send("GET", "/jobs", jobType=kind))
    assert types["others"] not in names(admin.send("GET", "/jobs", jobType="training"))
    assert set(types.values()) <= names(admin.send("GET", "/jobs", jobType="training", tagsContain="others"))


# ---------------------------------------------------------------- changes


# ---------------------------------------------------------------- what a task sees


@pytest.mark.slow
def test_a_plugin_that_the_cluster_serves_runs_nothing(admin):
    """dind: a Docker of the task's own."""
    extras = {"com.microsoft.pai.runtimeplugin": [{"plugin": "dind"}]}
    assert admin.run("true", extras=extras)["jobStatus"]["state"] == "SUCCEEDED"
