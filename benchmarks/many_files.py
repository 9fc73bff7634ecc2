"""Compare `upload` with one file at a time: 1,000 files of 4 KiB to HDFS and back.

By default, the HDFS is the WebHDFS of `luigi-pai local` in a separate process: directly, and from 5 ms away
(`--round-trip`), through a forwarder that delays everything. ``--real`` measures each real HDFS that the
environment names, in turn. ``--url`` and ``--user`` name any other. Each way gets a new folder. The ways and
the HDFSs take turns. The figures are medians of the rounds, and of the ratios within a round. The exit code
is 1 if `upload` is slower than the `hdfs` library with 16 threads, beyond the precision of the measurement,
or takes 2 s or more for 1,000 unchanged files, or if, from 5 ms away, it is less than 4 times faster than
one file at a time. The direct figures have no promise, because they depend on the CPU and its other load.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import multiprocessing
import os
import posixpath
import statistics
import sys
import tempfile
import time
import uuid
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

warnings.simplefilter("ignore")  # Luigi's warnings are irrelevant here

import hdfs  # noqa: E402
from hdfs_throughput import real_ones  # noqa: E402
from luigi.format import Nop  # noqa: E402

from luigi_pai.files import HdfsTarget, WebHdfs, download, upload  # noqa: E402
from luigi_pai.local import LocalPai  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE = 4096
FOLDERS = 20
CHANGED = 10
PROMISED = 4.0  # times faster than one file at a time, from 5 ms away
AS_FAST = 0.95  # relative to the hdfs library with 16 threads
UNCHANGED_MS = 2.0  # per unchanged file
BASELINE = "HdfsTarget, one at a time"
OURS = "luigi_pai.files.upload"
THREADS = "hdfs library, upload with 16 threads"
UNCHANGED = "... nothing changed"


def make_files(folder: Path, number: int) -> list[str]:
    names = [f"part-{index % FOLDERS:02}/file-{index:05}.bin" for index in range(number)]
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(os.urandom(SIZE))
    return names


@dataclass(frozen=True)
class Ways:
    """The ways to transfer the files of a folder. Each gets a new folder on HDFS."""

    fs: WebHdfs
    bare: hdfs.InsecureClient
    folder: Path
    names: list[str]
    some: list[str]  # a subset of the names, for the slow ways
    kept: str  # a folder on HDFS that contains all files

    def target(self, goal: str) -> None:
        for name in self.some:
            with HdfsTarget(f"{goal}/{name}", fs=self.fs, format=Nop).open("w") as file:
                file.write((self.folder / name).read_bytes())

    def bare_client(self, goal: str) -> None:
        for name in self.some:
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


@dataclass
class Measured:
    """The ways to one HDFS, with their milliseconds per file in each round."""

    where: str
    ways: Ways
    times: dict[str, list[float]] = field(default_factory=dict)

    def round(self, number: int) -> None:
        """Use each way once. Each round starts with another way."""
        ways = self.ways
        some, every = len(ways.some), len(ways.names)
        named: list[tuple[str, Callable[[str], None], int]] = [
            (BASELINE, ways.target, some),
            ("hdfs library, one at a time", ways.bare_client, some),
            (THREADS, ways.bare_upload, every),
            (OURS, ways.upload, every),
            (UNCHANGED, ways.again, every),
            (f"... {CHANGED} files changed", ways.changed, every),
            ("luigi_pai.files.download", ways.download, every),
        ]
        for way, _move, _files in named:
            self.times.setdefault(way, [])
        first = number % len(named)
        for way, move, files in named[first:] + named[:first]:
            goal = f"{posixpath.dirname(ways.kept)}/{uuid.uuid4().hex}"
            begin = time.perf_counter()
            move(goal)
            self.times[way].append((time.perf_counter() - begin) * 1000 / files)
            if ways.fs.exists(goal):
                ways.fs.remove(goal)

    def report(self, least: float) -> list[str]:
        """Print a table, and return the broken promises.

        Args:
            least: How many times faster than one file at a time `upload` must be.
        """
        files, some = len(self.ways.names), len(self.ways.some)
        print(f"{files} files of {SIZE} bytes in {FOLDERS} folders, {some} one at a time, {self.where}\n")
        print(
            f"{'times faster than':>65}\n{'':38} {'ms per file':>11} {'one at a time':>13} {'16 threads':>13}"
        )
        for way, times in self.times.items():
            faster = f"{self.faster(way, BASELINE):13.1f} {self.faster(way, THREADS):13.2f}"
            print(f"{way:38} {statistics.median(times):11.2f} {faster}")
        print(flush=True)
        gains = (
            (BASELINE, self.faster(OURS, BASELINE), least),
            (THREADS, self.faster(OURS, THREADS), AS_FAST),
        )
        broken = [
            f"upload is {gain:.2f} times faster than {other}, promised {promised:g}"
            for other, gain, promised in gains
            if gain < promised
        ]
        unchanged = statistics.median(self.times[UNCHANGED])
        if unchanged >= UNCHANGED_MS:
            broken.append(f"{unchanged:.2f} ms per unchanged file, promised {UNCHANGED_MS:g}")
        return [f"{line}, on {self.where}" for line in broken]

    def faster(self, way: str, other: str) -> float:
        """Return how many times faster one way was than another in a round, as a median."""
        return statistics.median(b / a for a, b in zip(self.times[way], self.times[other], strict=True))


def measure(places: dict[str, tuple[str, str]], asked: argparse.Namespace) -> list[Measured]:
    """Measure each HDFS, in turn.

    Args:
        places: The URL and user of each HDFS, by its name.
        asked: The parsed command line.
    """
    found: list[Measured] = []
    with contextlib.ExitStack() as made:
        for where, (url, user) in places.items():
            folder = Path(made.enter_context(tempfile.TemporaryDirectory()))
            names = make_files(folder, asked.files)
            fs, home = WebHdfs(url, user), f"/tmp/many-files-{uuid.uuid4().hex[:8]}"
            bare = hdfs.InsecureClient(url, user=user)
            ways = Ways(fs, bare, folder, names, names[: asked.one_by_one], f"{home}/kept")
            made.callback(fs.remove, home)
            upload(fs, folder, ways.kept)
            found.append(Measured(where, ways))
        for number in range(asked.rounds):
            for each in found:
                each.round(number)
    return found


def check(moved: int, expected: int) -> None:
    if moved != expected:
        raise RuntimeError(f"{moved} files were moved, not {expected}")


@contextlib.contextmanager
def away(url: str, round_trip: float) -> Iterator[str]:
    """Yield the URL of a forwarder that adds a round trip of some seconds to a server."""
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


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--real",
        action="store_true",
        help="measure each real HDFS that HDFS_TEST_URL and similar variables name",
    )
    where.add_argument("--url", help="address of a WebHDFS (default: that of luigi-pai local)")
    parser.add_argument("--user", default=getpass.getuser(), help="user on the HDFS of --url")
    parser.add_argument("--files", type=int, default=1000, help="files to transfer (default: 1000)")
    parser.add_argument(
        "--one-by-one", type=int, default=100, metavar="N", help="files for the slow ways (default: 100)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds per way (default: 5)")
    parser.add_argument(
        "--round-trip",
        type=float,
        default=5.0,
        metavar="MS",
        help="distance of the local server in ms (default: 5)",
    )
    asked = parser.parse_args()
    if asked.real:
        found = measure({each.name: (each.url, each.user) for each in real_ones()}, asked)
        broken = [line for each in found for line in each.report(0.0)]
        if not found:
            broken = [
                "HDFS_TEST_URL is not set; run this with: tests/support/real_hdfs_command.py run -- COMMAND"
            ]
    elif asked.url:
        (found_there,) = measure({asked.url: (asked.url, asked.user)}, asked)
        broken = found_there.report(0.0)
    else:
        with LocalPai() as pai, away(pai.webhdfs_url, asked.round_trip / 1000) as url:
            near, far = "local WebHDFS on this machine", f"local WebHDFS {asked.round_trip:g} ms away"
            here, there = measure({near: (pai.webhdfs_url, pai.username), far: (url, pai.username)}, asked)
        here.report(0.0)
        broken = there.report(PROMISED)
    for line in broken:
        print(f"broken: {line}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
