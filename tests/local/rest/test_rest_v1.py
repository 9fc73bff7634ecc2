"""The v1 API beyond the recording: tokens, other users, limits, the order of checks."""

from __future__ import annotations

import base64
import json

import pytest
import requests


def error(reply):
    body = reply.json()
    return reply.status_code, body.get("code"), body["message"]


@pytest.fixture
def bob(v1_users):
    return v1_users.bob


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
        said = "Guest is not allowed to do this operation."
        assert error(reply) == (401, "UnauthorizedUserError", said)


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


@pytest.mark.slow
def test_the_list_is_newest_first_and_of_one_user_if_asked(client, bob):
    """GET /jobs and GET /jobs?username=U."""
    mine, his = client.submit("true"), bob.submit("true")
    names = [row["name"] for row in client.call("GET", "/jobs").json()]
    assert names.index(his) < names.index(mine)
    rows = client.call("GET", "/jobs", params={"username": bob.username}).json()
    assert rows[0]["name"] == his
    assert {row["username"] for row in rows} == {bob.username}


@pytest.mark.slow
def test_an_administrator_stops_the_job_of_another_user(client, bob):
    """Whose owner may, too."""
    for stops in (client, bob):
        name = bob.submit("sleep 60")
        stops.stop(name)
        client.wait(name, "STOPPED")
