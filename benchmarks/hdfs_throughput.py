"""Measure the speed and memory of a large file on its way to HDFS and back.

HdfsTarget is compared with the bare ``hdfs`` client, Hadoop's own command and the ``hdfs`` command of
`luigi-pai local`, in turn, from and to the local disk. The HDFS is the one of --url, or in turn each real
HDFS that the environment names, as with ``make bench``. Without any, it is the WebHDFS of a local OpenPAI.
The exit code is 1 if HdfsTarget is slower than 0.95 times the bare client, or if a process grows by 16 MB or
more.
"""

from __future__ import annotations

import argparse
import contextlib
import filecmp
import getpass
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hdfs
import luigi.format

from luigi_pai import HdfsTarget
from luigi_pai.files import WebHdfs
from luigi_pai.local import LocalPai
from luigi_pai.local.hdfs.command.executable import install

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from hadoop_differences import version_at
from real_hdfs import HADOOPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MIB = 1024 * 1024
PART = MIB  # size of the blocks that both clients copy
LEAST_SPEED = 0.95  # relative to the bare client
MOST_MEMORY = 16_000_000  # bytes that a process may grow by
OURS, BARE, SHELL, COMMAND = "HdfsTarget", "bare hdfs client", "Hadoop's hdfs dfs", "our hdfs dfs"


@dataclass(frozen=True)
class Hdfs:
    """An HDFS to measure, and the folder of its ``hdfs`` command, if known."""

    name: str
    url: str
    user: str
    bin: Path | None = None


@dataclass(frozen=True)
class Place:
    """The address of an HDFS, and the paths of the file on it and on the local disk."""

    url: str
    user: str
    path: str
    source: Path
    copy: Path
    size: int


# ---------------------------------------------------------------- in a separate process


def put_ours(place: Place) -> None:
    target = HdfsTarget(place.path, format=luigi.format.Nop, fs=WebHdfs(place.url, place.user))
    with place.source.open("rb") as file, target.open("w") as out:
        shutil.copyfileobj(file, out, PART)


def get_ours(place: Place) -> None:
    target = HdfsTarget(place.path, format=luigi.format.Nop, fs=WebHdfs(place.url, place.user))
    with target.open("r") as file, place.copy.open("wb") as out:
        shutil.copyfileobj(file, out, PART)


def put_bare(place: Place) -> None:
    client = hdfs.InsecureClient(place.url, user=place.user)
    with place.source.open("rb") as file, client.write(place.path, overwrite=True) as out:
        shutil.copyfileobj(file, out, PART)


def get_bare(place: Place) -> None:
    client = hdfs.InsecureClient(place.url, user=place.user)
    with client.read(place.path) as file, place.copy.open("wb") as out:
        shutil.copyfileobj(file, out, PART)


def put_lines(place: Place) -> None:
    line = "0123456789abcde" * 4 + "\n"
    with HdfsTarget(place.path, fs=WebHdfs(place.url, place.user)).open("w") as out:
        for _ in range(place.size // len(line)):
            out.write(line)


def get_lines(place: Place) -> None:
    with HdfsTarget(place.path, fs=WebHdfs(place.url, place.user)).open("r") as file:
        for _ in file:
            pass


def put_gzip(place: Place) -> None:
    fs = WebHdfs(place.url, place.user)
    target = HdfsTarget(place.path, format=luigi.format.Gzip, fs=fs)
    with place.source.open("rb") as file, target.open("w") as out:
        for _ in range(place.size // PART):
            out.write(file.read(PART))


def get_gzip(place: Place) -> None:
    fs = WebHdfs(place.url, place.user)
    with HdfsTarget(place.path, format=luigi.format.Gzip, fs=fs).open("r") as file:
        while file.read(PART):
            pass


def measured(work: Callable[[Place], None], place: Place) -> tuple[float, int]:
    """Call a function, and return its seconds and the largest growth of this process in bytes."""
    before = memory("VmRSS")
    began = time.perf_counter()
    work(place)
    return time.perf_counter() - began, memory("VmHWM") - before


def memory(what: str) -> int:
    """Return the current (VmRSS) or peak (VmHWM) memory of this process in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{what}:")[2].split()[0]) * 1024


def alone(work: Callable[[Place], None], place: Place) -> tuple[float, int]:
    """Measure a function in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(measured, work, place).result()


# ---------------------------------------------------------------- commands


def by_command(executable: Path, *words: str, env: dict[str, str]) -> tuple[float, int]:
    began = time.perf_counter()
    subprocess.run([str(executable), "dfs", *words], check=True, env={**os.environ, **env})
    return time.perf_counter() - began, 0


def ways(place: Place, shell: Path | None, command: Path) -> dict[str, tuple[Callable[[], Any], ...]]:
    """Return the functions that put and get, by the name of the way."""
    found: dict[str, tuple[Callable[[], Any], ...]] = {
        BARE: (lambda: alone(put_bare, place), lambda: alone(get_bare, place)),
        OURS: (lambda: alone(put_ours, place), lambda: alone(get_ours, place)),
    }
    env = {"HADOOP_USER_NAME": place.user, "LUIGI_PAI_WEBHDFS_URL": place.url}
    for name, executable in ((SHELL, shell), (COMMAND, command)):
        if executable:
            put = ("-put", "-f", str(place.source), place.path)
            get = ("-get", place.path, str(place.copy))
            found[name] = (
                lambda executable=executable, put=put: by_command(executable, *put, env=env),
                lambda executable=executable, get=get: by_command(executable, *get, env=env),
            )
    return found


# ---------------------------------------------------------------- measuring


def real_ones() -> list[Hdfs]:
    """Return each real HDFS that the environment names."""
    found = []
    for hadoop in HADOOPS:
        url, user, folder = (os.environ.get(hadoop.variable(name)) for name in ("URL", "USER", "BIN"))
        if url:
            name = f"HDFS {version_at(url)}"
            found.append(Hdfs(name, url, user or getpass.getuser(), Path(folder) if folder else None))
    return found


@contextlib.contextmanager
def asked_for(asked: argparse.Namespace) -> Iterator[list[Hdfs]]:
    """Yield the HDFSs to measure."""
    if asked.url:
        yield [Hdfs(f"HDFS {version_at(asked.url)}", asked.url, asked.user, asked.bin)]
    elif found := real_ones():
        yield found
    else:
        print("neither --url nor HDFS_TEST_URL: measuring the WebHDFS of a local OpenPAI, not a real HDFS")
        with LocalPai() as pai:
            yield [Hdfs("local WebHDFS", pai.webhdfs_url, pai.username)]


@dataclass
class Measured:
    """The ways on one HDFS, with the seconds of their writes and reads and their largest growth in bytes."""

    hdfs: Hdfs
    place: Place
    ways: list[tuple[str, tuple[Callable[[], Any], ...]]]
    done: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    grown: dict[str, int] = field(default_factory=dict)

    def round(self, number: int) -> None:
        """Write and read once in each way. Each round starts with another way."""
        first = number % len(self.ways)
        for name, (put, get) in self.ways[first:] + self.ways[:first]:
            self.place.copy.unlink(missing_ok=True)
            for seconds, work in zip(self.done.setdefault(name, ([], [])), (put, get), strict=True):
                os.sync()  # excludes earlier writes from this measurement
                taken, growth = work()
                seconds.append(taken)
                self.grown[name] = max(growth, self.grown.get(name, 0))
            if not filecmp.cmp(self.place.source, self.place.copy, shallow=False):
                raise RuntimeError(f"the copy of {name} differs from the original")

    def report(self, rounds: int) -> bool:
        """Print a table of all ways, and return whether HdfsTarget keeps its promises."""
        mib = self.place.size / MIB
        print(f"\n{self.hdfs.name}, {mib:.0f} MiB, {rounds} rounds in turn: medians of speeds and of ratios")
        print(f"{'':20} {'write MiB/s':>11} {'of bare':>8} {'read MiB/s':>11} {'of bare':>8} {'grows MB':>9}")
        ratios = {}
        for name, both in self.done.items():
            growth = f"{self.grown[name] / 1e6:9.1f}" if self.grown[name] else f"{'':9}"
            write, read = (mib / statistics.median(times) for times in both)
            ratios[name] = of_write, of_read = [
                statistics.median(bare / own for bare, own in zip(theirs, times, strict=True))
                for theirs, times in zip(self.done[BARE], both, strict=True)
            ]
            print(f"{name:20} {write:11.0f} {of_write:8.2f} {read:11.0f} {of_read:8.2f} {growth}")
        slowest = min(ratios[OURS])
        if slowest < LEAST_SPEED:
            print(f"broken: HdfsTarget at {slowest:.2f} of the bare client, promised {LEAST_SPEED}")
        return slowest >= LEAST_SPEED and is_small(OURS, self.grown[OURS])


def is_small(what: str, growth: int) -> bool:
    """Return whether the growth of a process is below the limit, and print a message if not."""
    if growth >= MOST_MEMORY:
        print(f"broken: {what} grows by {growth / 1e6:.0f} MB, promised {MOST_MEMORY / 1e6:.0f}")
    return growth < MOST_MEMORY


def formats(place: Place) -> bool:
    """Print the costs of other formats, and return whether their growth is below the limit."""
    print(f"\nother formats, {place.size // MIB} MiB each")
    print(f"{'':20} {'write MiB/s':>11} {'read MiB/s':>11} {'grows MB':>9}")
    small = True
    for name, works in (("text lines", (put_lines, get_lines)), ("Gzip", (put_gzip, get_gzip))):
        (write, grown), (read, grown_too) = (alone(work, place) for work in works)
        growth = max(grown, grown_too)
        mib = place.size / MIB
        print(f"{name:20} {mib / write:11.0f} {mib / read:11.0f} {growth / 1e6:9.1f}")
        small = is_small(name, growth) and small
    return small


def measure(every: list[Hdfs], folder: Path, size: int, rounds: int) -> bool:
    """Measure each HDFS, in turn, and return whether HdfsTarget keeps its promises on all."""
    source = folder / "source"
    with source.open("wb") as file:
        part = os.urandom(PART)
        for _ in range(size // PART):
            file.write(part)
    install(folder / "bin")
    path = f"/tmp/hdfs-throughput-{uuid.uuid4().hex[:8]}"
    all_measured = []
    good = True
    with contextlib.ExitStack() as made:
        for one in every:
            fs = WebHdfs(one.url, one.user)
            fs.mkdir(path)
            made.callback(fs.remove, path)
            place = Place(one.url, one.user, f"{path}/file", source, folder / "copy", size)
            shell = one.bin / "hdfs" if one.bin else None
            if shell is None:
                print(f"{one.name}: neither --bin nor HDFS_TEST_BIN, skipping {SHELL}")
            all_measured.append(
                Measured(one, place, list(ways(place, shell, folder / "bin" / "hdfs").items()))
            )
        for number in range(rounds):
            for each in all_measured:
                each.round(number)
        for each in all_measured:
            good = each.report(rounds) and good
            good = formats(replace(each.place, path=f"{path}/formats", size=max(size // 4, MIB))) and good
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--url", help="address of a WebHDFS: http://HOST:PORT")
    parser.add_argument(
        "--user", default=getpass.getuser(), help="a user who can write to /tmp on the HDFS of --url"
    )
    parser.add_argument("--bin", type=Path, help="folder of the hdfs command for the HDFS of --url")
    parser.add_argument(
        "--size", type=int, default=1024, metavar="MIB", help="size of the file (default: 1024)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds per way (default: 5)")
    asked = parser.parse_args()
    with asked_for(asked) as every, tempfile.TemporaryDirectory() as folder:
        good = measure(every, Path(folder), asked.size * MIB, asked.rounds)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
