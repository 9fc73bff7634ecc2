"""Requests to one server: TLS and proxies, what failed in one line, broken reads, replaced servers."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
import responses

from luigi_pai.api.wire import environment as environment_module
from luigi_pai.api.wire.transport import Account, Transport
from luigi_pai.errors import ClusterUnreachable, ConfigError, InvalidReply, PaiError
from luigi_pai.local import LocalPai

SETTING = "pai_url in [OpenPai] of luigi.cfg"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(autouse=True)
def _no_ca_bundle(monkeypatch):
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def transport():
    """Make transports; all are closed after the test."""
    made = []

    def make(url, **about):
        made.append(Transport(Account(url, "admin", **{"connect_timeout": 5.0, "read_timeout": 2.0} | about)))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def sockets():
    """Start servers that hand each connection to a function of its socket; returns their port."""
    opened = []
    pool = ThreadPoolExecutor(16)

    def start(handle):
        listener = socket.create_server(("127.0.0.1", 0))
        opened.append(listener)

        def serve_one(connection):
            with connection, contextlib.suppress(OSError):
                handle(connection)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):  # or what was not read would reset the connection
                    pass

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    opened.append(listener.accept()[0])
                    pool.submit(serve_one, opened[-1])

        pool.submit(accept)
        return listener.getsockname()[1]

    yield start
    for one in opened:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    pool.shutdown()
    for one in opened:
        one.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1: the file of its CA, and the server's context."""
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("needs openssl to make a certificate")
    return make_certificate(openssl, tmp_path_factory.mktemp("tls"), "IP:127.0.0.1")


def make_certificate(openssl, folder, name, *more):
    words = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out ca.pem -days 2 -subj /CN=test"
    command = [openssl, *words.split(), "-addext", f"subjectAltName={name}", *more]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return folder / "ca.pem", context


def failure(transport, kind=ClusterUnreachable, method="GET", path="/api/v1/jobs/x"):
    """Send one request that fails, and return the error."""
    account = transport._account
    with pytest.raises(PaiError) as caught:
        transport.send(method, f"{account.url}{path}", None if method == "GET" else "{}", "secret-token")
    assert type(caught.value) is kind, caught.value
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "\n" not in str(caught.value)
    return caught.value


def refused_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


# ---------------------------------------------------------------- http and TLS mixed up


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_https_to_an_http_server_advises_http(serve, transport, method):
    """The server speaks http: the advice is about pai_url, and not about a certificate."""
    url = serve(lambda _: (200, {}, "{}")).url.replace("http:", "https:")
    error = failure(transport(url), method=method)
    assert str(error) == f"{url} speaks http, not TLS; write http:// in place of https:// in {SETTING}"
    assert not error.answer_lost


@pytest.mark.slow
def test_https_to_the_local_server_is_told_within_seconds(transport):
    """It waits for the rest of an http request, and says nothing to a TLS handshake for 20 s."""
    with LocalPai() as server:
        url = server.url.replace("http:", "https:")
        started = time.monotonic()
        error = failure(transport(url, connect_timeout=10.0, read_timeout=30.0))
        assert time.monotonic() - started < 8
    assert str(error) == f"{url} speaks http, not TLS; write http:// in place of https:// in {SETTING}"


def test_a_slow_handshake_is_given_the_whole_timeout(sockets, transport, certificate, monkeypatch):
    """A TLS server that takes longer than the first, short handshake is not given up."""
    ca, context = certificate
    monkeypatch.setattr("luigi_pai.api.wire.connections._QUICK_HANDSHAKE", 0.2)

    def slow(connection):
        time.sleep(0.7)
        with context.wrap_socket(connection, server_side=True) as tls:
            tls.recv(65536)
            tls.sendall(ANSWER)

    port = sockets(slow)
    assert (
        transport(f"https://127.0.0.1:{port}", verify=str(ca))
        .send("GET", f"https://127.0.0.1:{port}/x", None, None)
        .ok
    )


def test_a_handshake_without_an_answer_is_told_as_such(sockets, transport):
    """A port that takes a connection and says nothing is no server that did not answer a request."""
    stop = threading.Event()
    port = sockets(lambda _: stop.wait(10))
    error = failure(transport(f"https://127.0.0.1:{port}", connect_timeout=0.3), method="POST")
    assert str(error) == (
        f"https://127.0.0.1:{port} took the connection but did not complete the TLS handshake within 0.3 s; "
        f"check host and port of {SETTING}"
    )
    assert not error.answer_lost
    stop.set()


def test_https_to_something_else_names_host_and_port(sockets, transport):
    """A port that speaks neither http nor TLS: no advice about schemes or certificates."""
    port = sockets(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.0\r\n"))
    text = str(failure(transport(f"https://127.0.0.1:{port}")))
    assert text.startswith(f"TLS with https://127.0.0.1:{port} failed: ")
    assert text.endswith(f"; check host and port of {SETTING}")


@pytest.mark.parametrize(
    "answer",
    [
        b"\x15\x03\x01\x00\x02\x02\x16",
        (
            b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"
            b"<center>The plain HTTP request was sent to HTTPS port</center>"
        ),
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
    ],
    ids=["alert", "nginx", "Go"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_http_to_a_tls_port_advises_https(sockets, transport, method, answer):
    """A TLS port refuses plain http in several ways; all get the same advice."""

    def refuse(connection):
        connection.recv(65536)
        connection.sendall(answer)

    url = f"http://127.0.0.1:{sockets(refuse)}"
    error = failure(transport(url), method=method)
    assert str(error) == f"{url} speaks TLS, not http; write https:// in place of http:// in {SETTING}"
    assert not error.answer_lost


def test_http_to_a_tls_port_that_hangs_up_advises_https(sockets, transport, certificate):
    """Python's own TLS servers hang up without a word."""
    context = certificate[1]
    url = f"http://127.0.0.1:{sockets(lambda c: context.wrap_socket(c, server_side=True).close())}"
    error = failure(transport(url), method="POST")
    assert str(error) == f"{url} speaks TLS, not http; write https:// in place of http:// in {SETTING}"


def test_a_redirect_to_a_wrong_scheme_does_not_blame_pai_url(serve, transport):
    """Where a redirect leads is not what is configured."""
    server = serve(lambda asked: (302, {"Location": f"https://127.0.0.1:{server.port}{asked.path}"}, ""))
    assert str(failure(transport(server.url))) == (
        f"https://127.0.0.1:{server.port}, where {server.url} redirects to, speaks http, not TLS"
    )


# ---------------------------------------------------------------- certificates


def tls_server(context):
    def answer(connection):
        with context.wrap_socket(connection, server_side=True) as tls:
            tls.recv(65536)
            tls.sendall(ANSWER)

    return answer


def test_an_unknown_ca_advises_verify(sockets, transport, certificate):
    """Only a problem with a certificate advises to set verify."""
    url = f"https://127.0.0.1:{sockets(tls_server(certificate[1]))}"
    assert str(failure(transport(url))) == (
        f"the certificate of {url} was refused: self-signed certificate; "
        "set verify in [OpenPai] of luigi.cfg to the file of its CA"
    )


def test_an_unknown_ca_names_the_bundle_of_the_environment(sockets, transport, certificate, monkeypatch):
    """Where REQUESTS_CA_BUNDLE replaces the usual CAs, it is what is named."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", requests.certs.where())
    url = f"https://127.0.0.1:{sockets(tls_server(certificate[1]))}"
    assert str(failure(transport(url))) == (
        f"the certificate of {url} was refused: self-signed certificate; the file that REQUESTS_CA_BUNDLE "
        "names does not have its CA; set verify in [OpenPai] of luigi.cfg"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("certificate")  # for openssl
def test_a_certificate_for_another_host_advises_the_host(sockets, transport, tmp_path):
    """A CA in verify does not help there."""
    ca, context = make_certificate("openssl", tmp_path, "DNS:pai.example")
    url = f"https://127.0.0.1:{sockets(tls_server(context))}"
    text = str(failure(transport(url, verify=str(ca))))
    assert text.startswith(f"the certificate of {url} was refused: ")
    assert text.endswith(f"; write the host that the certificate is for in {SETTING}")


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_the_ca_bundle_of_the_environment_is_used(sockets, transport, certificate, monkeypatch, name):
    """It counts where verify is true, and only there."""
    url = f"https://127.0.0.1:{sockets(tls_server(certificate[1]))}"
    monkeypatch.setenv(name, str(certificate[0]))
    assert transport(url).send("GET", url, None, None).ok
    monkeypatch.setenv(name, "/no/such/file")
    assert transport(url, verify=str(certificate[0])).send("GET", url, None, None).ok


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_missing_ca_bundle_is_named_with_its_variable(transport, monkeypatch, name):
    """The variable and the file, and what to do."""
    monkeypatch.setenv(name, "/no/such/bundle.pem")
    assert str(failure(transport("https://pai.invalid"), ConfigError)) == (
        f"{name} in the environment names '/no/such/bundle.pem', which does not exist; "
        "correct or unset it, or set verify in [OpenPai] of luigi.cfg"
    )


def test_a_ca_bundle_is_not_asked_for_without_tls(serve, transport, monkeypatch):
    """A server without TLS is not the worse for it."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/bundle.pem")
    server = serve(lambda _: (200, {}, "{}"))
    assert transport(server.url).send("GET", server.url, None, None).ok


def test_a_ca_file_without_certificates_is_named(sockets, transport, certificate, tmp_path):
    """A file that is no PEM is a setting to correct, not a server's fault."""
    wrong = tmp_path / "ca.pem"
    wrong.write_text("not a certificate")
    url = f"https://127.0.0.1:{sockets(tls_server(certificate[1]))}"
    assert str(failure(transport(url, verify=str(wrong)), ConfigError)) == (
        f"verify = {str(wrong)!r} in [OpenPai] of luigi.cfg is not a file of CA certificates (PEM); "
        "write true, false or a file of CA certificates"
    )


# ---------------------------------------------------------------- proxies


FORM = "write http://HOST:PORT or http://USER:PASSWORD@HOST:PORT"
ESCAPES = "write them as %2F, %3F and %23 (http://USER:PASSWORD@HOST:PORT)"
PART = "has a /, ? or # in its user or password; " + ESCAPES


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("http://user:hun/ter2@proxy:3128", PART),
        ("http://user:12/hunter2@proxy:3128", PART),
        ("http://user:hunter2#@proxy:3128", PART),
        ("http://user:hunter2?x@proxy:3128", PART),
        ("http://user:hunter2@proxy:port", f"is not a valid proxy URL; {FORM}"),
        ("http://user:hunter2@proxy:99999", f"is not a valid proxy URL; {FORM}"),
        ("http://user:hunter2@", f"is not a valid proxy URL; {FORM}"),
        ("http://", f"is not a valid proxy URL; {FORM}"),
        ("http://[::1", f"is not a valid proxy URL; {FORM}"),
        ("user:hunter2@proxy:port", f"is not a valid proxy URL; {FORM}"),
        ("ftp://user:hunter2@proxy:3128", f"has an unsupported scheme; {FORM}"),
        (
            "http://user:hunter2€@proxy:3128",
            "has a character in its user or password that no proxy login can carry",
        ),
    ],
)
@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("http_proxy", "http://pai.invalid"),
        ("HTTP_PROXY", "http://pai.invalid"),
        ("https_proxy", "https://pai.invalid"),
        ("ALL_PROXY", "http://pai.invalid"),
    ],
)
def test_a_malformed_proxy_is_named_by_its_variable(
    transport, monkeypatch, caplog, name, url, value, problem
):
    """No part of its value is shown: it may be a password."""
    monkeypatch.setenv(name, value)
    error = failure(transport(url), ConfigError)
    assert str(error) == f"{name} in the environment {problem}"
    assert "hun" not in str(error) + caplog.text


def test_a_malformed_proxy_after_a_redirect_is_named_too(serve, transport, monkeypatch):
    """The proxy of the other scheme is read when a redirect leads there."""
    monkeypatch.setenv("https_proxy", "http://user:hun/ter2@proxy:3128")
    server = serve(lambda _: (302, {"Location": "https://pai.invalid/"}, ""))
    assert str(failure(transport(server.url), ConfigError)) == f"https_proxy in the environment {PART}"


@pytest.mark.skipif(environment_module._has_socks(), reason="PySocks is installed")
def test_a_socks_proxy_says_what_it_needs(transport, monkeypatch):
    """requests' own text names no setting."""
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy:1080")
    assert str(failure(transport("http://pai.invalid"), ConfigError)) == (
        "ALL_PROXY in the environment names a SOCKS proxy, which needs a package: "
        "pip install 'requests[socks]'"
    )


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_refuses_is_named_by_its_variable(transport, monkeypatch, scheme):
    """Nothing of its value is shown, and nothing was sent."""
    monkeypatch.setenv(f"{scheme}_proxy", f"http://user:hunter2@127.0.0.1:{refused_port()}")
    error = failure(transport(f"{scheme}://pai.invalid"), method="POST")
    assert str(error) == (
        f"cannot reach {scheme}://pai.invalid through the proxy of {scheme}_proxy in the environment: "
        f"Connection refused; correct {scheme}_proxy, or name the host in no_proxy"
    )
    assert not error.answer_lost


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_a_login_is_named(sockets, transport, monkeypatch, scheme):
    """A 407 is the proxy's, of a tunnel and of a plain request."""

    def refuse(connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    monkeypatch.setenv(f"{scheme}_proxy", f"http://user:hunter2@127.0.0.1:{sockets(refuse)}")
    error = failure(transport(f"{scheme}://pai.invalid"), method="POST")
    assert str(error) == (
        f"the proxy of {scheme}_proxy in the environment requires a login (407), or refused its user and "
        f"password; write http://USER:PASSWORD@HOST:PORT in {scheme}_proxy, "
        "or name the host of pai_url in no_proxy"
    )
    assert not error.answer_lost


def test_a_proxy_that_refuses_the_tunnel_is_named(sockets, transport, monkeypatch):
    """Its own status is part of the text."""

    def refuse(connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{sockets(refuse)}")
    error = failure(transport("https://pai.invalid"), method="POST")
    assert str(error) == (
        "the proxy of https_proxy in the environment refused a connection to https://pai.invalid: "
        "403 Forbidden; name the host in no_proxy if it can be reached directly"
    )
    assert not error.answer_lost


def test_a_407_of_the_server_itself_is_its_answer(serve, transport):
    """Without a proxy it is no proxy's."""
    server = serve(lambda _: (407, {}, ""))
    assert transport(server.url).send("GET", server.url, None, None).status_code == 407


def test_a_connection_that_breaks_behind_a_proxy_leaves_the_answer_lost(sockets, transport, monkeypatch):
    """The proxy had the request: the server may have it too."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{sockets(lambda c: c.recv(65536))}")
    error = failure(transport("http://pai.invalid"), method="POST")
    assert str(error).startswith(
        "the connection to http://pai.invalid through the proxy of http_proxy broke before it answered (POST)"
    )
    assert error.answer_lost


# ---------------------------------------------------------------- the environment is read once


def test_the_environment_is_read_once(serve, transport, monkeypatch):
    """Requests after the first read neither proxies nor no_proxy again."""
    server = serve(lambda _: (200, {}, "{}"))
    one = transport(server.url)
    assert one.send("GET", f"{server.url}/a", None, None).ok
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{refused_port()}")
    assert one.send("GET", f"{server.url}/b", None, None).ok
    with pytest.raises(ClusterUnreachable, match="through the proxy of http_proxy"):
        transport(server.url).send("GET", f"{server.url}/c", None, None)


def test_the_proxy_of_a_redirects_target_is_its_own(serve, transport, monkeypatch):
    """A host in no_proxy that redirects to another: the other is asked through the proxy."""
    proxy = serve(lambda asked: (200, {}, f'"{asked.path}"'))
    server = serve(lambda _: (302, {"Location": "http://elsewhere.invalid/x"}, ""))
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    response = transport(server.url).send("GET", f"{server.url}/y", None, "secret-token")
    assert response.json() == "http://elsewhere.invalid/x"
    assert "Authorization" not in proxy.asked[0].headers


def test_a_redirect_out_of_the_proxy_goes_directly(serve, transport, monkeypatch):
    """The other way round: the target is in no_proxy, and takes no proxy's login along."""
    server = serve(lambda _: (200, {}, '"direct"'))
    proxy = serve(lambda _: (302, {"Location": f"{server.url}/x"}, ""))
    monkeypatch.setenv("http_proxy", proxy.url.replace("http://", "http://user:hunter2@"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    response = transport("http://pai.invalid").send("GET", "http://pai.invalid/y", None, None)
    assert response.json() == "direct"
    assert proxy.asked[0].headers["Proxy-Authorization"].startswith("Basic ")
    assert "Proxy-Authorization" not in server.asked[0].headers


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
    assert str(error).startswith(f"the connection to {url} broke before it answered (POST): ")
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
    assert "broke before it answered (GET)" in str(error)
    assert len(asked) == 2


def test_tls_that_breaks_after_the_request_leaves_the_answer_lost(sockets, transport, certificate):
    """It is no failed handshake: the server had the request."""
    ca, context = certificate

    def hang_up(connection):
        tls = context.wrap_socket(connection, server_side=True)
        tls.recv(65536)
        os.close(tls.detach())  # without the end of TLS

    url = f"https://127.0.0.1:{sockets(hang_up)}"
    error = failure(transport(url, verify=str(ca)), method="POST")
    assert str(error).startswith(f"the connection to {url} broke before it answered (POST): ")
    assert error.answer_lost


@pytest.mark.parametrize("error", [requests.ConnectionError("x"), requests.ReadTimeout("x")])
def test_with_a_mocked_transport_an_answer_counts_as_lost(transport, error):
    """Where no connection says how far the request got, it may have got to the server."""
    with responses.RequestsMock() as mock:
        mock.post("http://pai.test/api/v1/jobs", body=error)
        assert failure(transport("http://pai.test"), method="POST", path="/api/v1/jobs").answer_lost


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


def wait_for_change(transport, epoch):
    end = time.monotonic() + 2
    while transport.connection_epoch() == epoch and time.monotonic() < end:
        time.sleep(0.01)
    return transport.connection_epoch()


def test_a_replaced_server_changes_the_epoch_before_a_request(replaceable, transport):
    """A server was stopped and another started: the number changes, once, with nothing sent."""
    url, replace = replaceable
    one = transport(url)
    first = one.connection_epoch()
    for _ in range(3):
        one.send("GET", f"{url}/x", None, None)
    assert one.connection_epoch() == first
    replace()
    second = wait_for_change(one, first)
    assert second != first
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
        started = time.perf_counter()
        for _ in range(50):
            one.connection_epoch()
        times.append((time.perf_counter() - started) / 50)
    assert min(times) < 20e-6


# ---------------------------------------------------------------- URLs


def test_a_url_without_a_scheme_is_told(transport):
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
    assert text.startswith(f"{server.url}/api/v1/jobs/x redirects to what is not a valid URL: ")
    assert "hunter2" not in text


def test_a_log_on_another_host_does_not_blame_pai_url(serve, transport):
    """What fails is named; there is nothing to correct in the configuration."""
    server = serve(lambda _: (200, {}, "{}"))
    port = refused_port()
    with pytest.raises(ClusterUnreachable) as caught:
        transport(server.url).send("GET", f"http://127.0.0.1:{port}/log?token=hunter2", None, None)
    assert str(caught.value) == f"cannot reach http://127.0.0.1:{port}: Connection refused"
