"""A rest-server, of the release it is told to be, that does to a client what real life does.

It knows no commands: a job runs for as long as it is told and ends as it is
told. It counts what it is asked, limits requests where it is told to, and on
request answers late, never, with an error, or breaks the connection, before or
after it has done what it was asked (``fault_server.Fault``).
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import ltp_answers
import yaml
from fault_server import FaultServer, Reply, Request
from pai_job import Job
from request_limits import RequestLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

USER = "admin"
PASSWORD = "admin-password"  # the value that tests look for in logs and errors


@dataclass(frozen=True)
class Release:
    """How a release of OpenPAI answers, as far as it differs from others.

    Attributes:
        v1_jobs: the router of ``/api/v1/jobs``: v1's own, v2's, or none.
        v2_jobs: whether there is a ``/api/v2/jobs``.
        introduces_itself: ``GET /api/v1/`` is JSON, no HTML page.
        guarded_reads: reading needs a token too.
        list_filters: keys of a list's query that it heeds.
        basic_logins: where there is a login besides ``/api/v1/token``.
        version: what it says that it is; its key in ``RELEASES`` where not given.
        tags: jobs have tags.
        start: what is ``appLaunchedTime`` in a job's detail: the job's creation, or the attempt's start.
        is_ltp: it answers as OpenPAI's successor does, LTP 1.5.
    """

    v1_jobs: str | None
    v2_jobs: bool = True
    introduces_itself: bool = True
    guarded_reads: bool = True
    list_filters: tuple[str, ...] = ("username",)
    basic_logins: tuple[str, ...] = ()
    version: str | None = None
    tags: bool = False
    start: str = ""
    is_ltp: bool = False


_LOGINS = ("/api/v1/authn/basic/login", "/api/v2/authn/basic/login")
RELEASES = {
    "0.7.1": Release("v1", v2_jobs=False, introduces_itself=False, guarded_reads=False),
    "0.15.0": Release("v2", guarded_reads=False, list_filters=(), start="created"),
    "0.17.0": Release("v2", guarded_reads=False, list_filters=("username", "keyword"), start="created"),
    "1.0.1": Release("v2", start="attempt"),
    "1.8.0": Release(None, list_filters=("username", "keyword"), basic_logins=_LOGINS, tags=True),
    "ltp-1.5": Release(
        None,
        list_filters=("username", "keyword"),
        basic_logins=_LOGINS,
        version="1.8.1",
        tags=True,
        is_ltp=True,
    ),
}


def nfs(folder: Path | str) -> dict[str, Any]:
    """Return a storage, as the server shows it, that is a folder of this machine."""
    where = {"server": "127.0.0.1", "path": str(folder)}
    return {"type": "nfs", "share": True, "readOnly": False, "data": where}


class FaultyPai(FaultServer):
    """The server, in threads of this process, on a port of its own on 127.0.0.1.

    Args:
        clock: by which jobs run, logins last and requests are limited.

    Attributes:
        release: the release that it is; a key of ``RELEASES``.
        jobs: by their name, in the order of their submission.
        tokens: those that it takes.
        issued: all tokens that it ever gave out; no text may show one.
        plan: fields of ``Job`` for jobs that are posted; or a function that returns them for a name.
        prefix: the path that it is mounted at.
        admin: whether its user is an administrator.
        database_down: the jobs are there, and their database does not answer (``ltp-1.5``).
        virtual_clusters: by name; there is no such API unless a test sets them.
        storages: by name, as ``GET /api/v2/storages/NAME`` of 1.0 and later shows them; none unless a test
            sets them.
        events: of each job (1.3 and later).
        left_clusters: virtual clusters whose jobs its lists leave out (``ltp-1.5``).
    """

    def __init__(self, clock: Any = time) -> None:
        self.release = "0.7.1"
        self.jobs: dict[str, Job] = {}
        self.tokens: set[str] = set()
        self.issued: set[str] = set()
        self.plan: dict | Callable[[str], dict] = {}
        self._submitting = threading.Lock()
        self.prefix = ""
        self.admin = True
        self.database_down = False
        self.virtual_clusters: dict[str, Any] = {}
        self.storages: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.left_clusters: set[str] = set()
        self._password_lost = False
        self._serial = 0
        self._limits: RequestLimits | None = None
        super().__init__(clock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    @property
    def limits(self) -> RequestLimits | None:
        """Limits of requests; none unless a test sets them, as ``RequestLimits`` takes them."""
        return self._limits

    @limits.setter
    def limits(self, limits: Mapping[str, int | tuple[int, float]]) -> None:
        self._limits = RequestLimits(limits, self.clock, windows_per_key=self._is_ltp)

    @property
    def _is_ltp(self) -> bool:
        return RELEASES[self.release].is_ltp

    # what was asked

    @property
    def logins(self) -> int:
        return self.count("POST", r"/token$|/authn/basic/login$")

    @property
    def lists(self) -> int:
        return self.count("GET", r"/api/v\d/jobs/?(\?|$)")

    @property
    def dialect_questions(self) -> int:
        return self.count("GET", r"/api/v1/?$")

    @property
    def submissions(self) -> int:
        """How many there were, refused ones included."""
        return self.count("POST", r"/api/v\d/jobs/?$")

    @property
    def refused_submissions(self) -> int:
        posts = (status for method, path, status in self.answers if method == "POST" and "/jobs" in path)
        return sum(1 for status in posts if status >= 400)

    def posts(self) -> list[str]:
        """Return the names of the jobs that are on the server, in the order of their arrival."""
        return list(self.jobs)

    def add(self, name: str, **about) -> Job:
        """Put a job on the server as if it had been submitted before."""
        config = {"jobName": name, "image": "x", "taskRoles": [{"name": "main", "command": "x"}]}
        job = Job(name, about.pop("username", USER), config, clock=self.clock, **about)
        self.jobs[name] = job
        return job

    def lose_write_merger(self, seconds: float) -> None:
        """Fail what changes jobs, for a time from now on, as 1.8 does without its database controller."""
        began = self.clock.monotonic()
        for code, reason, end in (
            ("ECONNREFUSED", "connect ECONNREFUSED 10.0.0.7:9748", seconds / 3),
            ("ECONNRESET", "read ECONNRESET", seconds),
        ):
            self.fail(
                "(POST|PUT)",
                r"/api/v2/jobs",
                500,
                times=float("inf"),
                body={"code": code, "message": reason},
                when=lambda _, end=end: self.clock.monotonic() < began + end,
            )

    def token(self) -> str:
        self._serial += 1
        now = int(self.clock.time())
        claims = {"username": USER, "iat": now, "exp": now + 3600, "n": self._serial}
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        token = f"e30.{payload}.sig"
        self.tokens.add(token)
        self.issued.add(token)
        return token

    # what is answered

    def answer(self, request: Request) -> Reply:
        headers, refused = self._limits.count("call") if self._limits else ({}, False)
        if refused:
            return Reply(429, "Too many requests", headers)
        reply = self._route(request)
        reply.headers = {**headers, **reply.headers}
        return reply

    def _route(self, request: Request) -> Reply:
        release = RELEASES[self.release]
        parts = urlsplit(request.path)
        path = parts.path.removeprefix(self.prefix)
        if not parts.path.startswith(self.prefix):
            return _no_api(parts.path)
        if request.method == "POST" and path in ("/api/v1/token", *release.basic_logins):
            return self._login(request)
        if request.method == "GET" and path in ("/api/v1", "/api/v1/", "/api/v2/info"):
            return self._introduce(release, path)
        if release.is_ltp and path.startswith(("/api/v2/users/", "/api/v2/tokens")):
            return self._people(request, path)
        if self.virtual_clusters and path in ("/api/v1/virtual-clusters", "/api/v2/virtual-clusters"):
            return self._show_virtual_clusters(release, path)
        if path.startswith("/api/v2/storages") and self.release >= "1":
            return self._show_storages(request, path) if self._is_known(request) else _unauthorized()
        found = re.fullmatch(r"/api/(v1|v2)/jobs/?(.*)", path)
        router = {"v1": release.v1_jobs, "v2": "v2" if release.v2_jobs else None}[found[1]] if found else None
        if found is None or router is None:
            return _no_api(parts.path)
        if not self._is_known(request) and (request.method != "GET" or release.guarded_reads):
            return _unauthorized()
        route = [unquote(piece) for piece in found[2].split("/")] if found[2] else []
        limited = {("POST", 0): "submit", ("GET", 0): "list"}.get((request.method, len(route)))
        headers, refused = self._limits.count(limited) if self._limits and limited else ({}, False)
        if refused:
            return Reply(429, "Too many requests", headers)
        reply = (self._v1 if router == "v1" else self._v2)(request, route, parse_qs(parts.query))
        reply.headers = {**reply.headers, **headers}
        return reply

    def _is_known(self, request: Request) -> bool:
        return request.headers.get("Authorization", "").removeprefix("Bearer ") in self.tokens

    def _people(self, request: Request, path: str) -> Reply:
        if not self._is_known(request):
            return _unauthorized()
        if (request.method, path) == ("GET", f"/api/v2/users/{USER}"):
            self._password_lost = True  # from the record that it keeps in its memory
            return Reply(200, ltp_answers.user_record(USER))
        if (request.method, path) == ("DELETE", "/api/v2/tokens"):
            if not self.admin:
                return ltp_answers.no_admin()
            self.tokens.clear()
            return Reply(200, {"message": "All tokens are revoked."})
        return _no_api(path)

    def _introduce(self, release: Release, path: str) -> Reply:
        if path == "/api/v2/info" and self.release < "1":
            return _no_api(path)
        if not release.introduces_itself:
            return Reply(200, "<html><body>PAI RESTful API</body></html>")
        version = f"v{release.version or self.release}"
        about = {"name": "PAI RESTful API", "version": version, "launcherType": "k8s"}
        return Reply(200, {**about, "authnMethod": "basic"})

    def _login(self, request: Request) -> Reply:
        if request.content_type.startswith("application/x-www-form-urlencoded"):
            form = {key: values[0] for key, values in parse_qs(request.body.decode()).items()}
        else:
            form = json.loads(request.body)
        if form.get("username") != USER:
            message = f"User {form.get('username')} is not found."
            return Reply(400, {"code": "NoUserError", "message": message})
        if self._is_ltp and not isinstance(form.get("password"), str):
            return ltp_answers.no_password_given(form)
        if form.get("password") is None:
            message = 'child "password" fails because ["password" must be a string]'
            return Reply(400, {"code": "InvalidParametersError", "message": message})
        if form["password"] != PASSWORD or self._password_lost:
            return Reply(400, {"code": "IncorrectPasswordError", "message": "Password is incorrect."})
        return Reply(200, {"user": USER, "token": self.token(), "admin": self.admin})

    def _show_virtual_clusters(self, release: Release, path: str) -> Reply:
        router = release.v1_jobs if "/v1/" in path else "v2" if release.v2_jobs else None
        if router is None:
            return _no_api(path)
        if "/v1/" in path and router == "v2":  # 0.15 to 1.0 look for them in YARN, which they have not
            return Reply(500, {"message": "Cannot read property 'default' of undefined"})
        return Reply(200, self.virtual_clusters)

    def _show_storages(self, request: Request, path: str) -> Reply:
        name = unquote(path.removeprefix("/api/v2/storages").strip("/"))
        if request.method != "GET":
            return _no_api(path)
        if not name:
            known = [{"name": each, "share": True} for each in self.storages]
            return Reply(200, {"storages": known})
        if name not in self.storages:
            return Reply(404, {"code": "NoStorageError", "message": f"Storage {name} is not found."})
        return Reply(200, {"name": name, **self.storages[name]})

    def _v1(self, request: Request, route: list[str], query: dict) -> Reply:
        if not route:
            if request.method == "POST":
                config = json.loads(request.body)
                message = f"update job {config['jobName']} successfully"
                return self._submit(config["jobName"], config, {"message": message})
            user = query.get("username", [None])[0]
            return Reply(200, [job.row() for job in self._newest_first() if user in (None, job.username)])
        job = self.jobs.get(route[0])
        if job is None:
            return Reply(404, {"code": "NoJobError", "message": f"Job {route[0]} is not found."})
        if request.method == "PUT":
            job.stop(exit_code=214)
            return Reply(202, {"message": f"execute job {job.name} successfully"})
        return Reply(200, job.config if route[1:] == ["config"] else job.detail())

    def _v2(self, request: Request, route: list[str], query: dict) -> Reply:
        if not route:
            return self._post_v2(request) if request.method == "POST" else self._list_v2(query)
        user, _, name = route[0].partition("~")
        job = self.jobs.get(name)
        if job is not None and job.username != user:
            job = None
        if self._is_ltp:
            trouble = self._ltp_trouble(request, route, job)
            if trouble is not None:
                return trouble
        if job is None:
            return Reply(404, {"code": "NoJobError", "message": f"Job {route[0]} is not found."})
        if route[1:] == ["tag"]:
            return self._tag(request, job)
        if request.method == "PUT":
            job.stop(exit_code=-210)
            return Reply(202, {"status": 202, "message": f"Execute job {job.name} successfully."})
        if route[1:] == ["config"]:
            body = json.dumps(job.config, default=str).encode()
            return Reply(200, body, {"Content-Type": "text/yaml; charset=utf-8"})
        if route[1:]:
            return self._show_more(route[1], request.path)
        tags = {"tags": [*(["others"] if self._is_ltp else []), *job.tags]}
        release = RELEASES[self.release]
        return Reply(200, job.detail_v2(release.start) | (tags if release.tags else {}))

    def _show_more(self, what: str, path: str) -> Reply:
        if not RELEASES[self.release].tags:  # those without tags have no events, and give no logs out
            return _no_api(path)
        if what != "events":
            return Reply(404, {"code": "NoTaskLogError", "message": "Log of task is not found."})
        return Reply(200, {"totalCount": len(self.events), "data": self.events})

    def _tag(self, request: Request, job: Job) -> Reply:
        if not RELEASES[self.release].tags:
            return _no_api(request.path)
        tag = json.loads(request.body)["value"]
        job.tags.append(tag)
        return Reply(200, {"status": 200, "message": f"Add tag {tag} for job {job.name} successfully."})

    def _ltp_trouble(self, request: Request, route: list[str], job: Job | None) -> Reply | None:
        """Return what LTP says of a job that 1.8 would not, or would say otherwise; None for the rest."""
        is_task = len(route) == 8 and route[7] == "attempts"
        if request.method != "GET" or is_task:
            if self.database_down:
                return ltp_answers.database_trouble()
            return ltp_answers.task_not_found(route[0], route[1:]) if is_task and job else None
        if self.database_down or job is None:
            return ltp_answers.not_retrieved(route[0])
        if job.username != USER and not self.admin:
            return ltp_answers.not_allowed(USER, route[0])
        if route[1:2] == ["attempts"] and len(route) == 3:
            return Reply(200, job.detail_v2()) if route[2] == "0" else ltp_answers.not_retrieved(route[0])
        return ltp_answers.no_logs() if route[-1] == "logs" else None

    def _post_v2(self, request: Request) -> Reply:
        if self._is_ltp and not request.content_type.startswith("text/"):
            return ltp_answers.not_an_object()
        if not request.content_type.startswith("text/"):
            errors = [{"keyword": "type", "dataPath": "", "message": "should be object"}]
            return Reply(400, {"code": "InvalidProtocolError", "message": json.dumps(errors)})
        protocol = yaml.safe_load(request.body)
        refusal = ltp_answers.schema_refusal(protocol) if self._is_ltp else None
        if refusal is None and self.database_down:
            refusal = ltp_answers.database_trouble()
        if refusal is not None:
            return refusal
        name = protocol["name"]
        message = f"Update job {name} for user {USER} successfully."
        return self._submit(name, protocol, {"status": 202, "message": message})

    def _list_v2(self, query: dict) -> Reply:
        if self.database_down:
            return ltp_answers.database_trouble()
        if "username[]" in query and not self._is_ltp:  # where query strings are flat, it is another key
            return Reply(500, {"message": "req.query.username.split is not a function"})
        heeded = {key: query[key] for key in RELEASES[self.release].list_filters if key in query}
        users, keyword = heeded.get("username"), heeded.get("keyword", [""])[0]
        rows = [
            job.row()
            for job in self._newest_first()
            if job.row()["virtualCluster"] not in self.left_clusters
            and (users is None or job.username in users)
            and keyword in job.name
        ]
        return Reply(200, rows)

    def _submit(self, name: str, config: dict, done: object) -> Reply:
        with self._submitting:
            if name in self.jobs:
                return Reply(409, {"code": "ConflictJobError", "message": f"Job name {name} already exists"})
            plan = self.plan(name) if callable(self.plan) else self.plan
            self.jobs[name] = Job(name, USER, config, clock=self.clock, **plan)
        return Reply(202, done)

    def _newest_first(self) -> list[Job]:
        return list(reversed(self.jobs.values()))


def _unauthorized() -> Reply:
    message = "Guest is not allowed to do this operation."
    return Reply(401, {"code": "UnauthorizedUserError", "message": message})


def _no_api(path: str) -> Reply:
    return Reply(404, {"code": "NoApiError", "message": f"API {path} is not found."})
