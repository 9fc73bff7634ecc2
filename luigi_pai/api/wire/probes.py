"""Which of http and TLS a port speaks, asked only when a request with the other one has failed."""

from __future__ import annotations

import socket
import ssl
import time

__all__ = ["TLS_PORT_PHRASES", "speaks_http", "speaks_tls"]

_SECONDS = 2.0
_ENOUGH = 4096  # bytes of an answer

TLS_PORT_PHRASES = (b"to HTTPS port", b"to an HTTPS server", b"to an SSL-enabled server port")
"""What nginx, Go and Apache answer with status 400 to plain http on a TLS port."""


def speaks_http(host: str, port: int) -> bool:
    """Return whether a port answers a plain http request as an http port does.

    Waits for at most 2 s for the connection and again for the answer.
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
        pass  # what has arrived decides
    return answer.startswith(b"HTTP/") and not any(phrase in answer for phrase in TLS_PORT_PHRASES)


def speaks_tls(host: str, port: int) -> bool:
    """Return whether a port takes part in a TLS handshake, with whatever certificate.

    Waits for at most 2 s for the connection and again for each message of the handshake.
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
