"""The v2 API beyond its recording: who may do what, lists, tokens, the API beside v1, and LTP."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from local_cases import cases
from local_client import LocalClient, unique
from protocol_client import IMAGE, ProtocolClient, protocol, task_role

from luigi_pai.local import LocalPai


@pytest.fixture(scope="module")
def zoe(v2_users):
    return v2_users.bob


@pytest.mark.parametrize("line", cases("everything_needs_a_token"))
def test_everything_needs_a_token(line, v2):
    """Before anything else is looked at."""
    reply = v2.call(*line.split())
    assert (reply.status_code, reply.json()["code"]) == (401, "UnauthorizedUserError")
    for header in ("Bearer x", "Basic eDp5", "Basic ?", "Digest x", "Bearer"):
        reply = v2.call(*line.split(), headers={"Authorization": header})
        assert (reply.status_code, reply.json()["message"]) == (401, "Your token is invalid.")


@pytest.mark.slow
def test_names_are_each_users_own(v2, zoe):
    """Two users may have a job of one name; everybody sees both."""
    text = protocol("true")
    mine, hers = v2.submit(text), zoe.submit(text)
    assert mine != hers
    assert zoe.wait(mine)["jobStatus"]["username"] == "admin"
    assert v2.wait(hers)["jobStatus"]["username"] == zoe.username
    assert v2.post(text).json()["message"] == f"Job {mine} already exists."


# lists


@pytest.fixture(scope="module")
def listed(v2, zoe):
    """Four jobs that have ended, submitted one after the other."""
    word = unique("list").replace("-", "_")
    done = []
    for client, suffix, more in (
        (v2, "b", {}),
        (v2, "a", {"roles": {"main": task_role("true", instances=3)}}),
        (zoe, "c", {"defaults": {"virtualCluster": "default"}}),
        (v2, "d", {"defaults": {"virtualCluster": "vc1"}}),
    ):
        command = "exit 1" if suffix == "d" else "true"
        done.append(client.submit(protocol(command, name=f"{word}_{suffix}", **more)))
        v2.wait(done[-1])
        time.sleep(0.002)
    assert v2.send("PUT", f"/jobs/{done[0]}/tag", {"value": "red"}).status_code == 200
    assert v2.send("PUT", f"/jobs/{done[1]}/tag", {"value": "blue"}).status_code == 200
    return word


@pytest.mark.parametrize(("query", "expected"), cases("lists_are_filtered_ordered_and_paged"))
def test_lists_are_filtered_ordered_and_paged(query, expected, listed, v2):
    """As the real server does it."""
    rows = v2.send("GET", "/jobs", keyword=listed, **query).json()
    assert [row["name"][-1] for row in rows] == list(expected)


# tokens


def test_an_application_token_speaks_for_its_user_until_it_is_revoked(zoe, v2):
    """As Bearer and as Basic; it cannot manage tokens, nor can another user revoke it."""
    token = zoe.send("POST", "/tokens/application").json()["token"]
    for auth in ({"headers": {"Authorization": f"Bearer {token}"}}, {"auth": (zoe.username, token)}):
        assert zoe.call("GET", "/tokens/check", **auth).json()["username"] == zoe.username
        assert zoe.call("POST", "/tokens/application", **auth).status_code == 403
    assert zoe.call("GET", "/jobs", auth=("admin", token)).status_code == 401
    assert zoe.call("GET", "/jobs", auth=(zoe.username, zoe.token)).status_code == 401
    assert v2.send("DELETE", f"/tokens/{token}").status_code == 403
    assert zoe.send("DELETE", f"/tokens/{token}").status_code == 200
    assert zoe.call("GET", "/jobs", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_a_token_is_not_written_into_the_log(v2, local_pai_v2):
    """Revoking one names it in the path; an application may not, and its token stays in force."""
    token = v2.send("POST", "/tokens/application").json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    for path in (f"/tokens/{token}", f"/TOKENS/{token.replace('.', '%2E')}"):
        assert v2.call("DELETE", path, headers=headers).status_code == 403
    log = (local_pai_v2.data / "server.log").read_text()
    assert token.rpartition(".")[2] not in log
    assert "/tokens/******" in log


def test_a_login_of_v1_is_good_for_v2(v2):
    """A client that begins with v1 and learns that it is v2 logs in once."""
    headers = {"Authorization": f"Bearer {LocalClient(v2.server).token}"}
    assert v2.call("GET", "/jobs?limit=1", headers=headers).status_code == 200


def test_a_name_is_taken_once_whatever_happens_at_once(v2):
    """One 202; on the real server several can win."""
    text = protocol("true")
    with ThreadPoolExecutor(6) as pool:
        codes = sorted(reply.status_code for reply in pool.map(v2.post, [text] * 6))
    assert codes == [202, 409, 409, 409, 409, 409]


@pytest.mark.slow
def test_others_are_answered_while_a_large_document_is_read(v2):
    """With aliases, 30 kB are thousands of roles; they are refused, but only when they have been read."""
    role = json.dumps(task_role("true"))
    roles = "".join(f"  r{number}: *role\n" for number in range(2500))
    text = f"protocolVersion: 2\nname: large\ntype: job\nprerequisites: [{json.dumps(IMAGE)}]\n"
    text += f"taskRoles:\n  main: &role {role}\n{roles}"
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(v2.post, text)
        answered = 0
        while not reply.done():
            assert v2.call("GET", "/info").status_code == 200
            answered += 1
    assert reply.result().status_code == 400
    assert "at most 1000 tasks" in reply.result().json()["message"]
    assert answered > 2


def test_a_path_prefix_and_letters_case_do_not_matter(v2, local_pai_v2):
    """As with express behind a proxy."""
    headers = {"Authorization": f"Bearer {v2.token}"}
    for path in ("/rest-server/api/v2/jobs", "/api/v2/JOBS/", "/API/V2/jobs"):
        assert requests.get(local_pai_v2.url + path, headers=headers, timeout=20).status_code == 200


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
