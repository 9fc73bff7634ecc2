"""Proxies and the environment that names them."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from ports import refused_port
from transports import failure

from luigi_pai.errors import ClusterUnreachable, ConfigError

# ---------------------------------------------------------------- proxies


MALFORMED = (
    "is not a valid proxy URL; write http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with /, ? and # in "
    "user or password as %2F, %3F and %23, and in Latin-1"
)


@pytest.mark.parametrize(
    ("name", "url", "value"),
    [
        ("http_proxy", "http://pai.invalid", "http://user:hun/ter2@proxy:3128"),
        ("HTTP_PROXY", "http://pai.invalid", "http://user:12/hunter2@proxy:3128"),
        ("https_proxy", "https://pai.invalid", "http://user:hunter2#@proxy:3128"),
        ("ALL_PROXY", "http://pai.invalid", "http://user:hunter2?x@proxy:3128"),
        ("http_proxy", "http://pai.invalid", "http://user:hunter2@proxy:port"),
        ("http_proxy", "http://pai.invalid", "http://user:hunter2@proxy:99999"),
        ("http_proxy", "http://pai.invalid", "http://user:hunter2@"),
        ("http_proxy", "http://pai.invalid", "http://[::1"),
        ("http_proxy", "http://pai.invalid", "user:hunter2@proxy:port"),
        ("http_proxy", "http://pai.invalid", "ftp://user:hunter2@proxy:3128"),
        ("http_proxy", "http://pai.invalid", "http://user:hunter2€@proxy:3128"),
    ],
)
def test_a_malformed_proxy_is_named_by_its_variable(transport, monkeypatch, caplog, name, url, value):
    """No part of its value is shown: it may be a password."""
    monkeypatch.setenv(name, value)
    error = failure(transport(url), ConfigError)
    assert str(error) == f"{name} in the environment {MALFORMED}"
    assert "hun" not in str(error) + caplog.text


def test_a_malformed_proxy_after_a_redirect_is_named_too(serve, transport, monkeypatch):
    """The proxy of the other scheme is read when a redirect leads there."""
    monkeypatch.setenv("https_proxy", "http://user:hun/ter2@proxy:3128")
    server = serve(lambda _: (302, {"Location": "https://pai.invalid/"}, ""))
    assert str(failure(transport(server.url), ConfigError)) == f"https_proxy in the environment {MALFORMED}"


@pytest.mark.skipif(find_spec("socks") is not None, reason="PySocks is installed")
def test_a_socks_proxy_says_what_it_needs(transport, monkeypatch):
    """requests' own text names no setting."""
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy:1080")
    assert str(failure(transport("http://pai.invalid"), ConfigError)) == (
        "ALL_PROXY in the environment names a SOCKS proxy; install the package for it: "
        "pip install 'requests[socks]'"
    )


def unreachable(scheme, reason):
    name = f"{scheme}_proxy"
    return (
        f"cannot reach {scheme}://pai.invalid through the proxy of {name} in the environment: {reason}; "
        f"correct {name} (http://USER:PASSWORD@HOST:PORT), or name the host in no_proxy"
    )


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_refuses_is_named_by_its_variable(transport, monkeypatch, scheme):
    """Nothing of its value is shown, and nothing was sent."""
    monkeypatch.setenv(f"{scheme}_proxy", f"http://user:hunter2@127.0.0.1:{refused_port()}")
    error = failure(transport(f"{scheme}://pai.invalid"), method="POST")
    assert str(error) == unreachable(scheme, "Connection refused")
    assert not error.answer_lost


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_a_login_is_named(sockets, transport, monkeypatch, scheme):
    """A 407 is the proxy's, of a tunnel and of a plain request."""

    def refuse(connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    monkeypatch.setenv(f"{scheme}_proxy", f"http://user:hunter2@127.0.0.1:{sockets(refuse)}")
    error = failure(transport(f"{scheme}://pai.invalid"), method="POST")
    assert str(error) == unreachable(scheme, "it answered 407 Proxy Authentication Required")
    assert not error.answer_lost


def test_a_proxy_that_refuses_the_tunnel_is_named(sockets, transport, monkeypatch):
    """Its own status is part of the text."""

    def refuse(connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{sockets(refuse)}")
    error = failure(transport("https://pai.invalid"), method="POST")
    assert str(error) == unreachable("https", "it answered 403 Forbidden")
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
        "the connection to http://pai.invalid through the proxy of http_proxy broke before a reply (POST)"
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
