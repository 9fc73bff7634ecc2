"""The v1 REST API of OpenPAI 0.7.1: its routes, with their checks in its order."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from luigi_pai.local.accounts.users import hash_password
from luigi_pai.local.hdfs.cluster import HdfsRefused
from luigi_pai.local.node.http import ApiError
from luigi_pai.local.node.joi import Refused
from luigi_pai.local.rest.base import body_rules
from luigi_pai.local.rest.base.api import ApiHandler, route
from luigi_pai.local.store.jobs import NameTaken
from luigi_pai.local.store.records import WAITING, NewJob
from luigi_pai.local.views.v1 import job_detail, virtual_clusters

if TYPE_CHECKING:
    from luigi_pai.local.accounts.tokens import Bearer
    from luigi_pai.local.store.records import Job

__all__ = ["V1Handler"]

_JOB_NAME = re.compile(r"[A-Za-z0-9\-._~]+")


class V1Handler(ApiHandler):
    """Every address under /api that OpenPAI 0.7.1 knows."""

    # steps that several routes share

    def _bearer(self) -> Bearer:
        """Return the authenticated user; raises ApiError 401 without a valid token."""
        scheme, token = self.credentials()
        bearer = self.api.tokens.check(token) if scheme == "bearer" else None
        if bearer is not None and bearer.application:  # 0.7.1 has none: what they may do is decided now
            user = self.api.users.get(bearer.username)
            bearer = None if user is None else replace(bearer, admin=self.api.groups.is_admin(user))
        if bearer is None:
            raise ApiError(401, "UnauthorizedUserError", "Guest is not allowed to do this operation.")
        return bearer

    def _administrator(self) -> Bearer:
        bearer = self._bearer()
        if not bearer.admin:
            raise ApiError(403, "ForbiddenUserError", "Non-admin is not allowed to do this operation.")
        return bearer

    def _job(self, name: str) -> Job:
        job = self.api.store.job(name)
        if job is None:
            raise ApiError(404, "NoJobError", f"Job {name} is not found.")
        return job

    # routes

    async def _root(self) -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish("<pre>PAI RESTful API</pre>")

    async def _token(self) -> None:
        asked = self.checked(body_rules.TOKEN_REQUEST)
        name = asked["username"]
        if self.api.users.get(name) is None:
            raise ApiError(400, "NoUserError", f"User {name} is not found.")
        user = await self.api.users.with_password(name, asked["password"])
        if user is None:
            raise ApiError(400, "IncorrectPasswordError", "Password is incorrect.")
        admin = self.api.groups.is_admin(user)
        token = self.api.tokens.log_in(name, admin=admin, expiration=asked["expiration"])
        self.answer(200, {"user": name, "token": token, "admin": admin})

    async def _list(self) -> None:
        ids = self.api.store.job_ids(self.get_query_argument("username", None))
        self.answer_json(self.api.rows.as_json(ids))

    async def _get(self, name: str) -> None:
        job = self._job(name)
        waits_for = self.api.launcher.queue.why(job) if job.sub_state == WAITING else None
        self.answer(200, job_detail(job, self.api.store, self.api.address, waits_for))

    async def _post(self) -> None:
        bearer = self._bearer()
        config = self._submission()
        await self._submit(config["jobName"], config, bearer.username)

    async def _put(self, name: str) -> None:
        if self.api.store.job(name) is not None:
            raise ApiError(409, "ConflictJobError", f"Job name {name} already exists")
        bearer = self._bearer()
        await self._submit(name, self._submission(), bearer.username)

    def _submission(self) -> dict[str, Any]:
        config = self.checked(body_rules.JOB_CONFIG)
        try:
            body_rules.check_task_counts(config)
        except Refused as refused:
            raise ApiError(400, "InvalidParametersError", str(refused)) from None
        return config

    async def _submit(self, name: str, spec: dict[str, Any], username: str) -> None:
        if self.api.store.job(name) is not None:
            raise ApiError(409, "ConflictJobError", f"Job name {name} already exists")
        virtual_cluster = spec["virtualCluster"] or "default"
        self._check_virtual_cluster(username, virtual_cluster)
        if not _JOB_NAME.fullmatch(name) or body_rules.launcher_refuses(name, spec):
            raise ApiError(400, "UnknownError", "Bad Request")
        await self._prepare_hdfs(name, username)
        try:
            job = self.api.store.add_job(
                NewJob(name, username, virtual_cluster, self.body, {**spec, "gang": True})
            )
        except NameTaken:
            raise ApiError(409, "ConflictJobError", f"Job name {name} already exists") from None
        self.api.launcher.add(job)
        self.answer(202, {"message": f"update job {name} successfully"})

    def _check_virtual_cluster(self, username: str, virtual_cluster: str) -> None:
        """Refuse a submission to a virtual cluster that is not there (404) or not the user's (403)."""
        if virtual_cluster == "default":
            return
        if virtual_cluster not in self.api.virtual_clusters:
            raise ApiError(404, "NoVirtualClusterError", f"Virtual cluster {virtual_cluster} is not found.")
        user = self.api.users.get(username)
        if user is None or virtual_cluster not in self.api.groups.virtual_clusters(user):
            sentence = f"User {username} is not allowed to do operation in {virtual_cluster}"
            raise ApiError(403, "ForbiddenUserError", sentence)

    async def _prepare_hdfs(self, name: str, username: str) -> None:
        """Make the folders of a job; on the real server, too, a HDFS that refuses is an unknown error."""
        config, with_output = json.dumps(self.body, indent=2), not self.body.get("outputDir")
        try:
            await self.api.hdfs.prepare_job(name, username, config, with_output=with_output)
        except HdfsRefused as refused:
            raise ApiError(500, "UnknownError", str(refused)) from None

    async def _delete(self, name: str) -> None:
        job = self._job(name)
        self._check_owner(job, "remove")
        self.api.launcher.delete(job)
        self.answer(202, {"message": f"deleted job {name} successfully"})

    async def _change_execution(self, name: str) -> None:
        job = self.api.store.job(name)
        wanted = self.checked(body_rules.EXECUTION_TYPE)
        self._bearer()
        if job is None:
            raise ApiError(404, "UnknownError", '{"error":"not found"}')
        self._check_owner(job, "execute")
        if wanted["value"] == "STOP":
            self.api.launcher.stop(job)
        self.answer(202, {"message": f"execute job {name} successfully"})

    def _check_owner(self, job: Job, action: str) -> None:
        bearer = self._bearer()
        if bearer.username != job.username and not bearer.admin:
            raise ApiError(
                403,
                "ForbiddenUserError",
                f"User {bearer.username} is not allowed to {action} job {job.name}.",
            )

    async def _config(self, name: str) -> None:
        self.answer(200, self._job(name).config)

    async def _ssh(self, name: str) -> None:
        self._job(name)
        raise ApiError(404, "NoJobSshInfoError", f"SSH info of job {name} is not found.")

    def _shown_virtual_clusters(self) -> dict[str, dict[str, Any]]:
        jobs = [
            job for job in self.api.store.unfinished_jobs() if job.release.api == "v1" and not job.deleted
        ]
        return virtual_clusters(self.api.launcher.scheduler, jobs)

    async def _virtual_clusters(self) -> None:
        self.answer(200, self._shown_virtual_clusters())

    async def _virtual_cluster(self, name: str) -> None:
        if name not in self.api.virtual_clusters:
            raise ApiError(404, "NoVirtualClusterError", f"Virtual cluster {name} is not found.")
        self.answer(200, self._shown_virtual_clusters()[name])

    async def _users(self) -> None:
        self._administrator()
        self.answer(200, self.api.users.rows())

    async def _put_user(self) -> None:
        bearer = self._bearer()
        body = self.checked(body_rules.USER_PUT)
        own = body["username"] == bearer.username and not body.get("admin") and body["modify"]
        if not (bearer.admin or own):
            raise ApiError(403, "ForbiddenUserError", "Non-admin is not allowed to do this operation.")
        self.api.users.put(body, await asyncio.to_thread(hash_password, body["password"]))
        self.answer(201, {"message": "update successfully"})

    async def _delete_user(self) -> None:
        self._bearer()
        body = self.checked(body_rules.USER_DELETE)
        self._administrator()
        self.api.users.remove(body["username"])
        self.api.tokens.revoke_of_user(body["username"])
        self.answer(200, {"message": "remove successfully"})

    async def _put_user_virtual_clusters(self, name: str) -> None:
        self._bearer()
        body = self.checked(body_rules.USER_VIRTUAL_CLUSTERS)
        if not self._bearer().admin:
            raise ApiError(403, "ForbiddenUserError", "Non-admin is not allow to do this operation.")
        self.api.users.set_virtual_clusters(name, body.get("virtualClusters", ""))
        self.answer(201, {"message": "update user virtual clusters successfully"})

    routes = (
        route("*", "/api/v1", _root),
        route("POST", "/api/v1/token", _token),
        route("GET", "/api/v1/jobs", _list),
        route("POST", "/api/v1/jobs", _post),
        route("GET", "/api/v1/jobs/:name", _get),
        route("PUT", "/api/v1/jobs/:name", _put),
        route("DELETE", "/api/v1/jobs/:name", _delete),
        route("PUT", "/api/v1/jobs/:name/executionType", _change_execution),
        route("GET", "/api/v1/jobs/:name/config", _config),
        route("GET", "/api/v1/jobs/:name/ssh", _ssh),
        route("GET", "/api/v1/virtual-clusters", _virtual_clusters),
        route("GET", "/api/v1/virtual-clusters/:name", _virtual_cluster),
        route("GET", "/api/v1/user", _users),
        route("PUT", "/api/v1/user", _put_user),
        route("DELETE", "/api/v1/user", _delete_user),
        route("PUT", "/api/v1/user/:name/virtualClusters", _put_user_virtual_clusters),
    )
