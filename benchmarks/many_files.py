"""1,000 files of 4 KiB to HDFS and back: `upload` beside one file after the other.

On the WebHDFS of `luigi-pai local`, in a process of its own: on this machine, and from 5 ms away
(`--round-trip`), through a forwarder that hands everything on that much later. With ``--real`` in turn
on each real HDFS that the environment names, with ``--url`` and ``--user`` on any other. Each way gets
a new folder. The ways and the HDFSs take turns; medians of the rounds, and of the ratios within a
round. Ends with 1 if `upload` is slower than the `hdfs` library with 16 threads, by more than the
measurement can tell, or takes 2 s or more for 1,000 files that have not changed; from 5 ms away, also if
it is less than 4 times faster than one by one. On this machine itself only the processor counts, and
what else it does, so that is shown alone.
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

warnings.simplefilter("ignore")  # Luigi's, about what is not measured here

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
PROMISED = 4.0  # times faster than one by one, from 5 ms away
AS_FAST = 0.95  # of the hdfs library with 16 threads
UNCHANGED_MS = 2.0  # a file that has not changed
BASELINE = "HdfsTarget, one by one"
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
    """The ways to move the files of a folder; each is given a new folder on HDFS."""

    fs: WebHdfs
    bare: hdfs.InsecureClient
    folder: Path
    names: list[str]
    some: list[str]  # of them, for the slow ways
    kept: str  # a folder on HDFS that has them

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
    """The ways to one HDFS, and the milliseconds a file that each took in each round."""

    where: str
    ways: Ways
    times: dict[str, list[float]] = field(default_factory=dict)

    def round(self, number: int) -> None:
        """Go each way once; each round begins with another one."""
        ways = self.ways
        some, every = len(ways.some), len(ways.names)
        named: list[tuple[str, Callable[[str], None], int]] = [
            (BASELINE, ways.target, some),
            ("hdfs library, one by one", ways.bare_client, some),
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
        """Print a table, and return the promises that are broken.

        Args:
            least: how many times faster than one by one `upload` is to be.
        """
        files, some = len(self.ways.names), len(self.ways.some)
        print(
            f"{files} files of {SIZE} bytes in {FOLDERS} folders, {some} of them one by one, {self.where}\n"
        )
        print(f"{'times faster than':>64}\n{'':38} {'ms a file':>10} {'one by one':>13} {'16 threads':>13}")
        for way, times in self.times.items():
            faster = f"{self.faster(way, BASELINE):13.1f} {self.faster(way, THREADS):13.2f}"
            print(f"{way:38} {statistics.median(times):10.2f} {faster}")
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
            broken.append(f"{unchanged:.2f} ms a file that has not changed, promised {UNCHANGED_MS:g}")
        return [f"{line}, on {self.where}" for line in broken]

    def faster(self, way: str, other: str) -> float:
        """Return the median of how many times faster one way was than another in the same round."""
        return statistics.median(b / a for a, b in zip(self.times[way], self.times[other], strict=True))


def measure(places: dict[str, tuple[str, str]], asked: argparse.Namespace) -> list[Measured]:
    """Measure on each HDFS, in turn.

    Args:
        places: URL and user of each, by what it is called.
        asked: the command line.
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


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--real", action="store_true", help="each real HDFS that HDFS_TEST_URL and its like name"
    )
    where.add_argument("--url", help="of a WebHDFS; default: one of luigi-pai local")
    parser.add_argument("--user", default=getpass.getuser(), help="on that HDFS")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument(
        "--one-by-one", type=int, default=100, metavar="N", help="of the files, the slow ways"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--round-trip", type=float, default=5.0, metavar="MS", help="that the local server is away"
    )
    asked = parser.parse_args()
    if asked.real:
        found = measure({each.name: (each.url, each.user) for each in real_ones()}, asked)
        broken = [line for each in found for line in each.report(0.0)]
        if not found:
            broken = ["no HDFS_TEST_URL names a real HDFS; tests/support/real_hdfs_command.py run -- does"]
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
