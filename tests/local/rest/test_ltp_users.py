"""Logins, tokens and users of a local LTP 1.5, which checks no bodies and keeps records in memory."""

from __future__ import annotations

import base64
import json

import pytest
import requests
from protocol_client import ProtocolClient

from luigi_pai.local import LocalPai
from luigi_pai.local.rest.base.rate_limits import RateLimits

PASSWORD = "admin-password"


@pytest.fixture(scope="module")
def server():
    with LocalPai(api="ltp") as server:
        yield server


@pytest.fixture(scope="module")
def admin(server):
    return ProtocolClient(server)


@pytest.fixture(scope="module")
def bob(server, admin):
    """A user, created with what 1.8 would have refused: an unknown key."""
    body = {"username": "bob", "password": "bobs-password", "virtualCluster": [], "extension": {}, "x": 1}
    assert admin.send("POST", "/users", body).status_code == 201
    return ProtocolClient(server, "bob", "bobs-password")


@pytest.fixture
def own_server():
    """A server of the test's own: all tokens are revoked there, or a password is lost."""
    with LocalPai(api="ltp") as server:
        yield server


@pytest.fixture
def own_admin(own_server):
    return ProtocolClient(own_server)


@pytest.fixture
def own_bob(own_server, own_admin):
    body = {"username": "bob", "password": "bobs-password", "virtualCluster": []}
    assert own_admin.send("POST", "/users", body).status_code == 201
    return ProtocolClient(own_server, "bob", "bobs-password")


def said(reply):
    body = reply.json()
    return reply.status_code, body.get("code"), body.get("message")


def log_in(server, body, kind="application/json", path="/api/v2/authn/basic/login"):
    data = json.dumps(body) if isinstance(body, dict) else body
    return requests.post(server.url + path, data=data, headers={"Content-Type": kind}, timeout=20)


# ---------------------------------------------------------------- bodies that nobody checks


@pytest.mark.parametrize(
    "more", [{"expiration": 10}, {"expiration": "never"}, {"expiration": None}, {"unknown": [1]}]
)
def test_what_else_a_login_says_does_not_matter(server, more):
    for path in ("/api/v2/authn/basic/login", "/api/v1/token", "/api/v2/tokens"):
        reply = log_in(server, {"username": "admin", "password": PASSWORD, **more}, path=path)
        assert reply.status_code == 200


NO_PASSWORD = (
    'The "password" argument must be of type string or an instance of ArrayBuffer, Buffer, TypedArray, '
    "or DataView. Received {}"
)
NO_NAME = (
    'The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView. '
    "Received {}"
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"username": "admin"}, NO_PASSWORD.format("undefined")),
        ({"username": "admin", "password": 123456}, NO_PASSWORD.format("type number (123456)")),
        ({"username": "admin", "password": True}, NO_PASSWORD.format("type boolean (true)")),
        ({"username": "admin", "password": []}, NO_PASSWORD.format("an instance of Array")),
        ({"username": "admin", "password": None}, NO_PASSWORD.format("null")),
        ({"password": PASSWORD}, NO_NAME.format("undefined")),
        ({"username": 5, "password": PASSWORD}, NO_NAME.format("type number (5)")),
        ({}, NO_NAME.format("undefined")),
    ],
)
def test_a_login_without_name_or_password_is_a_failure(server, body, message):
    assert said(log_in(server, body)) == (500, "ERR_INVALID_ARG_TYPE", message)


def test_a_login_of_another_kind_is_a_failure(server):
    """A text is no object; nothing at all fails earlier."""
    text = json.dumps({"username": "admin", "password": PASSWORD})
    assert said(log_in(server, text, "text/plain"))[:2] == (500, "ERR_INVALID_ARG_TYPE")
    assert said(log_in(server, b"", "application/json"))[:2] == (500, None)
    form = f"username=admin&password={PASSWORD}"
    assert log_in(server, form, "application/x-www-form-urlencoded").status_code == 200


def test_wrong_passwords_and_unknown_users_are_what_they_were(server):
    assert said(log_in(server, {"username": "admin", "password": "x"})) == (
        400,
        "IncorrectPasswordError",
        "Password is incorrect.",
    )
    assert said(log_in(server, {"username": "no body", "password": "x"}))[:2] == (400, "NoUserError")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"password": "x"}, 201),
        ({"password": 5}, 500),
        ({"email": "none"}, 500),
        ({"virtualCluster": "default"}, 500),
        ({"virtualCluster": None}, 500),
        ({"extension": 5}, 500),
        ({"username": None}, 400),
    ],
)
def test_a_user_that_cannot_be_written_down_is_a_failure(admin, change, status):
    body = {"username": f"u{status}", "password": "u-password", "virtualCluster": [], "extension": {}}
    assert admin.send("POST", "/users", {**body, **change}).status_code == status


def test_json_that_is_no_object_is_quoted(server):
    for text, shown in (
        ("protocolVersion: 2, name: x", '"protocolVe"...'),
        ("abc", '"abc"'),
        (f"{' ' * 25}abc", f'..."{" " * 10}abc"'),
    ):
        first = text.strip()[0]
        assert said(log_in(server, text)) == (
            400,
            None,
            f"Unexpected token '{first}', {shown} is not valid JSON",
        )


# ---------------------------------------------------------------- tokens


def test_a_token_says_what_its_user_administers(admin, bob):
    assert bob.send("GET", "/tokens/check").json()["vcadmins"] == []
    change = {"extension": {"vcadmins": ["default"]}}
    assert admin.send("PUT", "/users/bob/extension", change).status_code == 201
    assert bob.send("GET", "/tokens/check").json()["vcadmins"] == ["default"]
    assert admin.send("PUT", "/users/bob/extension", {"extension": {"vcadmins": []}}).status_code == 201


@pytest.mark.slow
def test_only_an_administrator_revokes_everybodys_tokens(own_server, own_bob):
    """Those of programs, too."""
    for path in ("/api/v1/token", "/api/v2/tokens"):
        headers = {"Authorization": f"Bearer {own_bob.token}"}
        reply = requests.delete(own_server.url + path, headers=headers, timeout=20)
        assert said(reply)[:2] == (403, "ForbiddenUserError")
    own = own_bob.send("POST", "/tokens/application", {}).json()["token"]
    other = ProtocolClient(own_server)
    assert said(other.send("DELETE", "/tokens")) == (200, None, "All tokens revoked successfully")
    for token in (own, own_bob.token, other.token):
        headers = {"Authorization": f"Bearer {token}"}
        assert own_bob.call("GET", "/jobs", headers=headers).status_code == 401


def test_storages_are_read_anew_for_administrators(admin, bob):
    assert admin.send("POST", "/storages/refresh").json() == {"status": 200}
    assert bob.send("POST", "/storages/refresh").status_code == 403


# ---------------------------------------------------------------- users


def test_a_user_is_changed_under_their_name(admin, bob):
    """The body says who; ``users`` itself has no PUT, and ``users/me`` is for administrators."""
    change = {"patch": True, "data": {"username": "bob", "email": "bob@example.com"}}
    assert said(admin.send("PUT", "/users", change))[:2] == (404, "NoApiError")
    for path in ("/users/bob", "/users/me"):
        assert said(admin.send("PUT", path, change)) == (201, None, "Update user bob successfully")
        assert bob.send("PUT", path, change).status_code == 403
    assert admin.send("GET", "/users/bob").json()["email"] == "bob@example.com"
    assert said(admin.send("PUT", "/users/bob", {"data": {"username": "nobody1"}}))[:2] == (
        404,
        "NoUserError",
    )
    assert admin.send("PUT", "/users/bob", {}).status_code == 500


@pytest.mark.slow
def test_a_user_has_a_past_and_a_key(own_admin, own_bob):
    """Anyone may read both; the key opens nothing here."""
    shown = own_bob.send("GET", "/users/admin").json()
    assert shown["history_vclist"] == ["default"]
    assert shown["extension"]["jobSSH"]["key"].startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    assert shown["extension"]["jobSSH"]["pubKey"].endswith(" pai-job-ssh")
    others = own_bob.send("GET", "/users").json()
    assert [user["history_vclist"] for user in others if user["username"] == "admin"] == [["default"]]
    own_admin.send("PUT", "/users/admin/extension", {"extension": {}})


@pytest.mark.slow
def test_who_is_looked_at_cannot_log_in_with_a_password(tmp_path):
    """Until the record is written anew, or the server starts; tokens go on."""
    with LocalPai(tmp_path / "data", api="ltp") as server:
        admin, body = ProtocolClient(server), {"username": "admin", "password": PASSWORD}
        token = admin.send("POST", "/tokens/application", {}).json()["token"]
        assert admin.send("GET", "/users").status_code == 200
        assert log_in(server, body).status_code == 200
        for path in ("/api/v2/users/admin", "/api/v1/user/admin"):
            headers = {"Authorization": f"Bearer {admin.token}"}
            assert requests.get(server.url + path, headers=headers, timeout=20).status_code == 200
            refused = (400, "IncorrectPasswordError", "Password is incorrect.")
            assert said(log_in(server, body)) == refused
            change = {"patch": True, "data": {"username": "admin", "password": PASSWORD}}
            headers = {"Authorization": f"Bearer {admin.token}"}
            basic = base64.b64encode(f"admin:{token}".encode()).decode()
            assert admin.call("GET", "/jobs", headers={"Authorization": f"Basic {basic}"}).status_code == 200
            assert admin.send("PUT", "/users/admin", change).status_code == 201
            admin = ProtocolClient(server)
        assert admin.send("GET", "/users/admin").status_code == 200
        assert log_in(server, body).status_code == 400
        server.set_faults([])  # with name and password: not by this API
        server.restart()
        assert log_in(server, body).status_code == 200


def test_1_8_has_nothing_of_it(local_pai_v2):
    """No past, no key, no trap, no further routes."""
    client = ProtocolClient(local_pai_v2)
    shown = client.send("GET", "/users/admin").json()
    assert "history_vclist" not in shown
    assert "jobSSH" not in shown["extension"]
    assert "vcadmins" not in client.send("GET", "/tokens/check").json()
    assert ProtocolClient(local_pai_v2).token
    for method, path in (("DELETE", "/tokens"), ("POST", "/storages/refresh"), ("PUT", "/users/admin")):
        assert said(client.send(method, path, {}))[:2] == (404, "NoApiError")


# ---------------------------------------------------------------- limits


def test_each_user_has_a_window_of_their_own():
    """It begins with their first request; Retry-After is what is left of it."""
    now = 1_000_000.25
    limits = RateLimits((9, 1, 1), lambda: now, of_each_key=True)
    first, _ = limits.count("list", "anna")
    assert first["X-RateLimit-Reset"] == "1000061"
    now += 40
    headers, refused = limits.count("list", "anna")
    assert (refused, headers["Retry-After"], headers["X-RateLimit-Reset"]) == (True, "20", "1000061")
    assert limits.count("list", "bob")[0]["X-RateLimit-Reset"] == "1000101"
    now += 20
    headers, refused = limits.count("list", "anna")
    assert (refused, headers["X-RateLimit-Remaining"]) == (False, "0")
    assert limits.count("list", "bob")[0]["Retry-After"] == "40"


@pytest.mark.slow
def test_a_refused_request_says_when_it_may_be_sent_again():
    """On the wire, and for the fault `limit`."""
    with LocalPai(api="ltp", rate_limits="40,1,9") as server:
        client = ProtocolClient(server)
        assert client.send("GET", "/jobs").status_code == 200
        reply = client.send("GET", "/jobs")
        assert (reply.status_code, reply.headers["Content-Type"]) == (429, "text/html; charset=utf-8")
        assert 50 <= int(reply.headers["Retry-After"]) <= 60
        server.set_faults([{"fault": "limit", "seconds": 7}])
        assert client.send("GET", "/jobs").headers["Retry-After"] == "7"
