"""Broken replies, replaced servers, and URLs."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
import responses
from ports import refused_port
from transports import ANSWER, SETTING, failure
from waiting import wait_until

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
    assert str(error).startswith(f"the connection to {url} broke before a reply (POST): ")
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
    assert "broke before a reply (GET)" in str(error)
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
    assert str(error).startswith(f"the connection to {url} broke before a reply (POST): ")
    assert error.answer_lost


@pytest.mark.parametrize(("error", "lost"), [(requests.ConnectionError, False), (requests.ReadTimeout, True)])
def test_with_a_mocked_transport_the_error_says_how_far_a_request_got(transport, error, lost):
    """No connection does; what a test has not mocked was not sent."""
    with responses.RequestsMock() as mock:
        mock.post("http://pai.test/api/v1/jobs", body=error("x"))
        raised = failure(transport("http://pai.test"), method="POST", path="/api/v1/jobs")
        assert raised.answer_lost == lost


# ---------------------------------------------------------------- a replaced server


class _Http(ThreadingHTTPServer):
    """A server on a given port that can be stopped with all its connections."""

    daemon_threads = True

    def __init__(self, port=0):
        self.taken = []
        super().__init__(("127.0.0.1", port), _Handler)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def get_request(self):
        taken = super().get_request()
        self.taken.append(taken[0])
        return taken

    def stop(self):
        self.shutdown()
        self.server_close()
        for connection in self.taken:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_):
        pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.wfile.write(ANSWER)

    def log_message(self, *_):
        pass


@pytest.fixture
def replaceable():
    """A server, and how to replace it with another on the same port."""
    running = [_Http()]

    def replace():
        port = running[-1].server_address[1]
        running[-1].stop()
        running.append(_Http(port))

    yield f"http://127.0.0.1:{running[0].server_address[1]}", replace
    for server in running:
        server.stop()


def test_a_replaced_server_changes_the_epoch_before_a_request(replaceable, transport):
    """A server was stopped and another started: the number changes, once, with nothing sent."""
    url, replace = replaceable
    one = transport(url)
    first = one.connection_epoch()
    for _ in range(3):
        one.send("GET", f"{url}/x", None, None)
    assert one.connection_epoch() == first
    replace()
    wait_until(lambda: one.connection_epoch() != first)
    second = one.connection_epoch()
    one.send("GET", f"{url}/x", None, None)
    assert one.connection_epoch() == one.connection_epoch() == second


def test_a_replaced_server_changes_the_epoch_with_the_next_request(replaceable, transport):
    """The request that meets the new server is enough, also when nobody looked before it."""
    url, replace = replaceable
    one = transport(url)
    one.send("GET", f"{url}/x", None, None)
    first = one.connection_epoch()
    replace()
    one.send("GET", f"{url}/x", None, None)
    assert one.connection_epoch() != first


def test_a_request_that_breaks_and_is_repeated_changes_the_epoch(sockets, transport):
    """urllib3 sends a GET again by itself; the connection was lost all the same."""
    asked = []

    def handle(connection):
        while connection.recv(65536):
            asked.append(1)
            if len(asked) == 2:
                return
            connection.sendall(ANSWER)

    url = f"http://127.0.0.1:{sockets(handle)}"
    one = transport(url)
    one.send("GET", url, None, None)
    first = one.connection_epoch()
    assert one.send("GET", url, None, None).ok
    assert len(asked) == 3
    assert one.connection_epoch() != first


def test_a_server_that_is_gone_changes_the_epoch(transport):
    """A refused connection says that the server was stopped."""
    one = transport(f"http://127.0.0.1:{refused_port()}")
    first = one.connection_epoch()
    failure(one)
    assert one.connection_epoch() != first


@pytest.mark.slow
def test_another_hosts_connections_do_not_change_the_epoch(serve, replaceable, transport):
    """The logs of tasks are on other servers."""
    url, replace = replaceable
    server = serve(lambda _: (200, {}, "{}"))
    one = transport(server.url)
    one.send("GET", server.url, None, None)
    one.send("GET", f"{url}/log", None, None)
    first = one.connection_epoch()
    replace()
    time.sleep(0.1)
    assert one.connection_epoch() == first


@pytest.mark.slow
def test_the_epoch_of_a_fork_changes_where_the_server_was_replaced(replaceable, transport):
    """A child has its parent's memory, and looks at its parent's connections once before it opens its own."""
    url, replace = replaceable
    one = transport(url)
    one.send("GET", f"{url}/x", None, None)
    first = one.connection_epoch()
    replace()
    time.sleep(0.1)
    child = os.fork()
    if child == 0:
        try:
            one.send("GET", f"{url}/x", None, None)
            os._exit(0 if one.connection_epoch() != first else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_the_epoch_is_constant_without_connections(serve, transport, monkeypatch):
    """Mocks, proxies, and servers that close each connection give no sign."""
    with responses.RequestsMock() as mock:
        mock.get("http://pai.test/x", json={})
        mocked = transport("http://pai.test")
        before = mocked.connection_epoch()
        mocked.send("GET", "http://pai.test/x", None, None)
        assert mocked.connection_epoch() == before
    closing = serve(lambda _: (200, {"Connection": "close"}, "{}"))
    one = transport(closing.url)
    before = one.connection_epoch()
    for _ in range(2):
        one.send("GET", closing.url, None, None)
    assert one.connection_epoch() == before
    monkeypatch.setenv("http_proxy", closing.url)
    proxied = transport("http://pai.invalid")
    before = proxied.connection_epoch()
    proxied.send("GET", "http://pai.invalid", None, None)
    assert proxied.connection_epoch() == before


def test_the_epoch_is_cheap(serve, transport):
    """Its owner asks for it before each use of its memory."""
    server = serve(lambda _: (200, {}, "{}"))
    one = transport(server.url)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: one.send("GET", server.url, None, None), range(8)))
    times = []
    for _ in range(20):
        started = time.thread_time()
        for _ in range(50):
            one.connection_epoch()
        times.append((time.thread_time() - started) / 50)
    assert min(times) < 20e-6


# ---------------------------------------------------------------- URLs


def test_the_error_of_a_url_without_a_scheme(transport):
    """The text is of the setting, without a library's words."""
    assert str(failure(transport("127.0.0.1:9186"))) == (
        "pai_url = '127.0.0.1:9186' is not a valid URL: it must begin with http:// or https://; "
        f"check {SETTING}, and that the rest-server runs"
    )


@pytest.mark.parametrize("location", ["ftp://h/?token=hunter2", "http://a..b/?token=hunter2"])
def test_a_redirect_to_a_url_that_cannot_be_asked_does_not_blame_pai_url(serve, transport, location):
    """It is an invalid reply, and shows no token of its own."""
    server = serve(lambda _: (302, {"Location": location}, ""))
    text = str(failure(transport(server.url), InvalidReply))
    assert text.startswith(f"{server.url}/api/v1/jobs/x redirects to an invalid URL: ")
    assert "hunter2" not in text


def test_a_log_on_another_host_does_not_blame_pai_url(serve, transport):
    """What fails is named; there is nothing to correct in the configuration."""
    server = serve(lambda _: (200, {}, "{}"))
    port = refused_port()
    with pytest.raises(ClusterUnreachable) as caught:
        transport(server.url).send("GET", f"http://127.0.0.1:{port}/log?token=hunter2", None, None)
    assert str(caught.value) == f"cannot reach http://127.0.0.1:{port}: Connection refused"
