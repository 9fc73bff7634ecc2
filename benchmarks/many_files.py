"""1,000 files of 4 KiB to HDFS and back: `upload` beside one file after the other.

On the WebHDFS of `luigi-pai local`, in a process of its own: on this machine, and from 5 ms away
(`--round-trip`), through a forwarder that hands everything on that much later. With ``--url`` and
``--user`` on any other. Each way gets a new folder. The least time of the rounds counts, and the
ways take turns. Ends with 1 if `upload` is less than 4 times faster than one by one; on this
machine itself only the processor counts, and what else it does, so that is shown alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import multiprocessing
import os
import sys
import tempfile
import time
import uuid
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

warnings.simplefilter("ignore")  # Luigi's, about what is not measured here

import hdfs  # noqa: E402
from luigi.format import Nop  # noqa: E402

from luigi_pai.hdfs import HdfsTarget, WebHdfs, download, upload  # noqa: E402
from luigi_pai.local import LocalPai  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE = 4096
FOLDERS = 20
CHANGED = 10
PROMISED = 4.0
BASELINE = "HdfsTarget, one by one"
OURS = "luigi_pai.hdfs.upload"


def make_files(folder: Path, number: int) -> list[str]:
    names = [f"part-{index % FOLDERS:02}/file-{index:05}.bin" for index in range(number)]
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(os.urandom(SIZE))
    return names


@dataclass(frozen=True)
class Ways:
    """The ways to move the files of a folder; each is given a new folder on HDFS."""

    fs: WebHdfs
    bare: hdfs.InsecureClient
    folder: Path
    names: list[str]
    kept: str  # a folder on HDFS that has them

    def target(self, goal: str) -> None:
        for name in self.names:
            with HdfsTarget(f"{goal}/{name}", fs=self.fs, format=Nop).open("w") as file:
                file.write((self.folder / name).read_bytes())

    def bare_client(self, goal: str) -> None:
        for name in self.names:
            self.bare.write(f"{goal}/{name}", data=(self.folder / name).read_bytes())

    def bare_upload(self, goal: str) -> None:
        self.bare.upload(goal, str(self.folder), n_threads=16)

    def upload(self, goal: str) -> None:
        check(upload(self.fs, self.folder, goal).moved, len(self.names))

    def again(self, _goal: str) -> None:
        check(upload(self.fs, self.folder, self.kept).moved, 0)

    def changed(self, _goal: str) -> None:
        for name in self.names[:CHANGED]:
            (self.folder / name).write_bytes(os.urandom(SIZE))
        check(upload(self.fs, self.folder, self.kept).moved, CHANGED)

    def download(self, _goal: str) -> None:
        with tempfile.TemporaryDirectory() as here:
            check(download(self.fs, self.kept, here).moved, len(self.names))


def measure(url: str, user: str, folder: Path, number: int, rounds: int) -> dict[str, float]:
    names = make_files(folder, number)
    home = f"/tmp/many-files-{uuid.uuid4().hex[:8]}"
    ways = Ways(WebHdfs(url, user), hdfs.InsecureClient(url, user=user), folder, names, f"{home}/kept")
    named: dict[str, Callable[[str], None]] = {
        BASELINE: ways.target,
        "hdfs library, one by one": ways.bare_client,
        "hdfs library, upload with 16 threads": ways.bare_upload,
        OURS: ways.upload,
        "... nothing changed": ways.again,
        f"... {CHANGED} files changed": ways.changed,
        "luigi_pai.hdfs.download": ways.download,
    }
    least: dict[str, float] = {}
    try:
        upload(ways.fs, folder, ways.kept)
        for _round in range(rounds):
            for way, move in named.items():
                goal = f"{home}/{uuid.uuid4().hex}"
                begin = time.perf_counter()
                move(goal)
                taken = time.perf_counter() - begin
                least[way] = min(taken, least.get(way, taken))
                if ways.fs.exists(goal):
                    ways.fs.remove(goal)
    finally:
        ways.fs.remove(home)
    return least


def check(moved: int, expected: int) -> None:
    if moved != expected:
        raise RuntimeError(f"{moved} files were moved, not {expected}")


@contextlib.contextmanager
def away(url: str, round_trip: float) -> Iterator[str]:
    """Yield an address from which the server at a URL is some seconds away, there and back."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    forwarder = context.Process(
        target=forward, args=(urlsplit(url).netloc, round_trip / 2, there), daemon=True
    )
    forwarder.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}"
    finally:
        forwarder.terminate()
        forwarder.join()


def forward(server: str, delay: float, port: Any) -> None:
    asyncio.run(forwarding(server, delay, port))


async def forwarding(server: str, delay: float, port: Any) -> None:
    loop = asyncio.get_running_loop()
    host, _colon, number = server.rpartition(":")

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            loop.call_later(delay, writer.write, data)
        loop.call_later(delay, writer.close)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(number))
        await asyncio.gather(pass_on(reader, far_writer), pass_on(far_reader, writer))

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    port.send(listening.sockets[0].getsockname()[1])
    await listening.serve_forever()


def show(where: str, number: int, least: dict[str, float]) -> float:
    """Print a table, and return how many times faster than one by one `upload` is."""
    print(f"{number} files of {SIZE} bytes in {FOLDERS} folders, {where}\n")
    print(f"{'':38} {'seconds':>8} {'ms a file':>10} {'times faster':>13}")
    for way, taken in least.items():
        print(f"{way:38} {taken:8.2f} {taken / number * 1000:10.2f} {least[BASELINE] / taken:13.1f}")
    print(flush=True)
    return least[BASELINE] / least[OURS]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", help="of a WebHDFS; default: one of luigi-pai local")
    parser.add_argument("--user", default=getpass.getuser(), help="on that HDFS")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--round-trip", type=float, default=5.0, metavar="MS", help="that the local server is away"
    )
    asked = parser.parse_args()

    def run(url: str, user: str, where: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return show(where, asked.files, measure(url, user, Path(folder), asked.files, asked.rounds))

    if asked.url:
        faster = run(asked.url, asked.user, asked.url)
    else:
        with LocalPai() as pai, away(pai.webhdfs_url, asked.round_trip / 1000) as url:
            run(pai.webhdfs_url, pai.username, "local WebHDFS on this machine")
            faster = run(url, pai.username, f"local WebHDFS {asked.round_trip:g} ms away")
    if faster < PROMISED:
        print(f"broken: upload is {faster:.1f} times faster than one by one, promised {PROMISED:.0f}")
    return int(faster < PROMISED)


if __name__ == "__main__":
    sys.exit(main())
