"""Measure a sweep of 1,000 jobs on the local server: its overhead, memory and CPU time.

Overhead: jobs of `sleep 1`, 100 at once, run as a PaiSweep, and from a program that only posts the same jobs
and lists them until they finish. Memory: the held and peak memory of a sweep for each point, not counting the
user's tasks, from two sweeps of different sizes. Their jobs run no commands, and all of them are queued or
running at once. CPU time: the CPU seconds of the same two sweeps. None of them uses HDFS.

Promises: The overhead is below 30 %. A point takes at most 5 KB. A sweep of twice the size takes at most 2.6
times the CPU time. If a promise is broken, the exit code is 1. `--points N`, `--at-once N` and `--sizes A B`
shorten the run. `--api v2` measures OpenPAI 1.8 instead of 0.7.1.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import luigi
import luigi.configuration

from luigi_pai import PaiSweep, PaiTask, TaskRole, grid, reset_clusters
from luigi_pai.api.cluster import Cluster
from luigi_pai.local import LocalPai

if TYPE_CHECKING:
    from collections.abc import Iterator

OVERHEAD = 0.30
BYTES = 5 * 1024
GROWTH = 1.3  # relative to the ratio of the sizes
LISTED_EVERY = 0.3  # seconds
ROOM = ["default:cpu=100000,memory=100000000,gpu=8"]


class Point(PaiTask):
    kind = luigi.Parameter()
    number = luigi.IntParameter()
    image = "python:3"
    tasks = [TaskRole("main", "sleep 1", memoryMB=100)]  # noqa: RUF012  as users write it

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.number}"


class Many(PaiSweep):
    kind = luigi.Parameter()
    count = luigi.IntParameter()

    def points(self) -> list[Point]:
        return grid(Point, kind=[self.kind], number=range(self.count))


@contextmanager
def serving(at_once: int, api: str) -> Iterator[LocalPai]:
    with LocalPai(api=api, virtual_clusters=ROOM, max_tasks=at_once) as server:
        config = luigi.configuration.get_config()
        for key, value in server.luigi_section.items():
            if key not in ("webhdfs_url", "fs_uri"):
                config.set("OpenPai", key, value)
        reset_clusters()
        yield server


def bare(server: LocalPai, count: int, at_once: int, api: str) -> float:
    """Post jobs as soon as there is room, list them until they finish, and return the seconds."""
    cluster = Cluster(server.url, server.username, password=server.password, api_version=api)
    points = grid(Point, kind=["bare"], number=range(count))
    began = time.monotonic()
    posted = ended = 0
    while ended < count:
        while posted < count and posted - ended < at_once:
            cluster.book.api.dialect.submit(points[posted].job())
            posted += 1
        listed = time.monotonic()
        ended = sum(job.finished for job in cluster.list())
        if posted - ended >= at_once or posted == count:
            time.sleep(max(0.0, LISTED_EVERY - (time.monotonic() - listed)))
    cluster.close()
    return time.monotonic() - began


def overhead(count: int, at_once: int, api: str) -> float:
    with serving(at_once, api) as server:
        alone = bare(server, count, at_once, api)
    with serving(at_once, api):
        began = time.monotonic()
        Many(kind="sweep", count=count, parallel_jobs=at_once).run()
        swept = time.monotonic() - began
    print(f"{count} jobs of 1 s, {at_once} at once: bare {alone:.1f} s, sweep {swept:.1f} s")
    print(f"overhead {swept / alone - 1:+.0%}")
    return swept / alone - 1


def sizes(count: int, api: str) -> tuple[float, int, int]:
    """Return the CPU seconds and the held and peak bytes of a sweep, not counting its tasks."""
    reset_clusters()
    with serving(count, api) as server:
        server.script_jobs(job="*", after=2.0)
        sweep = Many(kind=f"size{count}", count=count, parallel_jobs=count)
        began = time.process_time()
        sweep.run()
        seconds = time.process_time() - began
        assert all(row["state"] == "SUCCEEDED" for row in sweep.output().rows())
    with serving(count, api) as server:
        server.script_jobs(job="*", after=2.0 + count / 50)  # until all run, because tracemalloc is slow
        reset_clusters()
        measured = Many(
            kind=f"memory{count}", count=count, parallel_jobs=count
        )  # new points, none of them finished
        points = measured.points()
        gc.collect()
        tracemalloc.start()
        measured.run()
        gc.collect()
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    megabytes = f"{held / 1e6:.2f} MB held, {peak / 1e6:.2f} MB at the peak"
    print(
        f"{count} points at once: CPU {seconds:.2f} s, {seconds / count * 1000:.1f} ms a point, {megabytes}"
    )
    del points
    return seconds, held, peak


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=1000, help="jobs for the overhead (default: 1000)")
    parser.add_argument("--at-once", type=int, default=100, help="jobs at the same time (default: 100)")
    parser.add_argument(
        "--sizes",
        type=int,
        nargs=2,
        default=[500, 1000],
        metavar=("A", "B"),
        help="points of the two sweeps for memory and CPU time (default: 500 1000)",
    )
    parser.add_argument(
        "--api", choices=["v1", "v2"], default="v1", help="API of the local server (default: v1)"
    )
    options = parser.parse_args()
    api = options.api
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        broken = []
        extra = overhead(options.points, options.at_once, api)
        if extra > OVERHEAD:
            broken.append(f"the overhead of a sweep is {extra:.0%}, above {OVERHEAD:.0%}")
        few, many = options.sizes
        sizes(50, api)  # excludes one-time imports
        (less, held_less, peak_less), (more, held_more, peak_more) = sizes(few, api), sizes(many, api)
        held = (held_more - held_less) / (many - few)
        peak = (peak_more - peak_less) / (many - few)
        print(
            f"each additional point: {held:.0f} bytes held, {peak:.0f} at the peak; CPU x {more / less:.2f}"
        )
        if peak > BYTES:
            broken.append(f"a point needs {peak:.0f} bytes, above {BYTES}")
        if more / less > GROWTH * many / few:
            broken.append(f"{many / few:g} times the points take {more / less:.1f} times the CPU")
        os.chdir("/")
    for text in broken:
        print(f"broken: {text}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
