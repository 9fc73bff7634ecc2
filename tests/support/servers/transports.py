"""What tests of the transport share: a certificate, the error of a request, texts."""

from __future__ import annotations

import ssl
import subprocess

import pytest

from luigi_pai.errors import ClusterUnreachable, PaiError

SETTING = "pai_url in [OpenPai] of luigi.cfg"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


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
