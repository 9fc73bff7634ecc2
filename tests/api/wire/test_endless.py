"""Replies without end, with a wrong length, or that decompress to too much: one error, and little memory."""

from __future__ import annotations

import contextlib
import functools
import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from luigi_pai.api.wire.timed_http import MAX_ANSWER
from luigi_pai.errors import InvalidReply

pytestmark = pytest.mark.slow

MOST = 200 * 1024  # KiB of memory
CLIENT = """
import pathlib, re, sys
from luigi_pai.api.wire.transport import Account, Transport
from luigi_pai.errors import InvalidReply
for url in sys.argv[1:]:
    try:
        Transport(Account(url, "admin")).send("GET", url + "/x", None, None)
    except InvalidReply as error:
        print(error)
    print(*re.findall(r"VmHWM:\\s*(\\d+) kB", pathlib.Path("/proc/self/status").read_text()))
"""


@functools.cache
def bomb() -> bytes:
    """Return 2 GB of blanks, compressed to 2 MB."""
    return gzip.compress(b" " * 20_000_000) * 100


def reply(encoding: str, body: bytes) -> bytes:
    """Return a whole reply."""
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def sends(data: bytes, *, without_end: bool = False):
    """Return what sends this to each request, or to one, followed by chunks without end."""

    def handle(connection):
        with contextlib.suppress(OSError):
            while connection.recv(65536):
                connection.sendall(data)
                while without_end:
                    connection.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")

    return handle


CHUNKED = b"HTTP/1.1 %s\r\nTransfer-Encoding: chunked\r\n\r\n"
REPLIES = {
    "gzip": lambda: sends(reply("gzip", bomb())),
    "gzip of an error": lambda: sends(reply("gzip", bomb()).replace(b"200 OK", b"400 No")),
    "gzip of a redirect": lambda: sends(
        reply("gzip", bomb()).replace(b"200 OK\r\n", b"302 No\r\nLocation: /y\r\n")
    ),
    "chunks without end": lambda: sends(CHUNKED % b"200 OK", without_end=True),
    "chunks without end, of an error that is repeated": lambda: sends(CHUNKED % b"503 No", without_end=True),
    "a length that is a lie": lambda: sends(
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\n", without_end=True
    ),
    "no length": lambda: sends(b"HTTP/1.1 200 OK\r\n\r\n", without_end=True),
}
NOT_DECOMPRESSED = ["gzip, gzip", "br", "zstd", "deflate", "x-unknown"]


@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux says how much memory was used")
def test_a_reply_has_a_bound(sockets):
    """In length, as it arrives and as it is decompressed; a client that meets all stays below 200 MB."""
    urls = [f"http://127.0.0.1:{sockets(answer())}" for answer in REPLIES.values()]
    command = [sys.executable, "-c", CLIENT, *urls]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    printed = done.stdout.splitlines()
    for kind, url, error, memory in zip(REPLIES, urls, printed[::2], printed[1::2], strict=True):
        assert f"the response is longer than 64 MiB; is {url}" in error, kind
        assert int(memory) < MOST, kind


@pytest.mark.parametrize("encoding", NOT_DECOMPRESSED)
def test_only_gzip_is_decompressed(sockets, transport, encoding):
    """Others have no bound, one inside the other neither; none of them was asked for."""
    url = f"http://127.0.0.1:{sockets(sends(reply(encoding, b'{}')))}"
    assert transport(url).send("GET", f"{url}/x", None, None).content == b"{}"


def test_a_large_reply_is_read(sockets, transport):
    """One that is just within the bound, compressed."""
    data = gzip.compress(b'"' + b"x" * (MAX_ANSWER - 2) + b'"', 1)
    url = f"http://127.0.0.1:{sockets(sends(reply('gzip', data)))}"
    assert len(transport(url).send("GET", f"{url}/x", None, None).content) == MAX_ANSWER
    more = gzip.compress(b" " * (MAX_ANSWER + 1), 1)
    url = f"http://127.0.0.1:{sockets(sends(reply('gzip', more)))}"
    with pytest.raises(InvalidReply, match="longer than 64 MiB"):
        transport(url).send("GET", f"{url}/x", None, None)
