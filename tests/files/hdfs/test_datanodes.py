"""DataNodes that die, pause, or never respond; a NameNode in safe mode."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from urllib.parse import urlsplit

import pytest
from hdfs_backend import EACH_HADOOP, Backend, content, names, own_hdfs, written

from luigi_pai.files import HdfsError
from luigi_pai.files.hdfs.connection import Connection
from luigi_pai.files.hdfs.transport import Account

pytestmark = pytest.mark.slow
SIZE = 64 * 2**20
PAUSE = 3.0  # seconds


@pytest.fixture(scope="module", params=EACH_HADOOP)
def own(request):
    """An HDFS of each version that nobody else uses."""
    with own_hdfs(request.param, datanodes=2) as hdfs:
        yield hdfs


@pytest.fixture
def fs(own):
    """It as a file system."""
    return Backend("own", own.url, own.user).fs()


def test_a_datanode_that_dies_in_a_read(own, fs, home):
    """When the DataNode that is read from is killed, the other one gives the rest: all of it, once."""
    data = random.Random(7).randbytes(SIZE)
    with fs.open_writer(f"{home}/f") as file:
        file.write(data)
    with fs.open_reader(f"{home}/f") as found:
        read = found.read(1000)
        victim = own.datanode_of(urlsplit(found.raw._response.url).netloc)
        own.kill_datanode(victim)
        try:
            read += found.read()
        finally:
            own.start_datanode(victim)
    assert read == data


def test_datanodes_that_die_in_a_write(own, fs, home):
    """When the DataNodes are killed in an upload, that is an error, and the old file is as it was."""
    written(fs, f"{home}/f", "old")

    def write():
        with fs.open_writer(f"{home}/f") as file:
            file.write(bytes(4 * 2**20))
            for number in (0, 1):
                own.kill_datanode(number)
            for _ in range(SIZE // 2**20):
                file.write(bytes(2**20))

    try:
        with pytest.raises(HdfsError, match=r"^HDFS CREATE .*: no response"):
            write()
        assert names(fs, home) == ["f"]
        with pytest.raises(HdfsError, match=r"^HDFS OPEN .*: no response \(Connection refused\)"):
            fs.open_reader(f"{home}/f")
        with pytest.raises(HdfsError, match=r"^HDFS CREATE .*: no response \(Connection refused\)"):
            written(fs, f"{home}/g")
    finally:
        for number in (0, 1):
            own.start_datanode(number)
    assert content(fs, f"{home}/f") == "old"
    assert names(fs, home) == ["f"]


def test_datanodes_that_pause_in_a_write(own, home):
    """For longer than connect_timeout: the file is written when they go on."""
    fs = Backend("own", own.url, own.user).fs(connect_timeout=PAUSE / 3, read_timeout=60)
    file = fs.open_writer(f"{home}/f")
    file.write(bytes(SIZE))
    with ThreadPoolExecutor(1) as pool, own.paused_datanodes():
        sent = pool.submit(file.close)
        assert not wait([sent], PAUSE).done
    sent.result()
    assert fs.count(f"{home}/f")["content_size"] == SIZE


def test_safe_mode(own, fs, home):
    """In safe mode, reads work and changes are errors that say so; after it, all is as before."""
    written(fs, f"{home}/f", "old")
    own.safe_mode(on=True)
    try:
        assert content(fs, f"{home}/f") == "old"
        for work in (
            lambda: written(fs, f"{home}/f", "new"),
            lambda: fs.mkdir(f"{home}/d"),
            lambda: fs.remove(f"{home}/f"),
            lambda: fs.move(f"{home}/f", f"{home}/g"),
            lambda: fs.chmod(f"{home}/f", "700"),
        ):
            with pytest.raises(HdfsError, match=r"(?i)safe ?mode") as caught:
                work()
            assert caught.value.exception == "SafeModeException"
        assert names(fs, home) == ["f"]
    finally:
        own.safe_mode(on=False)
    written(fs, f"{home}/f", "new")
    assert content(fs, f"{home}/f") == "new"


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


def parts_of_file(parts=PARTS):
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
                server.send_once("PUT", address, "/f", "CREATE", data=parts_of_file()).close()
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
        server.send_once("PUT", address, "/f", "CREATE", data=parts_of_file(parts))
    assert str(caught.value) == (
        f"HDFS CREATE /f on {urlsplit(address).netloc}: no response within 0.2 s (read_timeout); "
        "try again, or raise read_timeout in [OpenPai]"
    )
