"""http and TLS mixed up, and certificates."""

from __future__ import annotations

import threading

import pytest
import requests
from transports import ANSWER, SETTING, failure

from luigi_pai.errors import ConfigError

# ---------------------------------------------------------------- http and TLS mixed up

NO_TLS = f"the server there does not speak TLS: check the scheme and the port of {SETTING}"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_https_to_an_http_server_names_the_setting(serve, transport, method):
    """It does not advise http, by which the password would be sent in clear."""
    url = serve(lambda _: (200, {}, "{}")).url.replace("http:", "https:")
    error = failure(transport(url, connect_timeout=1), method=method)
    assert str(error).startswith(f"cannot reach {url}: ")
    assert str(error).endswith(f"; {NO_TLS}")
    assert not error.answer_lost


@pytest.mark.slow
def test_a_handshake_without_an_answer_is_recognised(sockets, transport):
    """A port that takes a connection and says nothing is no server that did not answer a request."""
    stop = threading.Event()
    port = sockets(lambda _: stop.wait(10))
    error = failure(transport(f"https://127.0.0.1:{port}", connect_timeout=0.3), method="POST")
    assert str(error) == (f"cannot reach https://127.0.0.1:{port}: no connection within 0.3 s; {NO_TLS}")
    assert not error.answer_lost
    stop.set()


def test_http_to_a_tls_port_that_hangs_up_advises_https(sockets, transport, certificate):
    """Python's own TLS servers hang up without a word."""
    context = certificate[1]
    url = f"http://127.0.0.1:{sockets(lambda c: context.wrap_socket(c, server_side=True).close())}"
    text = str(failure(transport(url), method="POST"))
    assert text.startswith(f"the connection to {url} broke before a response (POST): ")
    assert text.endswith(f"; if it speaks TLS, write https:// in {SETTING}")


def test_a_redirect_to_a_wrong_scheme_does_not_blame_pai_url(serve, transport):
    """Where a redirect leads is not what is configured."""
    server = serve(lambda asked: (302, {"Location": f"https://127.0.0.1:{server.port}{asked.path}"}, ""))
    text = str(failure(transport(server.url, connect_timeout=2)))
    there = f"https://127.0.0.1:{server.port}"
    assert f"{there} (redirected from {server.url})" in text
    assert SETTING not in text


# ---------------------------------------------------------------- certificates


ADVICE = "correct the host in pai_url, or set verify in [OpenPai] of luigi.cfg to the file of the server's CA"
UNREADABLE = (
    "is not a readable file of CA certificates (PEM); correct it, or set verify in [OpenPai] of luigi.cfg to "
    "true, false or such a file"
)


def tls_server(context):
    def answer(connection):
        with context.wrap_socket(connection, server_side=True) as tls:
            tls.recv(65536)
            tls.sendall(ANSWER)

    return answer


@pytest.mark.parametrize("bundle", [None, requests.certs.where()])
def test_an_unknown_ca_advises_verify(sockets, transport, certificate, monkeypatch, bundle):
    """A bundle of the environment, which replaces the usual CAs, is named; nothing advises to turn it off."""
    if bundle:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", bundle)
    url = f"https://127.0.0.1:{sockets(tls_server(certificate[1]))}"
    source = " (CAs are read from the file of REQUESTS_CA_BUNDLE)" if bundle else ""
    assert str(failure(transport(url))) == (
        f"the certificate of {url} was refused: self-signed certificate{source}; {ADVICE}"
    )


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
        f"{name} = '/no/such/bundle.pem' {UNREADABLE}"
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
    assert (
        str(failure(transport(url, verify=str(wrong)), ConfigError))
        == f"verify = {str(wrong)!r} {UNREADABLE}"
    )
