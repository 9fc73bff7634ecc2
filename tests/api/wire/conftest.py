"""Transports and a certificate."""

from __future__ import annotations

import contextlib
import shutil

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
    with contextlib.ExitStack() as made:

        def make(url, **about):
            account = Account(url, "admin", **{"connect_timeout": 5.0, "read_timeout": 2.0} | about)
            return made.enter_context(contextlib.closing(Transport(account)))

        yield make


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1: the file of its CA, and the server's context."""
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("needs openssl to make a certificate")
    return make_certificate(openssl, tmp_path_factory.mktemp("tls"), "IP:127.0.0.1")
