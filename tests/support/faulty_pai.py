"""A rest-server, of the release it is told to be, that does to a client what real life does.

It knows no commands: a job runs for as long as it is told and ends as it is
told. It counts what it is asked, and on request answers late, never, with an
error, or breaks the connection, before or after it has done what it was asked.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

USER = "admin"
PASSWORD = "admin-password"  # the value that tests look for in logs and errors


@dataclass
class Job:
    """A job as the server keeps it."""

    name: str
    username: str
    config: dict
    ends_as: str = "SUCCEEDED"
    exit_code: int = 0
    diagnostics: str | None = None
    runs_for: float = 0.0
    created: float = field(default_factory=time.time)

    @property
    def state(self) -> str:
        return self.ends_as if time.time() - self.created >= self.runs_for else "RUNNING"

    def row(self) -> dict:
        ended = self.state != "RUNNING"
        return {
            "name": self.name,
            "username": self.username,
            "state": self.state,
            "subState": "FRAMEWORK_COMPLETED" if ended else "APPLICATION_RUNNING",
            "executionType": "START",
            "retries": 0,
            "createdTime": int(self.created * 1000),
            "completedTime": int((self.created + self.runs_for) * 1000) if ended else None,
            "appExitCode": self.exit_code if ended else None,
            "virtualCluster": self.config.get("virtualCluster", "default"),
        }

    def detail_v2(self) -> dict:
        ended = self.state != "RUNNING"
        status = {key: value for key, value in self.row().items() if key != "name"} | {
            "attemptId": 0,
            "appProgress": 1 if ended else 0,
            "appTrackingUrl": "",
            "appExitDiagnostics": self.diagnostics if ended else None,
            "appExitType": "Failed" if ended and self.exit_code else None,
        }
        return {"name": self.name, "tags": [], "jobStatus": status, "taskRoles": {}}

    def detail(self) -> dict:
        ended = self.state != "RUNNING"
        status = self.row() | {
            "appId": "application_1_1",
            "appProgress": 1 if ended else 0,
            "appTrackingUrl": "http://rm/application_1_1",
            "appLaunchedTime": int(self.created * 1000),
            "appCompletedTime": int((self.created + self.runs_for) * 1000) if ended else None,
            "appExitDiagnostics": self.diagnostics if ended else None,
            "appExitType": "NON_TRANSIENT" if ended and self.exit_code else None,
        }
        roles = {
            role["name"]: {
                "taskRoleStatus": {"name": role["name"]},
                "taskStatuses": [
                    {
                        "taskIndex": index,
                        "containerId": f"container_{index}",
                        "containerIp": "127.0.0.1",
                        "containerPorts": {"http": "30000", "ssh": "30001"},
                        "containerGpus": 0,
                        "containerLog": f"http://nm:8042/logs/{self.name}/{role['name']}/{index}",
                    }
                    for index in range(role.get("taskNumber", 1))
                ],
            }
            for role in self.config["taskRoles"]
        }
        return {"name": self.name, "jobStatus": status, "taskRoles": roles}


@dataclass
class Fault:
    """Something to do to requests in place of, or after, answering them.

    Kinds: a number is an HTTP status; ``reset`` breaks the connection; ``hang``
    never answers. With ``after``, the server first does what it was asked.
    """

    method: str
    path: str
    kind: int | str
    times: int = 1
    after: bool = False
    body: str = ""


class FaultyPai:
    """The server, in threads of this process, on a port of its own on 127.0.0.1."""

    def __init__(self) -> None:
        self.release = "0.7.1"  # 0.17.0: the v2 routes under /api/v1 too; 1.8.0: no v1 jobs
        self.jobs: dict[str, Job] = {}
        self.calls: list[tuple[str, str]] = []
        self.tokens: set[str] = set()
        self.faults: list[Fault] = []
        self.plan: dict = {}
        self.prefix = ""
        self._serial = 0
        self._hangs = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    def up(self) -> None:
        """Listen, on the same port as before."""
        outer = self

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request, client_address) -> None:
                pass  # a client that went away is what these tests are about

        self._server = Server(("127.0.0.1", self.port), type("Handler", (_Handler,), {"pai": outer}))
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Stop listening: connections are refused."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def close(self) -> None:
        self._hangs.set()
        self.down()

    def fail(self, method: str, path: str, kind, times: int = 1, *, after: bool = False, body="") -> None:
        """Do this to the next requests whose method is this and whose path matches the pattern."""
        self.faults.append(Fault(method, path, kind, times, after, body))

    def count(self, method: str, path: str = "") -> int:
        """Return how many requests of a method had a path that matches the pattern."""
        return sum(1 for m, p in self.calls if m == method and re.search(path, p))

    def posts(self) -> list[str]:
        """Return the names of the jobs that are on the server, in the order of their arrival."""
        return list(self.jobs)

    def add(self, name: str, **about) -> Job:
        """Put a job on the server as if it had been submitted before."""
        config = {"jobName": name, "image": "x", "taskRoles": [{"name": "main", "command": "x"}]}
        job = Job(name, about.pop("username", USER), config, **about)
        self.jobs[name] = job
        return job

    def take_fault(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.method == method and re.search(fault.path, path):
                fault.times -= 1
                return fault
        return None

    def token(self) -> str:
        self._serial += 1
        claims = {
            "username": USER,
            "iat": int(time.time()),
            "exp": int(time.time()) + 3600,
            "n": self._serial,
        }
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        token = f"e30.{payload}.sig"
        self.tokens.add(token)
        return token


class _Handler(BaseHTTPRequestHandler):
    pai: FaultyPai
    protocol_version = "HTTP/1.1"

    def _any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        path = self.path
        self.pai.calls.append((self.command, path))
        fault = self.pai.take_fault(self.command, path)
        if fault is None:
            return self._answer(*self._do(path, body))
        done = self._do(path, body) if fault.after else None
        if fault.kind == "hang":
            self.pai._hangs.wait(60)
            self.close_connection = True
            return None
        if fault.kind == "reset":
            self.close_connection = True
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            return None
        del done
        return self._answer(int(fault.kind), fault.body or {"message": "fault"})

    do_GET = do_POST = do_PUT = do_DELETE = _any

    def _do(self, path: str, body: bytes) -> tuple[int, object]:
        pai = self.pai
        parts = urlsplit(path)
        version, _, rest = parts.path.removeprefix(f"{pai.prefix}/api/").partition("/")
        if version == "v2" and rest.startswith("jobs") and pai.release != "0.7.1":
            return self._v2(rest, parse_qs(parts.query), body)
        if version == "v1" and rest.startswith("jobs") and pai.release == "0.17.0":
            return self._v2(rest, parse_qs(parts.query), body)
        gone = rest.startswith("jobs") and pai.release != "0.7.1"
        if version != "v1" or gone or not parts.path.startswith(pai.prefix):
            return 404, {"code": "NoApiError", "message": f"API {parts.path} is not found."}
        route = [unquote(piece) for piece in parts.path[len(pai.prefix) + 8 :].split("/")]
        if self.command == "POST" and route == ["token"]:
            return self._token(json.loads(body))
        authorized = self.headers.get("Authorization", "").removeprefix("Bearer ") in pai.tokens
        if self.command != "GET" and not authorized:
            return 401, {
                "code": "UnauthorizedUserError",
                "message": "Guest is not allowed to do this operation.",
            }
        if self.command == "POST" and route == ["jobs"]:
            return self._submit(json.loads(body))
        if self.command == "GET" and route == ["jobs"]:
            user = parse_qs(parts.query).get("username", [None])[0]
            return 200, [job.row() for job in reversed(pai.jobs.values()) if user in (None, job.username)]
        job = pai.jobs.get(route[1]) if route[0] == "jobs" and len(route) > 1 else None
        if job is None:
            return 404, {"code": "NoJobError", "message": f"Job {route[-1]} is not found."}
        if self.command == "PUT":
            job.ends_as, job.exit_code, job.runs_for = "STOPPED", 214, 0.0
            return 202, {"message": f"execute job {job.name} successfully"}
        return 200, job.detail()

    def _v2(self, path: str, query: dict, body: bytes) -> tuple[int, object]:
        pai = self.pai
        route = [unquote(piece) for piece in path.split("/")]
        authorized = self.headers.get("Authorization", "").removeprefix("Bearer ") in pai.tokens
        if not authorized and (self.command != "GET" or pai.release != "0.17.0"):
            message = "Guest is not allowed to do this operation."
            return 401, {"code": "UnauthorizedUserError", "message": message}
        if self.command == "POST":
            if not self.headers.get("Content-Type", "").startswith("text/"):
                errors = [{"keyword": "type", "dataPath": "", "message": "should be object"}]
                return 400, {"code": "InvalidProtocolError", "message": json.dumps(errors)}
            protocol = yaml.safe_load(body)
            name = protocol["name"]
            if name in pai.jobs:
                return 409, {"code": "ConflictJobError", "message": f"Job {USER}~{name} already exists."}
            pai.jobs[name] = Job(name, USER, protocol, **pai.plan)
            return 202, {"status": 202, "message": f"Update job {name} for user {USER} successfully."}
        if route == ["jobs"]:
            users, keyword = query.get("username"), query.get("keyword", [""])[0]
            return 200, [
                job.row()
                for job in reversed(pai.jobs.values())
                if (users is None or job.username in users) and keyword in job.name
            ]
        user, _, name = route[1].partition("~")
        job = pai.jobs.get(name)
        if job is None or job.username != user:
            return 404, {"code": "NoJobError", "message": f"Job {route[1]} is not found."}
        if self.command == "PUT":
            job.ends_as, job.exit_code, job.runs_for = "STOPPED", -210, 0.0
            return 202, {"status": 202, "message": f"Execute job {job.name} successfully."}
        if len(route) > 2:
            return 404, {"code": "NoTaskLogError", "message": "Log of task is not found."}
        return 200, job.detail_v2()

    def _token(self, form: dict) -> tuple[int, object]:
        if form.get("username") != USER:
            return 400, {"code": "NoUserError", "message": f"User {form.get('username')} is not found."}
        if form.get("password") is None:
            message = 'child "password" fails because ["password" must be a string]'
            return 400, {"code": "InvalidParametersError", "message": message}
        if form["password"] != PASSWORD:
            return 400, {"code": "IncorrectPasswordError", "message": "Password is incorrect."}
        return 200, {"user": USER, "token": self.pai.token(), "admin": True}

    def _submit(self, config: dict) -> tuple[int, object]:
        name = config["jobName"]
        if name in self.pai.jobs:
            return 409, {"code": "ConflictJobError", "message": f"Job name {name} already exists"}
        self.pai.jobs[name] = Job(name, USER, config, **self.pai.plan)
        return 202, {"message": f"update job {name} successfully"}

    def _answer(self, status: int, reply: object) -> None:
        text = reply if isinstance(reply, str) else json.dumps(reply)
        kind = "text/html" if isinstance(reply, str) else "application/json; charset=utf-8"
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args) -> None:
        pass
