"""The v1 API beyond the recording: tokens, other users, limits, the order of checks."""

from __future__ import annotations

import base64
import json

import pytest
import requests
from local_client import LocalClient, role, unique


def error(reply):
    body = reply.json()
    return reply.status_code, body.get("code"), body["message"]


@pytest.fixture
def bob(client, local_pai_v1):
    """A user without rights."""
    name = unique("bob").replace("-", "_")
    body = {"username": name, "password": "bobpassword", "modify": False}
    assert client.send("PUT", "/user", body).status_code == 201
    other = LocalClient(local_pai_v1, name, "bobpassword")
    other.name = name
    return other


def test_addresses_are_matched_as_express_does(client):
    """Case and a slash at the end do not matter, names do."""
    name = client.submit("true", name=unique("CaSe"))
    assert client.call("GET", f"/JOBS/{name}/").json()["name"] == name
    assert client.call("GET", f"/jobs/{name.lower()}").status_code == 404
    assert client.call("PATCH", f"/jobs/{name}").json()["code"] == "NoApiError"
    assert client.call("POST", f"/jobs/{name}").json()["code"] == "NoApiError"


@pytest.mark.slow
def test_a_token_is_a_signed_statement_with_an_end(client, local_pai_v1):
    """HS256, username, admin, iat, exp; changing a letter of the claims makes it worthless."""
    header, claims, signature = client.token.split(".")
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert (decoded["username"], decoded["admin"]) == (local_pai_v1.username, True)
    assert decoded["exp"] - decoded["iat"] == 24 * 3600
    decoded["exp"] += 1
    forged = base64.urlsafe_b64encode(json.dumps(decoded).encode()).decode().rstrip("=")
    for token in (f"{header}.{forged}.{signature}", f"{header}.{claims}.", client.token + "x", "..", "é"):
        reply = requests.delete(
            f"{client.api}/jobs/{client.submit('true')}",
            headers={"Authorization": f"Bearer {token}".encode()},
            timeout=20,
        )
        assert error(reply) == (
            401,
            "UnauthorizedUserError",
            "Guest is not allowed to do this operation.",
        )


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"expiration": 60}, 200, None),
        ({"expiration": "604800"}, 200, None),
        ({"expiration": 59}, 400, "expiration: is not of the form range(60, 604801)"),
        ({"expiration": 604801}, 400, "expiration: is not of the form range(60, 604801)"),
        ({"password": "short"}, 400, "password: is not of the form .{6,}"),
        ({"username": "a-b"}, 400, "username: is not of the form [A-Za-z0-9_]+"),
        ({"more": 1}, 400, "more: is not a field here"),
    ],
)
def test_a_login_is_checked_before_the_password(body, status, message, client, local_pai_v1):
    """The bounds of expiration and the forms of name and password."""
    login = {"username": local_pai_v1.username, "password": local_pai_v1.password, **body}
    reply = client.call("POST", "/token", login)
    assert reply.status_code == status
    if message:
        assert reply.json()["code"] == "InvalidParametersError"
        assert reply.json()["message"] == message


def test_a_body_over_100_kb_is_refused_without_a_code(client):
    """413, before the token is looked at, whether or not the length was announced."""
    big = b'{"jobName": "' + b"x" * 102_400 + b'"}'
    headers = {"Content-Type": "application/json"}
    for body in (big, iter([big])):
        reply = requests.post(f"{client.api}/jobs", data=body, headers=headers, timeout=20)
        assert (reply.status_code, reply.json()) == (413, {"message": "request entity too large"})
    fits = b" " * (102_400 - 2) + b"{}"
    assert requests.post(f"{client.api}/jobs", data=fits, headers=headers, timeout=20).status_code == 401


@pytest.mark.parametrize("body", [b"{", b'"text"', b'{"a": NaN}', b"[" * 90_000, b"\xff\xfe"])
def test_a_body_that_is_no_json_is_refused_without_a_code(body, client):
    """400 with a message only; the server goes on."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {client.token}"}
    reply = requests.post(f"{client.api}/jobs", data=body, headers=headers, timeout=20)
    assert reply.status_code == 400
    assert list(reply.json()) == ["message"]
    assert client.call("GET", "/jobs").status_code == 200


def test_the_config_comes_back_as_it_was_sent(client):
    """Strings stay strings, absent keys absent, key order kept."""
    sent = role("true", taskNumber="1", memoryMB=1024.0)
    name = client.submit(sent, retryCount="0", gpuType="")
    shown = client.call("GET", f"/jobs/{name}/config").json()
    assert shown["taskRoles"][0] == {**sent, "memoryMB": 1024}
    assert list(shown) == ["jobName", "image", "taskRoles", "retryCount", "gpuType"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outputDir": None}, "outputDir: "),
        ({"retryCount": -3}, "retryCount: "),
        ({"taskRoles": [role("true", memoryMB=100, shmMB=101)]}, "taskRoles[0].shmMB: "),
        ({"taskRoles": [role("true", name="a-b")]}, "taskRoles[0].name: "),
        ({"taskRoles": [role("true", minSucceededTaskCount=2)]}, "taskRoles[0].minSucceededTaskCount: "),
        ({"taskRoles": [role("true", cpuNumber=0, name="a-b")]}, "taskRoles[0].name: "),
    ],
)
def test_a_config_that_0_7_1_refuses_is_refused(change, message, client):
    """400 InvalidParametersError, which names the field, and no job."""
    name = unique()
    body = {"jobName": name, "image": "i", "taskRoles": [role("true")], **change}
    reply = client.send("POST", "/jobs", body)
    assert error(reply)[:2] == (400, "InvalidParametersError")
    assert message in reply.json()["message"]
    assert client.call("GET", f"/jobs/{name}").status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        {"memoryMB": 0, "shmMB": 0},
        {"cpuNumber": 0},
        {"gpuNumber": -1},
        {"taskNumber": 1001},
        {"portList": [{"label": "a", "portNumber": 0}]},
        {"portList": [{"label": "a", "beginAt": 65536}]},
        {"portList": [{"label": "a", "portNumber": 1001}]},
        {"portList": [{"label": "a", "portNumber": 501}], "taskNumber": 10},
    ],
)
def test_what_only_the_launcher_refuses_has_another_code(change, client):
    """The rest-server takes these; the launcher of 0.7.1, or this machine, does not."""
    assert error(client.post(unique(), role("true", **change)))[:2] == (400, "UnknownError")


@pytest.mark.parametrize("name", ["x" * 256, ".", ".."])
def test_a_name_that_no_folder_can_have_has_that_code_too(name, client):
    """A name of 300 characters was refused by the real launcher."""
    assert error(client.post(name, "true"))[:2] == (400, "UnknownError")
    body = {"jobName": "a", "image": "i", "taskRoles": [role("true")]}
    path = name.replace(".", "%2E")
    assert error(client.send("PUT", f"/jobs/{path}", body))[0] in (400, 404)


@pytest.mark.slow
def test_of_two_roles_of_one_name_the_first_is_dropped(client):
    """Silently, as on 0.7.1."""
    job = client.run(role("echo first"), role("echo second"))
    assert len(job["taskRoles"]["main"]["taskStatuses"]) == 1
    assert client.log(job) == "second\n"


@pytest.mark.slow
def test_the_list_is_newest_first_and_of_one_user_if_asked(client, bob):
    """GET /jobs and GET /jobs?username=U."""
    mine, his = client.submit("true"), bob.submit("true")
    names = [row["name"] for row in client.call("GET", "/jobs").json()]
    assert names.index(his) < names.index(mine)
    rows = client.call("GET", "/jobs", params={"username": bob.name}).json()
    assert [(row["name"], row["username"]) for row in rows] == [(his, bob.name)]


@pytest.mark.slow
def test_another_users_job_can_be_read_but_not_stopped_or_deleted(client, bob):
    """403 ForbiddenUserError; the administrator may."""
    name = client.submit("sleep 60")
    assert bob.status(name)["username"] == "admin"
    reply = bob.send("PUT", f"/jobs/{name}/executionType", {"value": "STOP"})
    assert error(reply) == (
        403,
        "ForbiddenUserError",
        f"User {bob.name} is not allowed to execute job {name}.",
    )
    reply = bob.send("DELETE", f"/jobs/{name}")
    assert error(reply) == (
        403,
        "ForbiddenUserError",
        f"User {bob.name} is not allowed to remove job {name}.",
    )
    assert client.status(name)["state"] == "RUNNING"
    his = bob.submit("sleep 60")
    client.stop(his)
    client.stop(name)
    client.wait(his, "STOPPED")


def test_an_administrator_adds_plain_users(client, bob):
    """PUT /user; nothing of a user can be changed."""
    again = {"username": bob.name, "password": "bobpassword", "modify": False}
    assert error(client.send("PUT", "/user", again))[:2] == (409, "ConflictUserError")
    assert error(bob.send("PUT", "/user", again))[:2] == (403, "ForbiddenUserError")
    for more in ({"modify": True}, {"admin": True}):
        assert error(client.send("PUT", "/user", {**again, **more}))[:2] == (400, "InvalidParametersError")


def test_a_virtual_cluster_must_be_the_users(client, bob):
    """A plain user has the one named default."""
    reply = bob.post(unique(), "true", virtualCluster="vc1")
    sentence = f"User {bob.name} is not allowed to do operation in vc1"
    assert error(reply) == (403, "ForbiddenUserError", sentence)
    assert client.status(client.submit("true", virtualCluster="vc1"))["virtualCluster"] == "vc1"
