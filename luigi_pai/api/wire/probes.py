"""Probes of a port for plain http and for TLS, made after a request has failed."""

from __future__ import annotations

import socket
import ssl
import time

__all__ = ["TLS_PORT_PHRASES", "speaks_http", "speaks_tls"]

_SECONDS = 2.0
_ENOUGH = 4096  # bytes of a reply

TLS_PORT_PHRASES = (b"to HTTPS port", b"to an HTTPS server", b"to an SSL-enabled server port")
"""Phrases in the reply (400) of nginx, Go and Apache to plain http on a TLS port."""


def speaks_http(host: str, port: int) -> bool:
    """Return whether a port replies to a plain http request with http.

    Waits at most 2 s for the connection and 2 s for the reply.
    """
    request = f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
    answer = b""
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as connected:
            connected.sendall(request.encode("ascii", "replace"))
            end = time.monotonic() + _SECONDS
            while len(answer) < _ENOUGH and time.monotonic() < end and (part := connected.recv(_ENOUGH)):
                answer += part
    except (OSError, ValueError):
        pass  # the bytes received so far decide
    return answer.startswith(b"HTTP/") and not any(phrase in answer for phrase in TLS_PORT_PHRASES)


def speaks_tls(host: str, port: int) -> bool:
    """Return whether a port takes part in a TLS handshake, with any certificate.

    Waits at most 2 s for the connection and 2 s for each message of the handshake.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=_SECONDS) as connected,
            context.wrap_socket(connected, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except (OSError, ValueError):
        return False
