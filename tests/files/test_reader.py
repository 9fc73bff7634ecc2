"""Reading: in parts, and never a part as the whole; after a break, the rest is requested again."""

from __future__ import annotations

import io
import os
import random
import re
import time
from types import SimpleNamespace

import pytest
from cutting_proxy import before_datanodes
from hdfs_backend import ON_HDFS, written
from leaks import chain
from webhdfs_scripted import looked_up, scripted_fs

from luigi_pai.api.wire import repeats
from luigi_pai.files import HdfsError, HdfsTarget

SIZE = 8 * 2**20
DATA = random.Random(5).randbytes(SIZE)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch):
    monkeypatch.setattr(repeats, "time", SimpleNamespace(sleep=lambda _seconds: None))


@pytest.fixture
def proxy(backend, fs, home):
    """A proxy before the DataNode, and 8 MiB in the file ``f``."""
    with fs.open_writer(f"{home}/f") as file:
        file.write(DATA)
    with before_datanodes(backend, f"{home}/f") as found:
        yield found


@ON_HDFS
@pytest.mark.parametrize("orderly", [False, True], ids=["reset", "end"])
@pytest.mark.parametrize(("cuts", "down"), [(1, 2_000_000), (3, 2_000_000), (1, 10)])
def test_a_read_that_breaks_goes_on(*, cuts, down, orderly, backend, proxy, home):
    """When the connection to a DataNode breaks, the rest is read, and nothing is twice or missing."""
    proxy.cuts, proxy.down, proxy.orderly = cuts, down, orderly
    with backend.fs(redirect=proxy.url).open_reader(f"{home}/f") as file:
        assert file.read() == DATA
    assert proxy.connections == cuts + 1


@ON_HDFS
def test_a_read_that_breaks_again_and_again(backend, proxy, home):
    """After a number of tries without progress there is an error; all bytes read before are correct."""
    proxy.cuts, proxy.down = 1000, 3000
    read = bytearray()

    def read_all():
        with backend.fs(redirect=proxy.url).open_reader(f"{home}/f") as file:
            while part := file.read1(1000):
                read.extend(part)

    with pytest.raises(HdfsError, match=rf"^HDFS OPEN {home}/f on .*"):
        read_all()
    assert DATA.startswith(read)
    assert len(read) < 40_000
    assert proxy.connections < 40  # a GET is sent up to three times


@ON_HDFS
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda fs, path: written(fs, path, "\0" * SIZE),
            "the connection broke, and the file was replaced since it was opened",
        ),
        (lambda fs, path: fs.remove(path), "FileNotFoundException"),
    ],
    ids=["replaced", "removed"],
)
def test_a_file_that_changes_meanwhile(change, message, backend, fs, proxy, home):
    """No part is read of a file that was replaced, even by one as long, while the connection was broken."""
    proxy.cuts, proxy.down = 1, 2_000_000
    with backend.fs(redirect=proxy.url).open_reader(f"{home}/f") as file:
        start = file.read(1000)
        time.sleep(0.01)  # modification times are in ms
        change(fs, f"{home}/f")
        with pytest.raises(HdfsError, match=message):
            file.read()
    assert DATA.startswith(start)


def served(parts, length, headers=None):
    """Return a script: a file of a length, of which each OPEN sends the next part and ends."""

    def script(handler):
        offset = int((re.search(r"offset=(\d+)", handler.path) or [0, 0])[1])
        asked.append(offset)
        handler.send_response(200)
        for name, value in ({"Content-Length": str(length - offset)} if headers is None else headers).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(parts.pop(0) if parts else b"")
        handler.close_connection = True

    asked = []
    found = looked_up(script, length=length)
    found.asked = asked
    return found


@pytest.mark.parametrize("headers", [None, {}], ids=["with Content-Length", "without"])
def test_the_rest_is_asked_for_from_where_it_broke(headers):
    """Each further OPEN has the offset of the first byte that is missing; the NameNode knows the length."""
    script = served([b"abc", b"", b"de", b"fghij"], 10, headers)
    with scripted_fs(script) as fs, fs.open_reader("/p") as file:
        assert file.read() == b"abcdefghij"
    assert script.asked == [0, 3, 3, 5]


def test_a_reply_that_is_cut_short_is_an_error():
    """A file of which only a part arrives, however often it is requested, does not count as whole."""
    message = r"^HDFS OPEN /p on 127.0.0.1:\d+: the connection broke: .*; try again$"
    with (
        scripted_fs(served([b"half"], 100)) as fs,
        HdfsTarget("/p", fs=fs).open() as file,
        pytest.raises(HdfsError, match=message) as caught,
    ):
        file.read()
    assert {type(one) for one in chain(caught.value)} == {HdfsError}, "no error of urllib3 hangs on it"


@ON_HDFS
def test_a_datanode_that_has_just_died(backend, proxy, home):
    """A DataNode that takes no connection is asked for again before that is an error."""
    proxy.close()
    fs = backend.fs(redirect=proxy.url)
    with pytest.raises(
        HdfsError, match=r"^HDFS OPEN .*: no response \(Connection refused\); NameNode .* redirected"
    ):
        fs.open_reader(f"{home}/f")


@pytest.mark.slow
def test_a_namenode_that_goes_on_naming_a_dead_datanode():
    """Those of 2.7.4 name any of a file's DataNodes, by chance: some times in a row the one that has died."""
    asked = []

    def script(handler):
        body = handler.body()
        if "alive" in handler.path:
            handler.respond(201 if body else 200, b"" if body else b"data")
        else:
            asked.append(handler.command)
            dead = asked.count("GET") <= 9 and asked.count("PUT") <= 5
            port = 1 if dead else handler.server.server_port
            handler.respond(307, Location=f"http://127.0.0.1:{port}/webhdfs/v1/p?alive")

    with scripted_fs(looked_up(script)) as fs:
        with fs.open_reader("/p") as file:
            assert file.read() == b"data"
        asked.clear()
        fs.at("/p")[0].create_file("/p", b"data")
        assert asked == ["PUT"] * 6


def test_reader_is_a_stream(fs, home):
    """The reader works line by line and with a TextIOWrapper."""
    written(fs, f"{home}/f", "one\ntwo\n")
    with fs.open_reader(f"{home}/f") as file:
        assert file.readable()
        assert [file.readline(), file.read(1), file.peek(1)[:1]] == [b"one\n", b"t", b"w"]
    with io.TextIOWrapper(fs.open_reader(f"{home}/f"), encoding="utf-8") as lines:
        assert list(lines) == ["one\n", "two\n"]


@pytest.mark.parametrize("first", [0, 1, 5000])
def test_small_and_large_reads_mix(first, fs, home):
    """Large reads bypass the buffer, but never skip its content."""
    mib = 1024 * 1024
    data = os.urandom(4 * mib + 7)
    with fs.open_writer(f"{home}/f") as writer:
        writer.write(data)
    with fs.open_reader(f"{home}/f") as file:
        parts = [file.read(first), file.read(mib), file.read(3), file.read(2 * mib), file.read(9 * mib)]
        assert [len(part) for part in parts] == [first, mib, 3, 2 * mib, mib + 4 - first]
        assert b"".join(parts) == data
        assert file.read(mib) == file.read() == b""
    with pytest.raises(ValueError, match="closed"):
        file.read(mib)
