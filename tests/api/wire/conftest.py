"""Transports, servers of raw sockets, and a certificate."""

from __future__ import annotations

import contextlib
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from transports import make_certificate

from luigi_pai.api.wire.transport import Account, Transport


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
