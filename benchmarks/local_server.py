"""Measure the speed and memory of the local server: submissions, lists of 10,000 jobs, many jobs at once.

All requests go over HTTP to `luigi-pai local` in a separate process, like those of its clients.

Promises: The median submission takes at most 10 ms, and the median list of 10,000 jobs at most 150 ms. Of 200
jobs of `sleep 1` and then 2,000 of `true`, submitted as fast as the server accepts them, each runs exactly
once, and the server stays below 200 MB. With 600 idle sessions of other programs, a job of `true` takes at
most 1.3 times the CPU time. If a promise is broken, the exit code is 1. (Submissions without a pause, whose
jobs all start, are also shown, without a promise: there the started processes share the cores with the
server.) `--only submit|list|many|idle` runs one part. `--jobs N`, `--listed N` and `--rounds N` shorten the
run.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil

from luigi_pai.local import LocalPai
from luigi_pai.local.releases import EXIT_STOPPED
from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import COMPLETED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SUBMIT_MS = 10.0
PAUSE = 0.05
LIST_MS = 150.0
MEGABYTES = 200.0
PARTS = ("submit", "list", "many", "idle")
IDLE_SESSIONS = 600
IDLE_JOBS = 60
IDLE_RATIO = 1.3
MANY_SECONDS = 600.0
ENDED = "SUCCEEDED,FAILED,STOPPED"


class Connection:
    """One user's HTTP connection, kept open."""

    def __init__(self, server: LocalPai) -> None:
        self._http = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
        login = {"username": server.username, "password": server.password}
        self._token = ""
        self._token = json.loads(self.send("POST", "/api/v1/token", json.dumps(login)))["token"]

    def send(self, method: str, path: str, body: str | None = None, kind: str = "application/json") -> bytes:
        """Return the body of the response; exit if it is an error."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if body is not None:
            headers["Content-Type"] = kind
        self._http.request(method, path, body, headers)
        reply = self._http.getresponse()
        content = reply.read()
        if reply.status >= http.client.BAD_REQUEST:
            raise SystemExit(f"{method} {path}: {reply.status} {content[:500]!r}")
        return content

    def submit_v1(self, name: str, command: str) -> None:
        self.send("POST", "/api/v1/jobs", json.dumps(v1_job(name, command)))

    def submit_v2(self, name: str, command: str) -> None:
        self.send("POST", "/api/v2/jobs", V2_JOB.format(name=name, command=command), "text/yaml")


def v1_job(name: str, command: str) -> dict[str, Any]:
    role = {
        "name": "main",
        "taskNumber": 1,
        "cpuNumber": 1,
        "memoryMB": 1024,
        "gpuNumber": 0,
        "command": command,
    }
    return {"jobName": name, "image": "python", "taskRoles": [role]}


V2_JOB = """\
protocolVersion: 2
name: {name}
type: job
jobRetryCount: 0
prerequisites:
  - {{name: img, type: dockerimage, uri: "python:3.11"}}
parameters: {{epochs: 10, rate: 0.1}}
taskRoles:
  main:
    instances: 1
    completion: {{minFailedInstances: 1}}
    dockerImage: img
    resourcePerInstance: {{cpu: 1, memoryMB: 1024, gpu: 0}}
    commands:
      - "{command}"
"""


def timed(work: Callable[[], object], rounds: int, pause: float = 0) -> list[float]:
    """Return the milliseconds of each round. Each follows a pause of ``pause`` seconds."""
    times = []
    for _ in range(rounds):
        time.sleep(pause)
        begun = time.perf_counter()
        work()
        times.append((time.perf_counter() - begun) * 1000)
    return times


def say(what: str, times: Sequence[float], promised: float | None) -> bool:
    """Print a line, and return whether the promise is kept."""
    median = statistics.median(times)
    worst = statistics.quantiles(times, n=10)[-1]
    kept = promised is None or median <= promised
    goal = "" if promised is None else f"  promised {promised:.0f}"
    print(f"{what:58} {median:8.1f} {worst:8.1f}{goal}")
    if not kept:
        print(f"broken: {what}: {median:.1f} ms, promised {promised:.0f}")
    return kept


def memory(pid: int, what: str = "VmHWM") -> float:
    """Return the peak (VmHWM) or current (VmRSS) memory of a process in MB, or 0 without /proc."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    except OSError:
        return 0.0
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:")) * 1024 / 1e6


def measure_submissions(rounds: int) -> bool:
    """Submit jobs that start at once, with and without pauses between them, then jobs that are queued."""
    kept = True
    for dialect in ("v1", "v2"):
        with LocalPai(api=dialect, max_tasks=2 * rounds) as server:
            connection = Connection(server)
            submit = connection.submit_v1 if dialect == "v1" else connection.submit_v2
            names = iter([f"{dialect}-{number}" for number in range(3 * rounds)])

            def submit_next(
                submit: Callable[[str, str], None] = submit, names: Iterator[str] = names
            ) -> None:
                submit(next(names), "sleep 600")

            times = timed(submit_next, rounds, pause=PAUSE)
            kept &= say(f"submit, {dialect}, the job starts at once", times, SUBMIT_MS)
            say(f"submit, {dialect}, the same, without a pause", timed(submit_next, rounds), None)
            kept &= say(f"submit, {dialect}, the job is queued", timed(submit_next, rounds), SUBMIT_MS)
    return kept


def fill(data: Path, api: str, number: int) -> None:
    """Create a data folder that contains finished jobs."""
    store = Store(data / "server.sqlite", api)
    users, clusters = ("admin", "anna", "ben", "carla"), ("default", "vc1")
    now = time.time_ns() // 1_000_000
    with store.changing():
        for index in range(number):
            config = v1_job(f"job-{index:05}", "true")
            spec = {**config, "retryCount": 0, "gang": True, "storages": []}
            user, cluster = users[index % len(users)], clusters[index % len(clusters)]
            job = store.add_job(f"job-{index:05}", user, cluster, config, spec)
            job.sub_state, job.completed, job.launched = COMPLETED, now, now
            job.exit_code = (0, 0, 0, 1, EXIT_STOPPED)[index % 5]
            store.save_job(job)
            if api == "v2" and index % 10 == 0:  # v1 jobs have no tags
                store.rows("INSERT INTO tags VALUES (?, ?)", (job.id, f"tag{index % 3}"))
    store.close()


LISTS = {
    "v1": (
        ("/api/v1/jobs", "v1, all {}"),
        ("/api/v1/jobs?username=anna", "v1, of one user (a quarter)"),
    ),
    "v2": (
        ("/api/v2/jobs?limit=50000", "v2, all {}"),
        ("/api/v2/jobs", "v2, without options (5,000)"),
        ("/api/v2/jobs?limit=50000&order=jobName,ASC&withTotalCount=true", "v2, all {}, by name, counted"),
        ("/api/v2/jobs?limit=50000&order=completionTime,DESC", "v2, all {}, by completion time"),
        ("/api/v2/jobs?username=anna,ben&state=SUCCEEDED,FAILED&limit=50000", "v2, of two users and states"),
        (
            "/api/v2/jobs?vc=vc1&limit=20&offset=4000&withTotalCount=true",
            "v2, 20 of a virtual cluster, a late page",
        ),
        ("/api/v2/jobs?keyword=job-00012", "v2, by keyword in the name"),
        ("/api/v2/jobs?tagsContain=tag0,tag1&limit=50000", "v2, with tags"),
        ("/api/v2/jobs?tagsNotContain=tag0&limit=50000", "v2, without a tag"),
    ),
}


def measure_lists(number: int, rounds: int) -> bool:
    """List existing jobs, by themselves and while new jobs are submitted."""
    kept = [_measure_lists(api, number, rounds) for api in LISTS]
    return all(kept)


def _measure_lists(api: str, number: int, rounds: int) -> bool:
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), api, number)
        with LocalPai(folder, api=api, virtual_clusters=["vc1"]) as server:
            connection = Connection(server)
            everything = LISTS[api][0][0]
            first = timed(lambda: connection.send("GET", everything), 1)[0]
            print(f"{f'list, {api}, the first one after the start':58} {first:8.1f}")
            for path, what in LISTS[api]:
                rows = json.loads(connection.send("GET", path))
                rows = rows["data"] if isinstance(rows, dict) else rows
                times = timed(lambda path=path: connection.send("GET", path), rounds)
                kept &= say(f"list, {what.format(f'{number:,}')}: {len(rows)} rows", times, LIST_MS)
            numbers = iter(range(rounds))
            submit = connection.submit_v1 if api == "v1" else connection.submit_v2

            def list_after() -> None:
                connection.send("GET", everything)
                submit(f"new-{next(numbers)}", "sleep 600")

            kept &= say(
                f"list and a submission, {api}, in turn", timed(list_after, rounds), LIST_MS + SUBMIT_MS
            )
            print(f"{f'peak memory of the server, MB, {api}':58} {memory(server.pid):8.1f}")
    return kept


def measure_many(number: int) -> bool:
    """Submit many jobs at once, and check that each ran exactly once."""
    kept = True
    for dialect in ("v1", "v2"):
        with tempfile.TemporaryDirectory() as folder, LocalPai(api=dialect) as server:
            connection = Connection(server)
            kept &= run_at_once(connection, dialect, min(200, number), "sleep 1", folder)
            kept &= run_at_once(connection, dialect, number, "true", folder)
            most = memory(server.pid)
            print(f"{f'peak memory of the server, MB, {dialect}':58} {most:8.1f}  promised {MEGABYTES:.0f}")
            if most >= MEGABYTES:
                kept = False
                print(f"broken: server memory, {dialect}: {most:.0f} MB, promised {MEGABYTES:.0f}")
    return kept


def run_at_once(connection: Connection, dialect: str, count: int, command: str, folder: str) -> bool:
    """Submit jobs as fast as the server accepts them. Each run of a job writes a file."""
    submit = connection.submit_v1 if dialect == "v1" else connection.submit_v2
    word = command.replace(" ", "")
    numbers = iter(range(count))

    def send() -> None:
        number = next(numbers)
        submit(f"{word}-{number}", f"{command}; touch {folder}/{word}.{number}.$$")

    begun = time.perf_counter()
    taken = timed(send, count)
    sent = time.perf_counter() - begun
    ended = wait_for_ends(connection, dialect, word, count)
    took = time.perf_counter() - begun
    ran = [path.name.split(".")[1] for path in Path(folder).glob(f"{word}.*")]
    kept = ended == count and len(ran) == len(set(ran)) == count
    print(
        f"{f'{count:,} jobs of {command}, {dialect}':26} sent in {sent:.1f} s "
        f"(median {statistics.median(taken):.1f} ms), all finished after {took:.1f} s: {ended:,} succeeded, "
        f"{len(set(ran)):,} ran, {len(ran) - len(set(ran))} twice"
    )
    if not kept:
        print(f"broken: not each of {count:,} jobs of {command}, {dialect}, ran exactly once")
    return kept


def wait_for_ends(connection: Connection, dialect: str, word: str, count: int) -> int:
    """Wait until all jobs have finished, and return how many have succeeded."""
    deadline = time.monotonic() + MANY_SECONDS
    while time.monotonic() < deadline:
        if dialect == "v1":
            rows = json.loads(connection.send("GET", "/api/v1/jobs"))
            rows = [row for row in rows if row["name"].startswith(word)]
        else:
            rows = json.loads(connection.send("GET", f"/api/v2/jobs?keyword={word}&limit=50000"))
        if sum(row["state"] in ENDED for row in rows) == count:
            return sum(row["state"] == "SUCCEEDED" for row in rows)
        time.sleep(0.5)
    return sum(row["state"] == "SUCCEEDED" for row in rows)


def cpu_a_job(prefix: str, server: LocalPai, connection: Connection) -> float:
    """Run jobs of `true` one at a time, and return the CPU milliseconds per job, including the server's."""
    process = psutil.Process(server.pid)
    before = sum(process.cpu_times()[:4])
    for number in range(IDLE_JOBS):
        connection.submit_v1(f"{prefix}-{number}", "true")
        while (
            json.loads(connection.send("GET", f"/api/v1/jobs/{prefix}-{number}"))["jobStatus"]["state"]
            != "SUCCEEDED"
        ):
            time.sleep(0.05)
    return (sum(process.cpu_times()[:4]) - before) / IDLE_JOBS * 1000


def measure_idle_sessions() -> bool:
    """Compare the CPU time of a job with and without idle sessions of other programs."""
    with LocalPai(api="v1") as server:
        connection = Connection(server)
        cpu_a_job("warm", server, connection)
        alone = cpu_a_job("alone", server, connection)
        sessions = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(IDLE_SESSIONS)]
        try:
            beside = cpu_a_job("beside", server, connection)
        finally:
            for session in sessions:
                session.kill()
                session.wait()
    print(
        f"{f'CPU of a job, without and with {IDLE_SESSIONS} idle sessions':58} {alone:8.1f} {beside:8.1f}"
        f"  promised {IDLE_RATIO} times"
    )
    return beside <= IDLE_RATIO * alone


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", choices=PARTS, help="run only this part")
    arguments.add_argument(
        "--jobs", type=int, default=2000, help="jobs to submit at once (default: %(default)s)"
    )
    arguments.add_argument("--listed", type=int, default=10_000, help="jobs to list (default: %(default)s)")
    arguments.add_argument(
        "--rounds",
        type=int,
        default=20,
        help="lists, and a third of the submissions, per kind (default: %(default)s)",
    )
    options = arguments.parse_args()
    print(
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
    kept = True
    if options.only != "many":
        print(f"{'':58} {'median':>8} {'9 of 10':>8}  ms")
    if options.only in (None, "submit"):
        kept &= measure_submissions(3 * options.rounds)
    if options.only in (None, "list"):
        kept &= measure_lists(options.listed, options.rounds)
    if options.only in (None, "many"):
        kept &= measure_many(options.jobs)
    if options.only in (None, "idle"):
        kept &= measure_idle_sessions()
    sys.exit(not kept)


if __name__ == "__main__":
    main()
