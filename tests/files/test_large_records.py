"""Files that tasks read of their own accord, of 20 GB or endless: one error or none, and little memory."""

from __future__ import annotations

import contextlib
import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tornado.iostream import StreamClosedError
from webhdfs_server import serving

from luigi_pai.local.hdfs.webhdfs.handlers import WebHdfsHandler

pytestmark = pytest.mark.slow

LARGE = 20 * 1024**3
MOST = 200 * 1024  # KiB of memory
CLIENT = """
import pathlib, re, sys
from luigi_pai.files import HdfsError, WebHdfs
from luigi_pai.files import staging
from luigi_pai.sweep.journal.journal import Journal
from luigi_pai.sweep.results import SweepResults
from luigi_pai.work.claims import Claims
from luigi_pai.work.flag import CompletionFlag
from luigi_pai.work.output_claims import OutputClaimFolder
from luigi_pai.tasks.reports import read_reports
from luigi_pai.api.clock import Clock
fs = WebHdfs.from_config()
try:
    print("read:", str({READ})[:80])
except (HdfsError, ValueError) as error:
    print("error:", str(error).replace(chr(10), " "))
print(*re.findall(r"VmHWM:\\s*(\\d+) kB", pathlib.Path("/proc/self/status").read_text()))
"""


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
    "flag": ("out/_SUCCESS", "CompletionFlag(fs, '/out').holds('x')", "error: "),
    "claim": ("out/_luigi_pai/x.1.json", "Claims(OutputClaimFolder(fs, '/out'), 'x').last()", "error: "),
    "report": ("out/_reports/main-0.jsonl", "read_reports(fs, '/out')", "read: []"),
    "table": ("out/results.json", "SweepResults('hdfs:///out').rows()", "error: "),
    "journal": ("out/journal.jsonl", "Journal('hdfs:///out', Clock()).read()", "error: "),
}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux says how much memory was used")
@pytest.mark.parametrize(
    ("kind", "handler"),
    [
        *((kind, None) for kind in FILES),
        *((kind, how) for kind in ("claim", "report") for how in (Endless, Bomb)),
    ],
)
def test_a_record_without_bounds(kind, handler, tmp_path):
    """As a container may write it into the folder of its outputs, or a hostile DataNode send it."""
    path, read, said = FILES[kind]
    file = tmp_path / "hdfs" / path
    file.parent.mkdir(parents=True)
    file.touch()
    os.truncate(file, LARGE)
    with serving(tmp_path / "hdfs", handler) as url:
        (tmp_path / "luigi.cfg").write_text(
            f"[OpenPai]\npai_url = {url}\nusername = u\nwebhdfs_url = {url}\nfs_uri = hdfs://h\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", CLIENT.replace("{READ}", read)],
            cwd=tmp_path,
            env={**os.environ, "LUIGI_CONFIG_PATH": str(tmp_path / "luigi.cfg")},
            capture_output=True,
            text=True,
            check=False,
            timeout=150,
        )
    assert done.returncode == 0, done.stderr
    text, memory = done.stdout.splitlines()
    assert text.startswith(said)
    assert int(memory) < MOST
