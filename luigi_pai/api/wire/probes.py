"""Whether a port speaks TLS: a probe after plain http to it has failed."""

from __future__ import annotations

import socket
import ssl

__all__ = ["TLS_PORT_PHRASES", "speaks_tls"]

_SECONDS = 2.0

TLS_PORT_PHRASES = (b"to HTTPS port", b"to an HTTPS server", b"to an SSL-enabled server port")
"""Phrases in the reply (400) of nginx, Go and Apache to plain http on a TLS port."""


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
