"""Requests, connections, logins and time of luigi_pai beside luigi.contrib.pai.

Both talk, in turn and in one process, to one small server on 127.0.0.1, in a
process of its own. It answers as a rest-server 0.7.1 does and lets every job
succeed at once; to luigi.contrib.pai it says SUCCEED, the word that it waits
for, since with a real server's SUCCEEDED it never ends well. Its sleep of 5 s
between two looks is not reached, so nothing is patched.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import sys
import threading
import time
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import requests

warnings.simplefilter("ignore")  # Luigi's, about what is not measured here

import luigi  # noqa: E402
import luigi.configuration  # noqa: E402
import luigi.contrib.pai as contrib  # noqa: E402

import luigi_pai  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

TASKS = 1000
JOBS = 200
ROUNDS = 2
JOBS_PATH = "/api/v1/jobs"


# ---------------------------------------------------------------- the server


class Handler(BaseHTTPRequestHandler):
    """Answers logins, posts and looks; every job that is there has succeeded."""

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
        if self.path == "/counts":  # read, and begin anew
            with self.lock:
                counts = dict(self.counts)
                self.counts.update(dict.fromkeys(counts, 0))
                self.jobs.clear()
            self.answer(200, counts)
            return
        self.count("requests")
        name = self.path.removeprefix(f"{JOBS_PATH}/")
        if name not in self.jobs:
            self.answer(404, {"code": "NoJobError", "message": f"Job {name} is not found."})
            return
        status = {
            "name": name,
            "username": "admin",
            "state": "SUCCEED" if name.startswith("contrib") else "SUCCEEDED",
            "retries": 0,
            "createdTime": self.jobs[name],
            "completedTime": self.jobs[name],
            "appExitCode": 0,
            "virtualCluster": "default",
        }
        self.answer(200, {"name": name, "jobStatus": status, "taskRoles": {}})

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
        body = json.dumps(document).encode()
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


class Ours(luigi_pai.PaiTask):
    number = luigi.IntParameter()
    image = "openpai/pai.example.sklearn"
    tasks = (luigi_pai.TaskRole("main", "python train.py"),)

    @property
    def name(self) -> str:
        return f"ours-{self.number}"


class Contrib(contrib.PaiTask):
    number = luigi.IntParameter()
    image = "openpai/pai.example.sklearn"
    tasks = [contrib.TaskRole("main", "python train.py")]  # noqa: RUF012  it takes nothing but a list

    @property
    def name(self) -> str:
        return f"contrib-{self.number}"


KINDS: dict[str, type[luigi.Task]] = {"luigi.contrib.pai": Contrib, "luigi_pai": Ours}


def construct(kind: type[luigi.Task]) -> None:
    luigi.Task.clear_instance_cache()
    for number in range(TASKS):
        kind(number=number)


def live(kind: type[luigi.Task]) -> None:
    """Take each job through its life, as a Luigi worker does: complete? run, complete?"""
    luigi.Task.clear_instance_cache()
    for number in range(JOBS):
        task = kind(number=number)
        if task.complete():
            raise RuntimeError(f"{task} was complete before it ran")
        task.run()
        if not task.complete():
            raise RuntimeError(f"{task} was not complete after it ran")


# ---------------------------------------------------------------- measuring


def measure(url: str, what: Callable[[type[luigi.Task]], None], number: int) -> None:
    """Print what each kind takes; the least time of its rounds, which take turns."""
    least: dict[str, float] = {}
    counts: dict[str, dict[str, int]] = {}
    for _ in range(ROUNDS):
        for name, kind in KINDS.items():
            luigi_pai.run._clients.clear()  # noqa: SLF001  each round is a process's first
            requests.get(f"{url}/counts", timeout=10)
            begin = time.perf_counter()
            what(kind)
            taken = time.perf_counter() - begin
            least[name] = min(taken, least.get(name, taken))
            counts[name] = requests.get(f"{url}/counts", timeout=10).json()
            counts[name]["connections"] -= 1  # the one that reads the counts
    print(f"{'':18} {'requests':>9} {'connections':>12} {'logins':>7} {'ms each':>8}   of {number}")
    for name in KINDS:
        count = counts[name]
        print(
            f"{name:18} {count['requests']:9} {count['connections']:12} {count['logins']:7}"
            f" {least[name] / number * 1000:8.2f}"
        )
    ours, theirs = least["luigi_pai"], least["luigi.contrib.pai"]
    print(f"luigi_pai takes {ours / theirs:.2f} of the time\n")


def main() -> int:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    try:
        if not here.poll(20):
            print("the server did not start", file=sys.stderr)
            return 1
        url = f"http://127.0.0.1:{here.recv()}"
        config = luigi.configuration.get_config()
        for key, value in {"pai_url": url, "username": "admin", "password": "admin-password"}.items():
            config.set("OpenPai", key, value)
        print(f"constructing {TASKS} tasks")
        measure(url, construct, TASKS)
        print(f"the life of {JOBS} jobs that succeed at once: complete(), run(), complete()")
        measure(url, live, JOBS)
    finally:
        server.terminate()
        server.join(10)
    return 0


if __name__ == "__main__":
    sys.exit(main())
