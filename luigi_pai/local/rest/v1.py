"""The v1 REST API of OpenPAI 0.7.1: its routes, its checks of job configs, and the order of its checks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level
from luigi_pai.jobspec.schema_problems import schema
from luigi_pai.jobspec.validate import validate_job, with_numbers
from luigi_pai.local.json_http import ApiError
from luigi_pai.local.releases import OPENPAI_0_7_1
from luigi_pai.local.rest.base import ApiHandler, checked_body, is_too_large, not_allowed, route
from luigi_pai.local.store.jobs import NameTaken
from luigi_pai.local.store.records import WAITING
from luigi_pai.local.views.v1 import job_detail, virtual_clusters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.errors import Problem
    from luigi_pai.local.accounts.users import Bearer
    from luigi_pai.local.rest.base import Rule
    from luigi_pai.local.store.records import Job

_LAST_PORT = 65535
_LONGEST_NAME = 255
_LONGEST_ROLE = 247
_NAME = re.compile(r"[A-Za-z0-9\-._~]+")
_COUNT = re.compile(r"taskRoles\[(\d+)\]\.(taskNumber|cpuNumber|memoryMB|gpuNumber)")
_JOB = {
    "authFile": "",
    "dataDir": "",
    "outputDir": "",
    "codeDir": "",
    "gpuType": "",
    "virtualCluster": "default",
    "retryCount": 0,
}
_ROLE = {
    "taskNumber": 1,
    "cpuNumber": 1,
    "memoryMB": 100,
    "shmMB": 64,
    "gpuNumber": 0,
    "portList": [],
    "minFailedTaskCount": 1,
    "minSucceededTaskCount": None,
}
_PORT = {"beginAt": 0, "portNumber": 1}


def read_config(body: Any) -> dict[str, Any]:
    """Return the job config in a body with every default filled in.

    Raises:
        ApiError: 400 InvalidParametersError if the rest-server itself rejects the config, 400 UnknownError
            if only the launcher, to which the rest-server sends the config, rejects it.
    """
    if not isinstance(body, dict):
        raise ApiError(400, "InvalidParametersError", "the body is not a JSON object")
    found = [
        item for item in validate_job(body, release=OPENPAI_0_7_1.spec_release) if item.level is Level.REFUSED
    ]
    if found:
        code = (
            "UnknownError" if all(_is_launchers(item, body) for item in found) else "InvalidParametersError"
        )
        raise ApiError(400, code, "; ".join(map(str, found)))
    config: dict[str, Any] = with_numbers(body, schema("job.v1"))
    roles = [
        {**_ROLE, **role, "portList": [{**_PORT, **port} for port in role.get("portList", [])]}
        for role in config["taskRoles"]
    ]
    return {**_JOB, **config, "taskRoles": roles}


def _is_launchers(problem: Problem, body: Mapping[str, Any]) -> bool:
    """Return whether a problem is a name or number that the rest-server accepts but the launcher rejects."""
    found = _COUNT.fullmatch(problem.path)
    if found is None:
        return problem.path == "jobName" and _NAME.fullmatch(str(body.get("jobName"))) is not None
    return type(with_numbers(body, schema("job.v1"))["taskRoles"][int(found[1])][found[2]]) is int


def launcher_refuses(name: str, config: Mapping[str, Any]) -> bool:
    """Return whether the launcher rejects a job because of its name, its roles' names, its ports or its size.

    A beginAt such as 8080 is accepted here, because OpenPAI's documentation uses such values, although the
    real launcher whose responses were recorded rejected 8080.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME or name in (".", ".."):
        return True
    return is_too_large(config) or any(
        len(role["name"]) > _LONGEST_ROLE
        or any(port["portNumber"] < 1 or not 0 <= port["beginAt"] <= _LAST_PORT for port in role["portList"])
        for role in config["taskRoles"]
    )


_LOGIN = {"username": "[A-Za-z0-9_]+", "password": ".{6,}"}
_EXPIRATION = {"expiration": range(60, 7 * 24 * 3600 + 1)}
_DAY = 24 * 3600
_NEW_USER: dict[str, Rule] = {**_LOGIN, "modify": (False,)}


def _taken(name: str) -> ApiError:
    return ApiError(409, "ConflictJobError", f"Job name {name} already exists")


class V1Handler(ApiHandler):
    """The OpenPAI 0.7.1 routes under /api that this server implements."""

    def is_admin(self, bearer: Bearer) -> bool:
        """Return whether the user was an administrator when they logged in."""
        return bearer.admin

    def _job(self, name: str) -> Job:
        return self.find_job(name, name)

    async def _root(self) -> None:
        self.respond_string("text/html", "<pre>PAI RESTful API</pre>")

    async def _token(self) -> None:
        asked = checked_body(self.body, _LOGIN, _EXPIRATION)
        await self.log_in(asked["username"], asked["password"], int(asked.get("expiration", _DAY)))

    async def _list(self) -> None:
        ids = self.api.store.job_ids(self.get_query_argument("username", "") or None)
        self.respond_json(self.api.rows.as_json(ids))

    async def _get(self, name: str) -> None:
        job = self._job(name)
        waits_for = self.api.launcher.queue.why(job) if job.sub_state == WAITING else None
        self.respond(200, job_detail(job, self.api.store, self.api.address, waits_for))

    async def _submit(self, name: str | None = None) -> None:
        """Save a job, then respond that it was accepted. A PUT has the name in its path: check it first."""
        if name is not None and self.api.store.job(name) is not None:
            raise _taken(name)
        username = self.authenticated().username
        spec = read_config(self.body)
        name = spec["jobName"] if name is None else name
        if self.api.store.job(name) is not None:
            raise _taken(name)
        virtual_cluster = spec["virtualCluster"] or "default"
        self._check_virtual_cluster(username, virtual_cluster)
        if launcher_refuses(name, spec):
            raise ApiError(400, "UnknownError", "Bad Request")
        if not self.body.get("outputDir"):
            await self.api.files.make_output(name, username)
        try:
            job = self.api.store.add_job(name, username, virtual_cluster, self.body, {**spec, "gang": True})
        except NameTaken:
            raise _taken(name) from None
        self.api.launcher.add(job)
        self.respond(202, {"message": f"update job {name} successfully"})

    def _check_virtual_cluster(self, username: str, virtual_cluster: str) -> None:
        """Raise ApiError 404 if a virtual cluster does not exist, or 403 if the user may not submit to it."""
        if virtual_cluster == "default":
            return
        if virtual_cluster not in self.api.scheduler.clusters:
            raise ApiError(404, "NoVirtualClusterError", f"Virtual cluster {virtual_cluster} is not found.")
        if virtual_cluster not in self.api.users.virtual_clusters(username):
            raise not_allowed(username, f"do operation in {virtual_cluster}")

    async def _delete(self, name: str) -> None:
        job = self._job(name)
        self.check_owner(self.authenticated(), job.username, f"remove job {job.name}.")
        self.api.launcher.delete(job)
        self.respond(202, {"message": f"deleted job {name} successfully"})

    async def _change_execution(self, name: str) -> None:
        job = self.api.store.job(name)
        wanted = checked_body(self.body, {"value": ".+"})
        bearer = self.authenticated()
        if job is None:
            raise ApiError(404, "UnknownError", '{"error":"not found"}')
        self.check_owner(bearer, job.username, f"execute job {name}.")
        if wanted["value"] == "STOP":
            self.api.launcher.stop(job)
        self.respond(202, {"message": f"execute job {name} successfully"})

    async def _config(self, name: str) -> None:
        self.respond(200, self._job(name).config)

    async def _ssh(self, name: str) -> None:
        self._job(name)
        raise ApiError(404, "NoJobSshInfoError", f"SSH info of job {name} is not found.")

    def _shown_virtual_clusters(self) -> dict[str, dict[str, Any]]:
        jobs = [job for job in self.api.store.unfinished_jobs() if not job.deleted]
        return virtual_clusters(self.api.scheduler, jobs)

    async def _virtual_clusters(self) -> None:
        self.respond(200, self._shown_virtual_clusters())

    async def _virtual_cluster(self, name: str) -> None:
        if name not in self.api.scheduler.clusters:
            raise ApiError(404, "NoVirtualClusterError", f"Virtual cluster {name} is not found.")
        self.respond(200, self._shown_virtual_clusters()[name])

    async def _new_user(self) -> None:
        bearer = self.authenticated()
        asked = checked_body(self.body, _NEW_USER, {"admin": (False,)})
        if not bearer.admin:
            raise ApiError(403, "ForbiddenUserError", "Non-admin is not allowed to do this operation.")
        await self.add_user(asked["username"], asked["password"], "update successfully")

    routes = (
        route("*", "/api/v1", _root),
        route("POST", "/api/v1/token", _token),
        route("GET", "/api/v1/jobs", _list),
        route("POST", "/api/v1/jobs", _submit),
        route("GET", "/api/v1/jobs/:name", _get),
        route("PUT", "/api/v1/jobs/:name", _submit),
        route("DELETE", "/api/v1/jobs/:name", _delete),
        route("PUT", "/api/v1/jobs/:name/executionType", _change_execution),
        route("GET", "/api/v1/jobs/:name/config", _config),
        route("GET", "/api/v1/jobs/:name/ssh", _ssh),
        route("GET", "/api/v1/virtual-clusters", _virtual_clusters),
        route("GET", "/api/v1/virtual-clusters/:name", _virtual_cluster),
        route("PUT", "/api/v1/user", _new_user),
    )
