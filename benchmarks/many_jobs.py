"""Compare the requests, connections and time of luigi_pai and luigi.contrib.pai for many jobs, in one run.

Both use one server on 127.0.0.1, in a separate process, that responds immediately, like a rest-server
0.7.1. It is the server from against_contrib.py, with a configurable number of finished jobs.
luigi.contrib.pai is patched ("mended" in the tables): a subclass, defined here, checks for SUCCEEDED, the
state that real servers send, and its output() does not recurse forever. Nothing else is changed. The
measurements are:

- A Luigi run (luigi.build with its local scheduler and one worker) whose tasks are all finished. The two
  kinds take turns, and the median of three runs counts. The patched one is measured up to 3,000 tasks
  (`--all`: up to 10,000). A task whose complete() is `return True` runs once, to show Luigi's own time.
- The same with a server 5 ms away, as from an office to a data centre: each new connection and each request
  takes that much longer.
- A job of 0.2 s, from the start of run() to its return, and 100 jobs of 1 s, submitted one at a time and
  monitored by one Watcher. Both use `luigi-pai local`.
- A job of 1 h, simulated by polling.py.
- 1,000 jobs of 1 h in flight, monitored by one Watcher, with a clock that jumps to the Watcher's next step.
  luigi.contrib.pai needs a process for each job (`--workers 1000`, because run() blocks), and each process
  makes a request every 5 s.
- One complete() with 10,000 jobs on the server.

Promises: 1,000 finished tasks take 3 requests on 1 connection. 10,000 take 4 requests and at most 15 times
the CPU time. luigi_pai is 20 times faster than the patched luigi.contrib.pai from 5 ms away, and 10 times on
this machine. A job of 0.2 s takes at most 0.5 s. A job of 1 h takes fewer than 180 requests, and its end is
noticed within 30 s. One process using less than 150 MB monitors 1,000 jobs with at most 10 requests a
minute, both on average and in each minute from the sixth on. The ends of 100 jobs of 1 s are noticed after
0.2 s on average. One complete() takes one request. 1,000 finished tasks take at most 1.3 times the CPU time
if the server lists 20,000 jobs. If a promise is broken, the exit code is 1.

`--write` writes docs/benchmarks.md and its picture.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import against_contrib
import calls
import luigi
import polling
import psutil
import requests
from _page import Plot, Table, write_page
from against_contrib import FINISHED, JOBS_PATH, Handler, Mended, Ours, configure, forget

from luigi_pai import Cluster, PaiJob, TaskRole
from luigi_pai.api.clock import Clock
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.api.watched import Outcome
from luigi_pai.api.watching import Watcher
from luigi_pai.local import LocalPai

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

SIZES = (100, 300, 1000, 3000, 10_000)
MENDED_SIZES = (100, 300, 1000, 3000)
NAMED, MOST, OLD_JOBS = 1000, 10_000, 20_000
FAR, FAR_TASKS = 0.005, 300
IN_FLIGHT, HOUR = 1000, 3600.0
SHORT_JOBS = 100
ROUNDS = 3


# ---------------------------------------------------------------- the server


class ManyHandler(Handler):
    """Also lists luigi_pai's finished jobs and jobs of 1 h, by a clock that requests set."""

    listed_jobs = 0
    running = 0
    now = 0.0
    delay = 0.0
    bodies: dict[tuple[int, int, bool], bytes] = {}  # noqa: RUF012  cached lists

    def setup(self) -> None:
        super().setup()
        time.sleep(self.delay)

    def do_GET(self) -> None:  # noqa: N802  the name that http.server calls
        cls = type(self)
        if self.path.startswith("/set?"):
            for pair in self.path.removeprefix("/set?").split("&"):
                key, _, value = pair.partition("=")
                setattr(cls, key, float(value) if key in ("now", "delay") else int(value))
            self.answer(200, {})
            return
        if self.path != "/counts":
            time.sleep(self.delay)
        super().do_GET()

    def do_POST(self) -> None:  # noqa: N802  as above
        time.sleep(self.delay)
        super().do_POST()

    def row(self, name: str) -> dict[str, object]:
        row = super().row(name)
        if name.startswith(f"{FINISHED}long-") and self.now < HOUR:
            row |= {"state": "RUNNING", "completedTime": None, "appExitCode": None}
        return row

    def listed(self) -> bytes:
        key = self.listed_jobs, self.running, self.now < HOUR
        if key not in self.bodies:
            names = [f"{FINISHED}ours-{number}" for number in range(self.listed_jobs)]
            names += [f"{FINISHED}long-{number}" for number in range(self.running)]
            self.bodies[key] = json.dumps([self.row(name) for name in names]).encode()
        return self.bodies[key]


def serve(ready: Connection) -> None:
    server = against_contrib.Server(("127.0.0.1", 0), ManyHandler)
    ready.send(server.server_address[1])
    server.serve_forever()


# ---------------------------------------------------------------- scheduling


class WithOutput(Mended):
    """luigi.contrib.pai, patched to accept real servers' state, and with a working output()."""

    @property
    def name(self) -> str:
        return f"{FINISHED}mended-{self.number}"

    def output(self) -> list[luigi.Target]:
        return []


@dataclass(frozen=True)
class Scheduled:
    """A run's seconds and CPU seconds, and the server's counts."""

    number: int
    seconds: float
    cpu: float
    complete: int
    requests: int
    connections: int


class Done(luigi.Task):
    """A task that costs nothing."""

    number = luigi.IntParameter()
    finished = luigi.BoolParameter()

    def complete(self) -> bool:
        return True


def schedule(url: str, kind: type[luigi.Task], number: int, listed: int | None = None) -> Scheduled:
    """Run finished tasks through Luigi with nothing cached, while the server lists ``listed`` jobs."""
    requests.get(f"{url}/set?listed_jobs={listed or number}&running=0", timeout=10)
    requests.get(f"{url}{JOBS_PATH}?username=nobody", timeout=60)  # creates the list, outside the measurement
    forget()
    requests.get(f"{url}/counts", timeout=10)
    cpu, start = time.process_time(), time.perf_counter()
    done = luigi.build(
        [kind(number=index, finished=True) for index in range(number)],
        local_scheduler=True,
        detailed_summary=True,
        log_level="ERROR",
    )
    end = time.perf_counter()
    cpu = time.process_time() - cpu
    counts = requests.get(f"{url}/counts", timeout=10).json()
    connections = counts["connections"] - 1  # the connection that reads the counts
    found = re.search(r"([0-9]+) complete ones", done.summary_text)
    complete = int(found[1]) if found else 0
    return Scheduled(number, end - start, cpu, complete, counts["requests"], connections)


def in_turn(url: str, kinds: Sequence[type[luigi.Task]], number: int) -> list[Scheduled]:
    """Return each kind's median run by seconds."""
    runs = [[schedule(url, kind, number) for kind in kinds] for _ in range(ROUNDS)]
    return [sorted(of_kind, key=lambda run: run.seconds)[ROUNDS // 2] for of_kind in zip(*runs, strict=True)]


def measure_scheduling(url: str, largest: int) -> tuple[list[Table], Plot, list[str]]:
    """Measure all sizes, with the kinds taking turns."""
    ours, mended = [], []
    for size in SIZES:
        if size <= largest:
            theirs, own = in_turn(url, (WithOutput, Ours), size)
            mended.append(theirs)
        else:
            (own,) = in_turn(url, (Ours,), size)
        ours.append(own)
        print(f"  {size} tasks: {ours[-1].seconds:.2f} s", flush=True)
    floor = schedule(url, Done, NAMED)
    requests.get(f"{url}/set?delay={FAR}", timeout=10)
    far_mended, far_ours = in_turn(url, (WithOutput, Ours), FAR_TASKS)
    requests.get(f"{url}/set?delay=0", timeout=10)

    table = Table(
        "A run of Luigi whose tasks' jobs have succeeded",
        (
            "",
            "tasks",
            "found complete",
            "requests",
            "connections",
            "s",
            "CPU s",
            "times faster",
        ),
    )
    by_size = {run.number: run for run in mended}
    table.add("`complete()` is `return True`", *row_of(floor), "")
    for run in ours:
        beside = by_size.get(run.number)
        if beside is not None:
            table.add("luigi.contrib.pai, mended", *row_of(beside), "1")
        table.add("**luigi_pai**", *row_of(run), f"**{beside.seconds / run.seconds:.0f}**" if beside else "")
    far = Table(f"The same, {FAR * 1000:.0f} ms away", table.head)
    far.add("luigi.contrib.pai, mended", *row_of(far_mended), "1")
    far.add("**luigi_pai**", *row_of(far_ours), f"**{far_mended.seconds / far_ours.seconds:.0f}**")

    at = {run.number: run for run in ours}
    thousand, most = at[NAMED], at[MOST]
    broken = at_most(f"requests of {NAMED} tasks", thousand.requests, 3)
    broken += at_most(f"connections of {NAMED} tasks", thousand.connections, 1)
    broken += at_most(f"requests of {MOST} tasks", most.requests, 4)
    broken += at_most(f"CPU time of {MOST} tasks / {NAMED}", most.cpu / thousand.cpu, 15)
    broken += at_least("times faster, 5 ms away", far_mended.seconds / far_ours.seconds, 20)
    broken += at_least("times faster, here", by_size[NAMED].seconds / thousand.seconds, 10)
    broken += at_least("tasks found complete", min(run.complete / run.number for run in ours), 1)
    plot = Plot({"luigi.contrib.pai, mended": mended, "luigi_pai": ours})
    return [table, far], plot, broken


def row_of(run: Scheduled) -> tuple[str, ...]:
    return (
        f"{run.number:,}",
        f"{run.complete:,}",
        f"{run.requests:,}",
        f"{run.connections:,}",
        f"{run.seconds:.2f}",
        f"{run.cpu:.2f}",
    )


# ---------------------------------------------------------------- one job


def measure_one(url: str) -> tuple[Table, list[str]]:
    """Measure one complete() with 10,000 jobs on the server, and a 0.2 s job, and simulate a 1 h job."""
    requests.get(f"{url}/set?listed_jobs={MOST}&running=0", timeout=10)
    one = schedule_one(url)
    few, many = (
        min(schedule(url, Ours, NAMED, listed).cpu for _ in range(ROUNDS)) for listed in (NAMED, OLD_JOBS)
    )
    blinks = against_contrib.measure_blinks()
    hours = {each.name: polling.single(each) for each in (polling.CONTRIB, polling.of_luigi_pai())}
    theirs, ours = hours[polling.CONTRIB.name], hours["luigi_pai"]
    table = Table("One job", ("", "luigi.contrib.pai, mended", "luigi_pai"))
    table.add(
        "0.2 s, from run() to its end (`luigi-pai local`)", *(f"{blinks[name]:.2f} s" for name in blinks)
    )
    table.add("1 h: requests (simulated)", f"{theirs.hour_requests}", f"**{ours.hour_requests}**")
    table.add("1 h: end noticed after, at most", f"{theirs.hour_delay:.1f} s", f"{ours.hour_delay:.1f} s")
    table.add(f"one complete() beside {MOST:,} jobs on the server: requests", "2", f"**{one}**")
    table.add(f"{NAMED:,} finished tasks beside {OLD_JOBS:,} jobs: CPU time", "", f"x {many / few:.2f}")
    broken = at_most("CPU time beside old jobs", many / few, 1.3)
    broken += at_most("seconds of a job of 0.2 s", blinks["luigi_pai"], 0.5)
    broken += at_most("requests of a job of 1 h", ours.hour_requests, 179)
    broken += at_most("delay of a job of 1 h", ours.hour_delay, 30.1)
    broken += at_most("requests of one complete()", one, 1)
    return table, broken


def schedule_one(url: str) -> int:
    forget()
    requests.get(f"{url}/counts", timeout=10)
    if not Ours(number=MOST // 2, finished=True).complete():
        raise RuntimeError("the task was not complete")
    return int(requests.get(f"{url}/counts", timeout=10).json()["requests"])


# ---------------------------------------------------------------- many jobs in flight


class SetClock(Clock):
    """A clock that advances only by sleep()."""

    def __init__(self) -> None:
        self.slept = 0.0
        self._time, self._monotonic = time.time(), time.monotonic()

    def time(self) -> float:
        return self._time + self.slept

    def monotonic(self) -> float:
        return self._monotonic + self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


def measure_in_flight(url: str) -> tuple[Table, list[str]]:
    """Monitor 1,000 jobs of 1 h, and count the requests in each minute."""
    requests.get(f"{url}/set?listed_jobs=0&running={IN_FLIGHT}&now=0", timeout=10)
    requests.get(f"{url}/counts", timeout=10)
    clock = SetClock()
    cluster = Cluster(url, "admin", password="admin-password", clock=clock, api_version="v1")
    watcher = Watcher(cluster.book)
    for number in range(IN_FLIGHT):
        name = f"{FINISHED}long-{number}"
        status = cluster.job(name).status() if number == 0 else JobStatus(name, JobState.RUNNING)
        watcher.add(status, new=True)
    with requests.Session() as control:
        control.get(f"{url}/counts", timeout=10)
        minutes, late = [0] * 62, []
        while len(watcher):
            clock.sleep(watcher.idle())
            control.get(f"{url}/set?now={clock.slept}", timeout=10)
            updates = watcher.step()
            minutes[int(clock.slept // 60)] += control.get(f"{url}/counts", timeout=10).json()["requests"]
            late += [clock.slept - HOUR for update in updates if update.outcome is Outcome.ENDED]
    cluster.close()
    memory = psutil.Process().memory_info().rss / 1e6
    mean = sum(minutes) / 60
    later = max(minutes[5:])
    table = Table(
        f"{IN_FLIGHT:,} jobs of 1 h in flight", ("", "luigi.contrib.pai (derived)", "luigi_pai (measured)")
    )
    table.add("processes", f"{IN_FLIGHT:,}: run() of each blocks one", "**1**")
    table.add(
        "memory",
        f"{IN_FLIGHT:,} times {memory_of_a_fork():.0f} MB (a fork of Luigi, its own)",
        f"{memory:.0f} MB",
    )
    table.add(
        "requests a minute for states",
        f"{IN_FLIGHT * 12:,}: each asks every 5 s",
        f"**{mean:.1f}** on average",
    )
    table.add("... in the first minute", f"{IN_FLIGHT * 12:,}", str(minutes[0]))
    table.add("... from the sixth minute on, at most", f"{IN_FLIGHT * 12:,}", str(later))
    table.add("connections a minute", f"{IN_FLIGHT * 12:,}", "0: one is kept")
    table.add("ends noticed after, on average", "2.5 s", f"{statistics.mean(late):.1f} s")
    broken = at_most("MB with 1,000 jobs", memory, 150)
    broken += at_most("requests a minute of 1,000 jobs", mean, 10)
    broken += at_most("requests of a later minute", later, 10)
    broken += at_most("ends that were missed", IN_FLIGHT - len(late), 0)
    return table, broken


def memory_of_a_fork() -> float:
    """Return the unshared memory, in MB, of a forked Luigi worker that only waits."""
    here, there = multiprocessing.Pipe()
    child = os.fork()
    if child == 0:
        there.send(sum(len(str(value)) for value in vars(luigi).values()))  # a worker also runs some code
        time.sleep(60)
        os._exit(0)
    try:
        here.poll(20)
        return psutil.Process(child).memory_full_info().uss / 1e6
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def measure_short() -> tuple[Table, list[str]]:
    """Submit 100 jobs of 1 s to a local server, and measure how soon their ends are noticed."""
    late = []
    with LocalPai(api="v1") as server:
        cluster = Cluster(server.url, server.username, password=server.password, fs_uri=server.fs_uri)
        watcher = Watcher(cluster.book)
        begin = time.perf_counter()
        submitted = 0
        while submitted < SHORT_JOBS or len(watcher):
            if submitted < SHORT_JOBS:
                job = cluster.submit(PaiJob(f"short-{submitted}", "x", [TaskRole("main", "sleep 1")]))
                watcher.add(job.status(), new=True)
                submitted += 1
            else:
                time.sleep(watcher.idle())
            ended = [update.status for update in watcher.step() if update.outcome is Outcome.ENDED]
            late += [time.time() - (status.completed_ms or 0) / 1000 for status in ended]
        took = time.perf_counter() - begin
        cluster.close()
    mean = statistics.mean(late)
    table = Table(
        f"{SHORT_JOBS} jobs of `sleep 1` on `luigi-pai local`",
        ("", "luigi.contrib.pai (derived)", "luigi_pai"),
    )
    table.add("processes that watch", f"{SHORT_JOBS}", "**1**")
    table.add("ends noticed after, on average", "4 s: it asks after 5 s", f"**{mean:.2f} s**")
    table.add("all noticed after", "", f"{took:.1f} s")
    return table, at_most("delay of jobs of 1 s", mean, 0.2)


# ---------------------------------------------------------------- all of it


def at_most(what: str, value: float, most: float) -> list[str]:
    return [] if value <= most else [f"{what}: {value:.2f}, promised at most {most}"]


def at_least(what: str, value: float, least: float) -> list[str]:
    return [] if value >= least else [f"{what}: {value:.2f}, promised at least {least}"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the cost of many jobs with luigi.contrib.pai.")
    parser.add_argument(
        "--all", action="store_true", help="also measure the patched luigi.contrib.pai with 10,000 tasks"
    )
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    arguments = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    try:
        if not here.poll(20):
            print("the server did not start", file=sys.stderr)
            return 1
        url = f"http://127.0.0.1:{here.recv()}"
        in_flight, broken = measure_in_flight(
            url
        )  # first, because later parts increase the memory of this process
        configure(url, "admin", "admin-password")
        tables, plot, missed = measure_scheduling(url, MOST if arguments.all else MENDED_SIZES[-1])
        broken += missed
        one, missed = measure_one(url)
        broken += missed
    finally:
        server.terminate()
        server.join(10)
    short, missed = measure_short()
    broken += missed
    counts, missed = calls.measure()
    broken += missed
    steps = Table("Own functions of luigi_pai", ("", "calls", "in files", "frames from run() to the POST"))
    for what, numbers in counts.items():
        steps.add(f"`{what}()`", f"{numbers['calls']:,}", str(numbers["files"]), str(numbers["frames"] or ""))
    tables += [one, in_flight, short, steps]
    for table in tables:
        print(f"\n{table}")
    for promise in broken:
        print(f"broken: {promise}")
    if arguments.write:
        write_page(tables, plot)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
