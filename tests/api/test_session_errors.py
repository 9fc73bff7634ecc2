"""Session: retries, one line for each kind of failure, limits, and redaction."""

from __future__ import annotations

import logging
import time

import pytest
from api_cases import cases
from mocked_rest import GET, POST, URL, rest_server
from ports import refused_port

from luigi_pai.api.shared import SharedDocument
from luigi_pai.api.wire.transport import Account
from luigi_pai.errors import (
    ClusterUnreachable,
    InvalidReply,
    JobNotFound,
    PaiApiError,
    RateLimited,
    ServerFault,
)

CHECK = "check pai_url in [OpenPai] of luigi.cfg, and that the rest-server runs"


# ---------------------------------------------------------------- retries


FOREIGN = "the response is not from an OpenPAI rest-server"
IS_IT = "is @ (pai_url in [OpenPai]) the rest-server? Its port is usually 9186, or its path /rest-server"


@cases("method status headers body expected requests")
def test_a_response_is_an_error(serve, new_session, method, status, headers, body, expected, requests):
    """An error that repeats a password or token shows ******; a gateway's fault of a GET is retried."""
    server = serve(lambda _: (status, headers, body))
    session = new_session(server.url, token="secret-token", password="admin-password")
    with pytest.raises(PaiApiError) as caught:
        session.request(method, "/api/v1/jobs/x")
    kind, _, message = expected.partition(" ")
    message = message.replace("@", f"{server.url}/api/v1/jobs/x").replace("FOREIGN", FOREIGN)
    assert str(caught.value) == message.replace("CHECK", IS_IT.replace("@", server.url))
    assert type(caught.value).__name__ == kind
    assert getattr(caught.value, "status", status) == status
    assert "secret-token" not in getattr(caught.value, "server_message", "")
    assert len(server.asked) == requests


def test_a_get_that_recovers_is_not_noticed(serve, new_session):
    """One 503 and then the answer is the answer; Retry-After does not make it wait."""
    server = serve(
        lambda _: (503, {"Retry-After": "600"}, "") if len(server.asked) == 1 else (200, {}, "[1]")
    )
    assert new_session(server.url).request(*GET, authorize=False) == [1]


# ---------------------------------------------------------------- nobody answers


NO_URL = "is not a valid URL: it must start with http:// or https://"


@cases("url text")
def test_the_error_of_an_address_says_what_to_check(new_session, url, text):
    """Nobody answers, or it is no address: nothing was sent, and the line says which setting to look at."""
    url = url.replace("REFUSED", str(refused_port()))
    with pytest.raises(ClusterUnreachable) as caught:
        new_session(url).request(*POST, body={})
    said = str(caught.value)
    assert said.startswith(text.replace("@", url))
    assert said.endswith(f"; {CHECK}")
    assert said == f"{text.replace('@', url)}; {CHECK}" or text.endswith(": ")
    assert "\n" not in said
    assert not caught.value.answer_lost


@pytest.mark.slow
@pytest.mark.parametrize("call", [GET, POST], ids=["GET", "POST"])
def test_a_server_that_never_answers_is_given_up_after_the_timeout(new_session, sockets, call):
    """The answer of a hung server is lost."""
    url = f"http://127.0.0.1:{sockets(lambda connection: [*iter(lambda: connection.recv(65536), b'')])}"
    session = new_session(url, token="t", read_timeout=0.2)
    with pytest.raises(ClusterUnreachable) as caught:
        session.request(*call)
    assert str(caught.value) == (
        f"the connection to {url} broke before a response ({call[0]}): no response within 0.2 s; if it "
        "speaks TLS, write https:// in pai_url in [OpenPai] of luigi.cfg"
    )
    assert caught.value.answer_lost
    assert not session.answered


def test_a_connection_that_is_not_taken_is_given_up_after_the_timeout(new_session, monkeypatch):
    """A host that drops packets is told apart from one that is slow to answer: nothing was sent."""

    def never(*_, **__):
        raise TimeoutError("timed out")

    monkeypatch.setattr("urllib3.util.connection.create_connection", never)
    with pytest.raises(ClusterUnreachable) as caught:
        new_session("http://127.0.0.1:9", connect_timeout=0.1).request(*POST, body={})
    assert str(caught.value) == f"cannot reach http://127.0.0.1:9: no connection within 0.1 s; {CHECK}"
    assert not caught.value.answer_lost


@pytest.mark.slow
def test_a_connection_that_breaks_leaves_the_answer_lost(new_session, sockets):
    """A server that closes in place of answering may have done what it was asked."""
    url = f"http://127.0.0.1:{sockets(lambda connection: connection.recv(65536))}"
    with pytest.raises(ClusterUnreachable) as caught:
        new_session(url, token="t").request(*POST, body={})
    assert str(caught.value).startswith(f"the connection to {url} broke before a response (POST): ")
    assert caught.value.answer_lost
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- 429


@cases("headers reset_in")
def test_the_end_of_a_rate_limit_is_read(serve, new_session, headers, reset_in):
    """X-RateLimit-Reset is the true moment; Retry-After, the whole window, bounds it where clocks differ."""
    now = time.time()
    said = {
        name: str(now + int(value)) if value.startswith("+") else value for name, value in headers.items()
    }
    server = serve(lambda _: (429, {"Content-Type": "text/html"} | said, "Too many requests"))
    with pytest.raises(RateLimited) as caught:
        new_session(server.url).request(*GET, authorize=False)
    assert str(caught.value) == f"GET {server.url}/api/v1/jobs/x: 429 Too Many Requests"
    assert len(server.asked) == 1
    if reset_in is None:
        assert caught.value.reset_at is None
    else:
        assert caught.value.reset_at == pytest.approx(now + reset_in, abs=2)


# ---------------------------------------------------------------- secrets


def test_neither_password_nor_token_is_shown(serve, new_session, make_token, caplog):
    """The log at DEBUG, the errors and the repr of the account hold neither."""
    caplog.set_level(logging.DEBUG)
    token = make_token()
    server = rest_server(serve, [token], wants_token=())
    session = new_session(server.url, password="hunter2hunter2")
    session.request(*POST, body={})
    assert any("POST" in record.getMessage() for record in caplog.records)
    assert "hunter2" not in caplog.text
    assert token not in caplog.text
    account = repr(Account("http://h", "u", password="hunter2hunter2", token="secret-token"))
    assert "hunter2" not in account
    assert "secret-token" not in account


def test_each_request_is_logged_only_where_that_was_asked_for(serve, new_session, caplog):
    """A study polls thousands of times, and Luigi shows DEBUG by default: luigi_pai.http is set by itself."""
    server = serve(lambda _: (200, {}, "{}"))
    caplog.set_level(logging.DEBUG)
    new_session(server.url).request(*GET, authorize=False)
    assert [record for record in caplog.records if record.name.startswith("luigi")] == []
    caplog.set_level(logging.DEBUG, logger="luigi_pai.http")
    new_session(server.url).request(*GET, authorize=False)
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("luigi")]
    assert line.startswith(f"GET {server.url}/api/v1/jobs/x -> 200 in ")


def test_an_error_chains_nothing_that_carries_the_token(serve, new_session):
    """No cause, no response, no request hangs on an error: they would print the token."""
    server = serve(lambda _: (500, {}, '{"message": "x"}'))
    with pytest.raises(ServerFault) as caught:
        new_session(server.url, token="secret-token").request(*GET)
    assert caught.value.response is None
    assert caught.value.request is None
    with pytest.raises(ClusterUnreachable) as caught:
        new_session(f"http://127.0.0.1:{refused_port()}", token="secret-token").request(*GET)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("body", ["{}", "[]", '{"message": "no Route matched"}', "<html></html>", "x"])
def test_a_mocked_404_says_that_there_is_no_job(rest, new_session, body):
    """Whatever it is: a test's mock is no gateway."""
    rest.get(f"{URL}/api/v1/jobs/x", body=body, status=404)
    with pytest.raises(JobNotFound):
        new_session(URL).request(*GET, authorize=False)


@pytest.mark.parametrize("status", [200, 401, 404])
def test_a_page_in_place_of_a_login_is_recognised(serve, new_session, status):
    """It is no refused login: the address is wrong."""
    server = serve(lambda _: (status, {"Content-Type": "text/html"}, "<html>nginx</html>"))
    with pytest.raises(InvalidReply) as caught:
        new_session(server.url).request(*POST)
    assert str(caught.value).endswith(IS_IT.replace("@", server.url))
    assert "nginx" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_answer_that_trickles_in_for_ever_is_given_up(new_session, sockets, head, method, monkeypatch):
    """A server that sends a byte now and then, in the headers or in the body, does not hold a worker."""
    monkeypatch.setattr("luigi_pai.api.wire.timed_http._WHOLE_ANSWER", 0.01)

    def trickle(connection):
        connection.recv(65536)
        connection.sendall(head)
        while True:
            time.sleep(0.05)
            connection.sendall(b"1")

    session = new_session(f"http://127.0.0.1:{sockets(trickle)}", token="t", read_timeout=30)
    with pytest.raises(ClusterUnreachable, match=r"response was not finished within 0\.3 s") as caught:
        session.request(method, "/api/v1/jobs/x")
    assert caught.value.answer_lost


def test_answered_tells_whether_anybody_ever_did(serve, new_session):
    """An error from the server is an answer too."""
    server = serve(lambda _: (500, {}, "{}"))
    session = new_session(server.url)
    assert not session.answered
    with pytest.raises(ServerFault):
        session.request(*GET, authorize=False)
    assert session.answered


def test_the_login_of_another_process_shows_that_the_server_is_there(serve, new_session, make_token):
    """So a fork whose first request has no reply repeats it, and does not take the URL to be wrong."""
    server, shared = rest_server(serve, [make_token()]), SharedDocument()
    with pytest.raises(ClusterUnreachable) as caught:
        new_session(f"http://127.0.0.1:{refused_port()}", shared=shared).request(*GET, authorize=False)
    assert caught.value.never_replied
    new_session(server.url, shared=shared).request(*POST, body={})
    with pytest.raises(ClusterUnreachable) as caught:
        new_session(f"http://127.0.0.1:{refused_port()}", shared=shared).request(*GET, authorize=False)
    assert not caught.value.never_replied
