"""Writing: published at the end, whole, or not at all."""

from __future__ import annotations

import gc
import os
import subprocess
import tracemalloc
from array import array

import luigi.contrib.hdfs
import luigi.format
import luigi.target
import pytest
from cutting_proxy import before_datanodes
from file_cases import Player, steps
from hdfs_backend import ON_HDFS, content, names, written
from webhdfs_server import serving

from luigi_pai.files import (
    HdfsError,
    HdfsTarget,
    WebHdfs,
    upload,
)
from luigi_pai.local.hdfs.webhdfs.handlers import WebHdfsHandler


@pytest.mark.parametrize("form", [luigi.format.Nop, luigi.format.Gzip])
@pytest.mark.parametrize("size", [10, 3_000_000])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_exception_publishes_nothing(error, size, form, fs, home):
    """After an exception inside ``with``, the old file is as it was, and no temporary file is left."""
    target = HdfsTarget(written(fs, f"{home}/f", "old"), format=form, fs=fs)

    def fail():
        with target.open("w") as file:
            opened.append(file)
            file.write(os.urandom(size))
            raise error

    opened = []  # not forgotten: it must be tidied up by the end of ``with``
    with pytest.raises(error):
        fail()
    assert content(fs, f"{home}/f") == "old"
    assert names(fs, home) == ["f"]
    assert vars(opened[0]).get("_output_pipe", opened[0]).closed


def test_a_dropped_writer_publishes_nothing(fs, home):
    """A file that is never closed does not appear, and nothing of it is sent."""
    file = HdfsTarget(f"{home}/f", format=luigi.format.Nop, fs=fs).open("w")
    file.write(b"x" * 3_000_000)
    del file
    gc.collect()
    assert names(fs, home) == []


def test_closing_twice_publishes_once(fs, home):
    """close() may be called again; writing after it is an error."""
    file = HdfsTarget(f"{home}/f", format=luigi.format.Nop, fs=fs).open("w")
    file.write(b"once")
    file.close()
    file.close()
    assert content(fs, f"{home}/f") == "once"
    with pytest.raises(ValueError, match="closed"):
        file.write(b"x")


def test_a_process_between_writes(fs, home):
    """The data of a process are between the data that were written before and after it."""
    with fs.open_writer(f"{home}/f") as file:
        file.write(b"head\n")
        subprocess.run(["echo", "process"], stdout=file, check=True, timeout=20)
        file.write(b"x" * 2_000_000)
        file.write(b"\ntail")
    assert content(fs, f"{home}/f") == "head\nprocess\n" + "x" * 2_000_000 + "\ntail"


def test_no_writing_onto_a_folder(fs, home):
    """A file cannot take the place of a folder; the temporary file is deleted."""
    written(fs, f"{home}/d/f")
    file = HdfsTarget(f"{home}/d", fs=fs).open("w")
    file.write("text")
    with pytest.raises(HdfsError, match=r"must both be directories|d is a folder"):
        file.close()
    assert names(fs, home) == ["d", "d/f"]
    with pytest.raises(HdfsError, match="RENAME"):
        written(fs, "/")
    assert [name for name in fs.listdir("/") if "luigi-pai-tmp" in name] == []


@pytest.mark.slow
def test_memory_stays_flat(fs, home):
    """32 MiB pass through a target in both directions in less than 12 MiB of memory."""
    target, part, size = HdfsTarget(f"{home}/big", format=luigi.format.Nop, fs=fs), bytes(1 << 20), 0
    tracemalloc.start()
    with target.open("w") as file:
        for _ in range(32):
            file.write(part)
    with target.open() as file:
        while found := file.read(1 << 20):
            size += len(found)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 32 << 20
    assert memory < 12 << 20


@ON_HDFS
@pytest.mark.slow
@pytest.mark.parametrize(
    "cut",
    [{"up": 0}, {"up": 300}, {"up": 2_000_000}, {"down": 1}],
    ids=["at once", "in its head", "in its middle", "its answer"],
)
@pytest.mark.parametrize("size", [8 * 2**20, 500_000], ids=["streamed", "small"])
def test_a_datanode_that_dies(size, cut, backend, fs, home):
    """If the connection to a DataNode breaks, or its response is lost, nothing is published."""
    written(fs, f"{home}/f", "old")
    with before_datanodes(backend, f"{home}/f") as proxy:
        proxy.cuts = 1000
        vars(proxy).update({way: min(count, size // 2) for way, count in cut.items()})
        with pytest.raises(HdfsError, match=r"^HDFS CREATE .*: no response"):
            written(backend.fs(redirect=proxy.url), f"{home}/f", "x" * size)
    assert content(fs, f"{home}/f") == "old"
    assert names(fs, home) == ["f"]


def test_writes_of_every_kind_and_size_arrive_in_order(fs, home):
    """Small and large ones, bytes and bytes-like objects."""
    mib = 1024 * 1024
    parts = [
        b"first",
        b"",
        os.urandom(3 * mib + 1),
        bytearray(os.urandom(70_000)),
        os.urandom(mib),
        os.urandom(64 * 1024),
        b"x",
        os.urandom(mib),
        memoryview(array("i", range(100_000))),
    ]
    with fs.open_writer(f"{home}/f") as file:
        sizes = [file.write(data) for data in parts]
    assert sizes == [memoryview(data).nbytes for data in parts]
    with fs.open_reader(f"{home}/f") as file:
        assert file.read() == b"".join(bytes(data) for data in parts)


WRITES = {
    "a small file": lambda fs, folder, _: written(fs, f"{folder}/f", "new"),
    "a large file": lambda fs, folder, _: written(fs, f"{folder}/f", "x" * 3_000_000),
    "a folder": lambda fs, folder, source: upload(fs, source, folder),
    "a new folder": lambda fs, folder, source: upload(fs, source, f"{folder}/new"),
}


@pytest.fixture
def source(tmp_path):
    """A folder with a file ``f``."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "f").write_text("new")
    return tmp_path / "source"


@pytest.mark.parametrize("work", WRITES)
@pytest.mark.parametrize("old", [None, "old"])
def test_a_full_hdfs_that_does_not_say_so(tmp_path, source, work, old):
    """If there is no room, DataNodes of 2.7.4 respond with 201 and store nothing: nothing is published."""

    class Full(WebHdfsHandler):
        full = False

        def data_received(self, chunk):
            if not self.full:
                super().data_received(chunk)

    with serving(tmp_path / "hdfs", Full) as url:
        fs = WebHdfs(url, "anna")
        fs.mkdir("/a")
        if old:
            written(fs, "/a/f", old)
        Full.full = True
        with pytest.raises(
            HdfsError, match=r"CREATE /a/.*: [3,0]+ bytes were sent, and 0 are there; HDFS may be"
        ):
            WRITES[work](fs, "/a", source)
        assert names(fs, "/a") == (["f"] if old else [])
        if old:
            assert content(fs, "/a/f") == old


@pytest.mark.slow
@pytest.mark.parametrize("work", WRITES)
def test_over_the_quota_of_a_real_hdfs(real_backend, source, work):
    """The same on a real one, whether it says so or not."""
    fs, home = real_backend.fs(), real_backend.quota_folder()
    refused = real_backend.differences.over_quota
    message = refused[1] if refused else r"\d bytes were sent, and 0 are there; HDFS may be full"
    with pytest.raises(HdfsError, match=message):
        WRITES[work](fs, home, source)
    assert names(fs, home) == []
    fs.remove(home)


class HttpFs(WebHdfsHandler):
    """Executes renames as HttpFS does, which ignores options; each may fail first."""

    faults: list[str] = []

    def prepare(self):
        self.request.query_arguments.pop("renameoptions", None)
        return super().prepare()

    async def put(self, path=None):
        is_rename = "op=RENAME" in self.request.query
        fault = self.faults.pop(0) if is_rename and self.faults else ""
        if fault == "503":
            self.set_status(503)
            self.finish("not now")
            return
        if fault == "lost":
            self.finish = lambda *_document: self.request.connection.stream.close()
        await super().put(path)


@pytest.fixture
def httpfs(tmp_path):
    """A file system on such a server."""
    HttpFs.faults = []
    with serving(tmp_path / "hdfs", HttpFs) as url:
        yield WebHdfs(url, "anna", read_timeout=5)


# the renames of a replacement: refused as there is something; the old one away; the new one to its place
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["503", "lost"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_step_that_fails(httpfs, fault, number):
    """The old file is back, or the new one is there; writing it again works."""
    written(httpfs, "/a/f", "old")
    HttpFs.faults = [""] * number + [fault]
    with pytest.raises(HdfsError, match=r"^HDFS RENAME "):
        written(httpfs, "/a/f", "new")
    assert content(httpfs, "/a/f") == ("new" if (fault, number) == ("lost", 2) else "old")
    written(httpfs, "/a/f", "newer")
    assert content(httpfs, "/a/f") == "newer"


@steps("httpfs")
def test_renames(httpfs, steps, tmp_path):
    """Each case of the section ``httpfs`` of tests/data/files/steps.yaml."""
    Player(httpfs, tmp_path, home="/a").play(steps)
