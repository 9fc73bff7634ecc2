"""A real HDFS of two DataNodes that are killed, and of a NameNode in safe mode."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor, wait
from urllib.parse import urlsplit

import pytest
from hdfs_backend import EACH_HADOOP, Backend, content, names, own_hdfs, written

from luigi_pai.files import HdfsError

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
        with pytest.raises(HdfsError, match=r"^HDFS CREATE .*: no answer"):
            write()
        assert names(fs, home) == ["f"]
        with pytest.raises(HdfsError, match=r"^HDFS OPEN .*: no answer \(Connection refused\)"):
            fs.open_reader(f"{home}/f")
        with pytest.raises(HdfsError, match=r"^HDFS CREATE .*: no answer \(Connection refused\)"):
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
