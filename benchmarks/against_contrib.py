"""Compare the requests, connections, logins, time and CPU time of luigi_pai and luigi.contrib.pai.

Both connect, in turn and in one process, to a small server on 127.0.0.1 in a separate process. The server
responds like a rest-server 0.7.1, and every job succeeds at once. To luigi.contrib.pai, it sends the state
SUCCEED, which that module waits for; with the SUCCEEDED of a real server, its jobs never succeed. Its sleep
of 5 s between two lookups never happens here. Finished tasks are also compared with `plain`, a Luigi task
that only makes one GET with a shared requests.Session; many_jobs.py measures more of them. A job of 0.2 s
runs on `luigi-pai local`, where luigi.contrib.pai is patched to accept SUCCEEDED. At the end, both polling
schedules are simulated (polling.py).

Promises: Constructing a task makes no request. 200 finished tasks take at most 3 requests on one connection,
and at most half the CPU time of `plain`. The end of the job of 0.2 s is noticed less than 0.5 s after the
start of run(). polling.py keeps its promises. If a promise is broken, the exit code is 1.
"""

from __future__ import annotations

import base64
import gc
import json
import multiprocessing
import statistics
import sys
import threading
import time
import warnings
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import polling
import requests

warnings.simplefilter("ignore")  # Luigi's warnings are irrelevant here

import luigi  # noqa: E402
import luigi.configuration  # noqa: E402
import luigi.contrib.pai as contrib  # noqa: E402

import luigi_pai  # noqa: E402
from luigi_pai.local import LocalPai  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

TASKS = 1000
JOBS = 200
ROUNDS = 2
FINISHED_ROUNDS = 11
BLINK = "sleep 0.2"
BLINKS = {"luigi.contrib.pai": 2, "luigi_pai": 9}  # number of jobs; each takes 5 s with luigi.contrib.pai
JOBS_PATH = "/api/v1/jobs"
FINISHED = "finished-"  # prefix of the jobs that exist from the start

FINISHED_REQUESTS = 3
CPU_LIMIT = 0.5
BLINK_LIMIT = 0.5


# ---------------------------------------------------------------- the server


class Handler(BaseHTTPRequestHandler):
    """Responds to logins, submissions and lookups; every job has succeeded."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    jobs: dict[str, int] = {}  # noqa: RUF012  shared by all connections
    counts: dict[str, int] = {"requests": 0, "connections": 0, "logins": 0}  # noqa: RUF012
    lock = threading.Lock()

    def setup(self) -> None:
        super().setup()
        self.count("connections")

    def count(self, what: str) -> None:
        with self.lock:
            self.counts[what] += 1

    def do_GET(self) -> None:
        if self.path == "/counts":  # read and reset
            with self.lock:
                counts = dict(self.counts)
                self.counts.update(dict.fromkeys(counts, 0))
                self.jobs.clear()
            self.answer(200, counts)
            return
        self.count("requests")
        if self.path.startswith(f"{JOBS_PATH}?"):
            self.send(200, self.listed())
            return
        name = self.path.removeprefix(f"{JOBS_PATH}/")
        if name not in self.jobs and not name.startswith(FINISHED):
            self.answer(404, {"code": "NoJobError", "message": f"Job {name} is not found."})
            return
        self.answer(200, {"name": name, "jobStatus": self.row(name), "taskRoles": {}})

    def row(self, name: str) -> dict[str, Any]:
        ended = self.jobs.get(name, 1_500_000_000_000)
        return {
            "name": name,
            "username": "admin",
            "state": "SUCCEED" if name.removeprefix(FINISHED).startswith("contrib") else "SUCCEEDED",
            "subState": "FRAMEWORK_COMPLETED",
            "executionType": "STOP",
            "retries": 0,
            "createdTime": ended,
            "completedTime": ended,
            "appExitCode": 0,
            "virtualCluster": "default",
        }

    def listed(self) -> bytes:
        """Return the list of luigi_pai's finished jobs and of the submitted jobs."""
        names = [f"{FINISHED}ours-{number}" for number in range(JOBS)] + list(self.jobs)
        return json.dumps([self.row(name) for name in names]).encode()

    def do_POST(self) -> None:
        self.count("requests")
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/api/v1/token":
            self.count("logins")
            now = int(time.time())
            claims = json.dumps({"username": "admin", "iat": now, "exp": now + body["expiration"]})
            payload = base64.urlsafe_b64encode(claims.encode()).decode().rstrip("=")
            self.answer(200, {"user": "admin", "token": f"e30.{payload}.x", "admin": True})
            return
        self.jobs[body["jobName"]] = int(time.time() * 1000)
        self.answer(202, {"message": "update job successfully"})

    def answer(self, status: int, document: dict[str, Any]) -> None:
        self.send(status, json.dumps(document).encode())

    def send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def serve(ready: Connection) -> None:
    server = Server(("127.0.0.1", 0), Handler)
    ready.send(server.server_address[1])
    server.serve_forever()


# ---------------------------------------------------------------- the tasks


def job_name(kind: str, task: luigi.Task) -> str:
    return f"{FINISHED if task.finished else ''}{kind}-{task.number}"


class Ours(luigi_pai.PaiTask):
    number = luigi.IntParameter()
    finished = luigi.BoolParameter()
    image = "openpai/pai.example.sklearn"
    tasks = (luigi_pai.TaskRole("main", BLINK),)

    @property
    def name(self) -> str:
        return job_name("ours", self)


class Contrib(contrib.PaiTask):
    number = luigi.IntParameter()
    finished = luigi.BoolParameter()
    image = "openpai/pai.example.sklearn"
    tasks = [contrib.TaskRole("main", BLINK)]  # noqa: RUF012  it accepts only a list

    @property
    def name(self) -> str:
        return job_name("contrib", self)


class Mended(Contrib):
    """luigi.contrib.pai with the state that real servers send."""

    def _PaiTask__check_job_status(self) -> bool:  # noqa: N802  the mangled name
        try:
            return super()._PaiTask__check_job_status()
        except RuntimeError as end:
            if str(end).endswith(" SUCCEEDED"):
                return True
            raise


class Plain(luigi.Task):
    """The least that a task can do to find out whether its job has succeeded."""

    number = luigi.IntParameter()
    finished = luigi.BoolParameter()
    session = requests.Session()
    jobs_url = ""

    def complete(self) -> bool:
        reply = self.session.get(f"{self.jobs_url}/{job_name('plain', self)}", timeout=30)
        reply.raise_for_status()
        return bool(reply.json()["jobStatus"]["state"] == "SUCCEEDED")


KINDS: dict[str, type[luigi.Task]] = {"luigi.contrib.pai": Contrib, "luigi_pai": Ours}


def configure(url: str, username: str, password: str) -> None:
    """Point all kinds of tasks at a server."""
    config = luigi.configuration.get_config()
    for key, value in {"pai_url": url, "username": username, "password": password}.items():
        config.set("OpenPai", key, value)
    Plain.jobs_url = f"{url}{JOBS_PATH}"
    forget()


def forget() -> None:
    """Reset all that this process knows about the cluster and its jobs."""
    luigi.Task.clear_instance_cache()
    Plain.session.close()
    Plain.session = requests.Session()
    luigi_pai.reset_clusters()


def construct(kind: type[luigi.Task]) -> None:
    for number in range(TASKS):
        kind(number=number)


def live(kind: type[luigi.Task]) -> None:
    """Call complete(), run() and complete() of each task, like a Luigi worker."""
    for number in range(JOBS):
        task = kind(number=number)
        if task.complete():
            raise RuntimeError(f"{task} was complete before it ran")
        task.run()
        if not task.complete():
            raise RuntimeError(f"{task} was not complete after it ran")


def look(kind: type[luigi.Task]) -> None:
    """Call complete() of each finished task."""
    for number in range(JOBS):
        task = kind(number=number, finished=True)
        if not task.complete():
            raise RuntimeError(f"{task} was not complete")


# ---------------------------------------------------------------- measuring


@dataclass
class Measured:
    """The seconds of each round for one kind of task, and the server's counts in the last round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def measure(
    url: str,
    what: Callable[[type[luigi.Task]], None],
    number: int,
    kinds: dict[str, type[luigi.Task]],
    rounds: int,
) -> dict[str, Measured]:
    """Print and return the costs of each kind: the shortest time of its rounds, and the median CPU time.

    The kinds take turns. Each round starts without any knowledge of the cluster.
    """
    table = {name: Measured() for name in kinds}
    for turn in range(rounds):
        names = list(kinds) if turn % 2 else list(reversed(kinds))
        for name in names:
            forget()
            requests.get(f"{url}/counts", timeout=10)
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            what(kinds[name])
            row = table[name]
            row.cpu.append(time.process_time() - cpu)
            row.wall.append(time.perf_counter() - wall)
            row.counts = requests.get(f"{url}/counts", timeout=10).json()
            row.counts["connections"] -= 1  # the connection that reads the counts
    print(f"of {number:<15} {'requests':>9} {'connections':>12} {'logins':>7} {'ms each':>8} {'CPU ms':>7}")
    for name, row in table.items():
        print(
            f"{name:18} {row.counts['requests']:9} {row.counts['connections']:12} {row.counts['logins']:7}"
            f" {min(row.wall) / number * 1000:8.2f} {statistics.median(row.cpu) / number * 1000:7.2f}"
        )
    ours = table["luigi_pai"]
    for name, row in table.items():
        if name != "luigi_pai":
            wall, cpu = ratio(ours.wall, row.wall), ratio(ours.cpu, row.cpu)
            print(f"luigi_pai compared with {name}: {wall:.2f} of the time, {cpu:.2f} of the CPU time")
    print()
    return table


def ratio(times: list[float], others: list[float]) -> float:
    """Return the median of the ratios within a round."""
    return statistics.median(time / other for time, other in zip(times, others, strict=True))


def measure_blinks() -> dict[str, float]:
    """Print the seconds of run() for a job of 0.2 s, and return the medians."""
    kinds: dict[str, type[luigi.Task]] = {"luigi.contrib.pai": Mended, "luigi_pai": Ours}
    print(f"a job of `{BLINK}` on luigi-pai local, from the start of run() to its return")
    print(f"{'':18} {'median s':>9} {'most s':>7} {'after its end s':>16}")
    medians = {}
    with LocalPai(api="v1") as server:
        configure(server.url, server.username, server.password)
        for name, kind in kinds.items():
            taken, late = [], []
            for number in range(BLINKS[name]):
                task = kind(number=number)
                if task.complete():
                    raise RuntimeError(f"{task} was complete before it ran")
                begin = time.perf_counter()
                task.run()
                taken.append(time.perf_counter() - begin)
                noticed = time.time()
                reply = requests.get(f"{server.url}{JOBS_PATH}/{task.name}", timeout=10).json()
                late.append(noticed - reply["jobStatus"]["completedTime"] / 1000)
            medians[name] = statistics.median(taken)
            print(f"{name:18} {medians[name]:9.2f} {max(taken):7.2f} {statistics.median(late):16.2f}")
    print()
    return medians


def compare(url: str) -> list[str]:
    """Print all tables, and return the broken promises."""
    broken = []
    configure(url, "admin", "admin-password")
    print(f"constructing {TASKS} tasks")
    constructed = measure(url, construct, TASKS, KINDS, ROUNDS)["luigi_pai"].counts["requests"]
    if constructed:
        broken.append(f"constructing {TASKS} tasks made {constructed} requests, promised 0")
    print(f"{JOBS} jobs that succeed at once: complete(), run(), complete()")
    measure(url, live, JOBS, KINDS, ROUNDS)
    print(f"complete() of {JOBS} tasks whose jobs have finished")
    finished = measure(url, look, JOBS, {**KINDS, "plain": Plain}, FINISHED_ROUNDS)
    counts = finished["luigi_pai"].counts
    if counts["requests"] > FINISHED_REQUESTS or counts["connections"] > 1:
        broken.append(
            f"{JOBS} finished tasks: {counts['requests']} requests on {counts['connections']} connections, "
            f"promised {FINISHED_REQUESTS} on 1"
        )
    cpu = ratio(finished["luigi_pai"].cpu, finished["plain"].cpu)
    if cpu > CPU_LIMIT:
        broken.append(f"CPU time of a finished task: {cpu:.2f} of plain, promised {CPU_LIMIT}")
    noticed = measure_blinks()["luigi_pai"]
    if noticed > BLINK_LIMIT:
        broken.append(f"a job of 0.2 s noticed after {noticed:.2f} s, promised {BLINK_LIMIT}")
    return broken


def main() -> int:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    try:
        if not here.poll(20):
            print("the server did not start", file=sys.stderr)
            return 1
        broken = compare(f"http://127.0.0.1:{here.recv()}")
    finally:
        server.terminate()
        server.join(10)
    broken += polling.compare(polling.JOBS, all_candidates=False)
    for promise in broken:
        print(f"broken: {promise}")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
