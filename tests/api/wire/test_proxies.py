"""Proxies and the environment that names them."""

from __future__ import annotations

import sys

import pytest
from api_cases import cases
from ports import refused_port
from transports import failure

from luigi_pai.errors import ClusterUnreachable, ConfigError, MissingPackage

# ---------------------------------------------------------------- proxies


MALFORMED = "is not a valid proxy URL; write http://HOST:PORT or http://USER:PASSWORD@HOST:PORT"
# requests would take the URL of the server to be wrong
NO_SOCKS = (
    "is a SOCKS proxy, for which PySocks is missing: pip install 'requests[socks]', or name the host in "
    "no_proxy"
)


@cases("variable scheme value message")
def test_an_unusable_proxy_is_named_by_its_variable(
    transport, monkeypatch, caplog, variable, scheme, value, message
):
    """No part of its value is shown: it may be a password."""
    monkeypatch.setitem(sys.modules, "socks", None)
    monkeypatch.setenv(variable, value)
    kind, words = (MissingPackage, NO_SOCKS) if message == "SOCKS" else (ConfigError, MALFORMED)
    assert (
        str(failure(transport(f"{scheme}://pai.invalid"), kind)) == f"{variable} in the environment {words}"
    )
    assert "hun" not in caplog.text


@pytest.mark.parametrize(
    "value",
    ["http://user:12/hunter2@proxy:3128", "http://user:hunter2€@proxy:3128"],
)
def test_a_proxy_that_cannot_be_used_is_named_by_its_variable(transport, monkeypatch, caplog, value):
    """Without any part of its value, as above."""
    monkeypatch.setenv("http_proxy", value)
    text = str(failure(transport("http://pai.invalid")))
    assert text.startswith(
        "cannot reach http://pai.invalid through the proxy of http_proxy in the environment: "
    )
    assert "hun" not in text + caplog.text


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


def test_a_proxy_that_refuses_the_tunnel_is_named(sockets, transport, monkeypatch):
    """Its own status is part of the text: 407, for example, where it requires a login."""

    def refuse(connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    monkeypatch.setenv("https_proxy", f"http://user:hunter2@127.0.0.1:{sockets(refuse)}")
    error = failure(transport("https://pai.invalid"), method="POST")
    assert str(error) == unreachable("https", "Tunnel connection failed: 407 Proxy Authentication Required")
    assert not error.answer_lost


def test_a_connection_that_breaks_behind_a_proxy_leaves_the_answer_lost(sockets, transport, monkeypatch):
    """The proxy had the request: the server may have it too."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{sockets(lambda c: c.recv(65536))}")
    error = failure(transport("http://pai.invalid"), method="POST")
    assert str(error).startswith(
        "the connection to http://pai.invalid through the proxy of http_proxy in the environment broke "
        "before a response (POST)"
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
