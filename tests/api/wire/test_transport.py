"""Broken replies, and URLs."""

from __future__ import annotations

import os

import pytest
import requests
import responses
from ports import refused_port
from transports import ANSWER, failure

from luigi_pai.errors import ClusterUnreachable, InvalidReply

# ---------------------------------------------------------------- broken answers


def broken_then_whole(broken, sockets):
    """Serve the broken answer to the first request and a whole one to the others."""
    asked = []

    def handle(connection):
        while connection.recv(65536):
            asked.append(1)
            if len(asked) == 1:
                connection.sendall(broken)
                return
            connection.sendall(ANSWER)

    return f"http://127.0.0.1:{sockets(handle)}", asked


@pytest.mark.parametrize(
    "broken",
    [
        b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"a"',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{"a"',
    ],
    ids=["length", "chunks", "chunk"],
)
def test_a_get_whose_answer_breaks_off_is_sent_again(sockets, transport, broken):
    """A truncated body is a broken read like any other."""
    url, asked = broken_then_whole(broken, sockets)
    assert transport(url).send("GET", f"{url}/x", None, None).json() == {}
    assert len(asked) == 2


def test_a_write_whose_answer_breaks_off_is_not(sockets, transport):
    """The server may have done it."""
    url, asked = broken_then_whole(b"HTTP/1.1 202 Accepted\r\nContent-Length: 99\r\n\r\n{", sockets)
    error = failure(transport(url), method="POST")
    assert str(error).startswith(f"the connection to {url} broke before a response (POST): ")
    assert error.answer_lost
    assert len(asked) == 1


def test_a_get_whose_answers_all_break_off_is_given_up(sockets, transport):
    """Once is enough."""
    asked = []

    def handle(connection):
        connection.recv(65536)
        asked.append(1)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")

    error = failure(transport(f"http://127.0.0.1:{sockets(handle)}"))
    assert "broke before a response (GET)" in str(error)
    assert len(asked) == 2


@pytest.mark.slow
def test_tls_that_breaks_after_the_request_leaves_the_answer_lost(sockets, transport, certificate):
    """It is no failed handshake: the server had the request."""
    ca, context = certificate

    def hang_up(connection):
        tls = context.wrap_socket(connection, server_side=True)
        tls.recv(65536)
        os.close(tls.detach())  # without the end of TLS

    url = f"https://127.0.0.1:{sockets(hang_up)}"
    error = failure(transport(url, verify=str(ca)), method="POST")
    assert str(error).startswith(f"the connection to {url} broke before a response (POST): ")
    assert error.answer_lost


@pytest.mark.parametrize(("error", "lost"), [(requests.ConnectionError, False), (requests.ReadTimeout, True)])
def test_with_a_mocked_transport_the_error_says_how_far_a_request_got(transport, error, lost):
    """No connection does; what a test has not mocked was not sent."""
    with responses.RequestsMock() as mock:
        mock.post("http://pai.test/api/v1/jobs", body=error("x"))
        raised = failure(transport("http://pai.test"), method="POST", path="/api/v1/jobs")
        assert raised.answer_lost == lost


# ---------------------------------------------------------------- URLs


@pytest.mark.parametrize("location", ["ftp://h/?token=hunter2", "http://a..b/?token=hunter2"])
def test_a_redirect_to_a_url_that_cannot_be_asked_does_not_blame_pai_url(serve, transport, location):
    """It is an invalid reply, and shows no token of its own."""
    server = serve(lambda _: (302, {"Location": location}, ""))
    text = str(failure(transport(server.url), InvalidReply))
    assert text == f"{server.url}/api/v1/jobs/x redirects to an invalid URL"
    assert "hunter2" not in text


def test_a_log_on_another_host_does_not_blame_pai_url(serve, transport):
    """What fails is named; there is nothing to correct in the configuration."""
    server = serve(lambda _: (200, {}, "{}"))
    port = refused_port()
    with pytest.raises(ClusterUnreachable) as caught:
        transport(server.url).send("GET", f"http://127.0.0.1:{port}/log?token=hunter2", None, None)
    assert str(caught.value) == f"cannot reach http://127.0.0.1:{port}: Connection refused"


# ---------------------------------------------------------------- forks


def pools_of(transport, url):
    """Return urllib3's pools; none must be referenced when a fork releases its copy."""
    return transport._http._session.get_adapter(url).poolmanager.pools._container.values()


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("first", ["send", "close"])
def test_a_fork_does_not_wait_for_the_locks_of_its_parent(sockets, transport, in_forks, first):
    """A thread of the parent has the lock of its connections at the fork; nobody releases it in the child."""
    url, _asked = broken_then_whole(ANSWER, sockets)
    own = transport(url)
    own.send("GET", f"{url}/x", None, None)
    (lock,) = (pool.pool.mutex for pool in pools_of(own, url))

    def child(_number):
        if first == "close":
            own.close()
        assert own.send("GET", f"{url}/x", None, None).json() == {}

    with lock:
        in_forks(child)
