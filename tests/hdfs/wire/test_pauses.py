"""A DataNode that stops reading, or never answers: how long it is waited for, and what the error says."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit

import pytest

from luigi_pai.files import HdfsError
from luigi_pai.files.hdfs.connection import Connection
from luigi_pai.files.hdfs.transport import Account

PARTS = 16  # of 1 MiB: more than the sockets of both sides hold
CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"


@contextlib.contextmanager
def datanode():
    """Yield a socket that a client can connect to, and the address to write a file to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, f"http://127.0.0.1:{listener.getsockname()[1]}/webhdfs/v1/f?op=CREATE"


@contextlib.contextmanager
def connected(connect_timeout, read_timeout):
    """Yield a connection with timeouts, to a NameNode that is not there."""
    bases = ("http://127.0.0.1:1/webhdfs/v1",)
    account = Account(bases, "alice", connect_timeout=connect_timeout, read_timeout=read_timeout)
    with contextlib.closing(Connection(account)) as server:
        yield server


def content(parts=PARTS):
    """Yield a file in parts of 1 MiB."""
    for _ in range(parts):
        yield bytes(2**20)


@pytest.mark.parametrize("requests", [1, 2])
def test_a_pause_in_a_write_is_bounded_by_the_read_timeout(requests):
    """On a new connection and on one that is used again, it may be longer than the connect timeout."""
    connect_timeout = 0.2
    taken = []

    def serve():
        client, _address = listener.accept()
        with client, client.makefile("rb") as sent:
            for _ in range(requests):
                threading.Event().wait(3 * connect_timeout)
                while sent.readline().strip():  # the headers
                    pass
                while length := int(sent.readline(), 16):
                    taken.append(sent.read(length + 2)[:-2])
                sent.readline()
                client.sendall(CREATED)

    with datanode() as (listener, address):
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with connected(connect_timeout, 60) as server:
            for _ in range(requests):
                server.send_once("PUT", address, "/f", "CREATE", data=content()).close()
        thread.join()
    assert sum(map(len, taken)) == requests * PARTS * 2**20


@pytest.mark.parametrize("parts", [PARTS, 0])
def test_a_datanode_that_was_reached_and_is_silent(parts):
    """The error names the setting that ended the wait; names of hosts have nothing to do with it."""
    with (
        datanode() as (_listener, address),
        connected(5, 0.2) as server,
        pytest.raises(HdfsError) as caught,
    ):
        server.send_once("PUT", address, "/f", "CREATE", data=content(parts))
    assert str(caught.value) == (
        f"HDFS CREATE /f on {urlsplit(address).netloc}: no answer within 0.2 s (read_timeout); "
        "try again, or raise read_timeout in [OpenPai]"
    )
