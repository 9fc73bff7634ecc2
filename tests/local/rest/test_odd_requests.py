"""Requests that no client means: each has an answer, and none is a failure of the server."""

from __future__ import annotations

import http.client
import json
import socket

import pytest
from local_client import unique
from protocol_client import protocol

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
