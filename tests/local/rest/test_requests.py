"""Requests beyond the recordings: who may do what, how the rest is refused, and what no client means."""

from __future__ import annotations

import http.client
import json
import socket

import pytest
import yaml
from local_client import role, unique
from places import DATA
from protocol_client import protocol, task_role

TABLE = yaml.safe_load((DATA / "local" / "requests.yaml").read_text())
CASES = [(api, case) for api, cases in TABLE.items() for case in cases]
PREFIX = {"v1": "/api/v1", "v2": "/api/v2", "ltp": "/api/v2"}


def sent(api, case, users):
    """Return the body of a request, if it has one, and the address of the job that it would make."""
    if "login" in case:
        server = users.admin.server
        return {"username": server.username, "password": server.password, **case["login"]}, None
    if case.get("POST") != "/jobs":
        return case.get("json"), None
    name = unique()
    if api == "v1":
        roles = [role("true", **case.get("role", {}))]
        return {"jobName": name, "image": "i", "taskRoles": roles, **case.get("config", {})}, f"/jobs/{name}"
    main = {
        key: value for key, value in task_role("true", **case.get("role", {})).items() if value != "LEFT OUT"
    }
    document = json.loads(protocol(name=name, roles={"main": main}))
    return {**document, **case.get("protocol", {})}, f"/jobs/admin~{name}"


@pytest.mark.parametrize(("api", "case"), CASES)
def test_a_request_has_its_answer(api, case, request):
    """Status, code and message are those of the table; a job that is refused is not there."""
    users = request.getfixturevalue(f"{api}_users")
    case = json.loads(json.dumps(case).replace("JOB", users.job).replace("BOB", users.bob.username))
    method = next(key for key in case if key.isupper())
    body, job = sent(api, case, users)
    who = users.bob if case.get("as") == "bob" else users.admin
    if job is not None and api != "v1":
        reply = who.post(json.dumps(body))
    else:
        ask = who.call if case.get("as") == "nobody" else who.send
        reply = ask(method, case[method], body)
    status, code, message = [*case["is"], None, None][:3]
    assert reply.status_code == status, reply.text
    if status >= 400:
        found = reply.json()
        assert found.get("code") == code
        assert is_as_told(found["message"], message), found["message"]
        if job is not None:
            assert users.admin.send("GET", job).status_code in (404, 500)
    elif "config" in case:  # strings stay strings, absent keys absent, key order kept
        shown = users.admin.send("GET", f"{job}/config").text
        assert shown == json.dumps(body, separators=(",", ":")).replace("1024.0", "1024")


def is_as_told(found, message):
    """Say whether a message is the one of the table, or has its part."""
    if message is None:
        return bool(found)
    begins, ends = not message.startswith("..."), not message.endswith("...")
    part = message.removeprefix("...").removesuffix("...")
    return part in found and (not begins or found.startswith(part)) and (not ends or found.endswith(part))


HUGE = "9" * 5000


@pytest.fixture(autouse=True)
def _nothing_failed(local_pai_v1):
    """The server writes down what fails in it."""
    log = local_pai_v1.data / "server.log"
    before = log.stat().st_size
    yield
    with log.open("rb") as file:
        file.seek(before)
        assert b"Traceback" not in file.read()


def ask(server, line, *headers, body=b""):
    """Send a request as it is, and return the status of the answer and its body."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        head = "\r\n".join(
            [f"{line} HTTP/1.1", f"Host: {host}:{port}", "Connection: close", *headers, "", ""]
        )
        connection.sendall(head.encode("latin-1") + body)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize("length", ["²", HUGE, "1" * 30, "x"])
@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v2/jobs", "/stop-job"])
def test_an_invalid_content_length_is_a_bad_request(local_pai_v1, path, length):
    """It is read where the request begins."""
    assert ask(local_pai_v1, f"POST {path}", f"Content-Length: {length}")[0] in (400, 413)


def test_a_number_without_end_is_no_integer(local_pai_v1, local_pai_v2):
    """Nor one of thousands of digits."""
    for digits in ("9" * 400, HUGE):
        for server, path in (
            (local_pai_v1, "/api/v1/token"),
            (local_pai_v2, "/api/v2/authn/basic/login"),
        ):
            login = json.dumps({"username": "admin", "password": server.password})
            body = f'{login[:-1]}, "expiration": {digits}}}'.encode()
            headers = "Content-Type: application/json", f"Content-Length: {len(body)}"
            status, text = ask(server, f"POST {path}", *headers, body=body)
            assert status == 400, text


def test_half_a_character_is_refused(v2, client):
    """It cannot be written down."""
    name = v2.submit(protocol("true"))
    assert v2.send("PUT", f"/jobs/{name}/tag", {"value": "half \ud800"}).status_code == 400
    assert client.send("POST", "/jobs", {"jobName": unique(), "image": "\udfff"}).status_code == 400
    assert v2.send("PUT", f"/jobs/{name}/tag", {"value": "whole \U0001f600"}).status_code == 200
