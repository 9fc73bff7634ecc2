"""Files that tasks read of their own accord, of 20 GB or endless: one error or none, and little memory."""

from __future__ import annotations

import contextlib
import gzip
import os
import tracemalloc

import pytest
from tornado.iostream import StreamClosedError
from webhdfs_server import serving

from luigi_pai.api.clock import Clock
from luigi_pai.files import HdfsError, WebHdfs
from luigi_pai.local.hdfs.webhdfs.handlers import WebHdfsHandler
from luigi_pai.sweep.journal.journal import Journal
from luigi_pai.sweep.results import SweepResults
from luigi_pai.tasks.reports import read_reports
from luigi_pai.work.claims import Claims
from luigi_pai.work.flag import CompletionFlag
from luigi_pai.work.output_claims import OutputClaimFolder

pytestmark = pytest.mark.slow

LARGE = 20 * 1024**3
MOST = 32 * 1024**2  # bytes of memory, also of the server


class Hostile(WebHdfsHandler):
    """Sends other content than that of the file."""

    async def get(self, path=None):
        if self.get_query_argument("namenoderpcaddress", ""):
            with contextlib.suppress(StreamClosedError):
                await self.send()
        else:
            await super().get(path)


class Endless(Hostile):
    """In chunks, without end."""

    async def send(self):
        while True:
            self.write(b" " * 65536)
            await self.flush()


class Bomb(Hostile):
    """2 GB of blanks, compressed to 2 MB."""

    async def send(self):
        self.set_header("Content-Encoding", "gzip")
        self.write(gzip.compress(b" " * 20_000_000) * 100)


FILES = {
    "flag": ("out/_SUCCESS", lambda fs: CompletionFlag(fs, "/out").holds("x"), "error: "),
    "claim": (
        "out/_luigi_pai/x.1.json",
        lambda fs: Claims(OutputClaimFolder(fs, "/out"), "x").last(),
        "error: ",
    ),
    "report": ("out/_reports/main-0.jsonl", lambda fs: read_reports(fs, "/out"), "[]"),
    "table": ("out/results.json", lambda _: SweepResults("hdfs:///out").rows(), "error: "),
    "journal": ("out/journal.jsonl", lambda _: Journal("hdfs:///out", Clock()).read(), "error: "),
}


@pytest.mark.parametrize(
    ("kind", "handler"),
    [
        *((kind, None) for kind in FILES),
        *((kind, how) for kind in ("claim", "report") for how in (Endless, Bomb)),
    ],
)
def test_a_record_without_bounds(kind, handler, tmp_path, settings):
    """As a container may write it into the folder of its outputs, or a hostile DataNode send it."""
    path, read, start = FILES[kind]
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.touch()
    os.truncate(file, LARGE)
    with serving(tmp_path, handler) as url:
        settings(pai_url=url, username="u", webhdfs_url=url, fs_uri="hdfs://h")
        tracemalloc.start()
        try:
            result = str(read(WebHdfs.from_config()))
        except (HdfsError, ValueError) as error:
            result = f"error: {error}"
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert result.startswith(start)
    assert memory < MOST
