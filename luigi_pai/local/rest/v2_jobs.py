"""The OpenPAI 1.8 and LTP 1.5 routes for jobs, and the checks of a submitted protocol."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, SpecError
from luigi_pai.jobspec.dialects.yaml_text import read_yaml
from luigi_pai.jobspec.releases import release_number
from luigi_pai.jobspec.schema_problems import schema_findings
from luigi_pai.jobspec.templates.commands import entrypoints
from luigi_pai.jobspec.templates.prerequisites import PLUGIN
from luigi_pai.jobspec.templates.secrets import masked
from luigi_pai.jobspec.validate_protocol import validate_protocol
from luigi_pai.local.container.protocol_spec import job_spec
from luigi_pai.local.json_http import ApiError, whole_number
from luigi_pai.local.rest.base import (
    MAX_JOB_PORTS,
    MAX_TASKS,
    ApiHandler,
    checked_body,
    is_too_large,
    not_allowed,
    route,
)
from luigi_pai.local.store.jobs import NameTaken
from luigi_pai.local.views.job_lists import JobSearch
from luigi_pai.local.views.log_files import log_locations
from luigi_pai.local.views.v2 import event_row, job_detail, latest_attempt, numbered_attempt, task_attempts
from luigi_pai.redaction import MASK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.local.releases import Release
    from luigi_pai.local.store.records import Job, Task
    from luigi_pai.local.views.v2 import ShownAttempt

_JOB = "/api/v2/jobs/:name"
_TASK = f"{_JOB}/attempts/:number/taskRoles/:role/taskIndex/:index/attempts"

_NOT_A_PROTOCOL = "[object Object]"
"""The string that the real server passes to its YAML parser if the body is not a string."""


class JobHandler(ApiHandler):
    """The routes for jobs."""

    def _found(self, name: str) -> Job:
        user, _, job_name = name.partition("~")
        return self.find_job(name, job_name, user)

    def _attempt(self, job: Job, number: str, missing: str) -> ShownAttempt:
        """Return attempt ``number``, from 0. If it does not exist, raise ApiError 404 with ``missing``."""
        wanted = whole_number(number)
        shown = None if wanted is None else numbered_attempt(job, wanted, self.api.store)
        if shown is None:
            raise ApiError(404, "NoJobError", missing)
        return shown

    def _looked_up(self, name: str, number: str | None = None) -> tuple[Job, ShownAttempt]:
        """Return a job that the caller may see, and its attempt ``number`` (default: the latest)."""
        bearer, release = self.authenticated(), self.api.release
        try:
            job = self._found(name)
            shown = latest_attempt(job, self.api.store)
            if number is not None:
                missing = f"JobAttemptId {number} is not found in {job.full_name}."
                shown = self._attempt(job, number, missing)
        except ApiError:
            if release.failed_lookup is None:
                raise
            raise ApiError(500, "UnknownError", release.failed_lookup.format(name)) from None
        if release.private_jobs:
            self.check_owner(bearer, job.username, f"access job {name}.")
        return job, shown

    async def _list(self) -> None:
        username = self.authenticated().username
        self.count("list", username)
        store, release = self.api.store, self.api.release
        clusters = self.api.users.virtual_clusters(username) if release.own_virtual_clusters else None
        search = JobSearch(self.request.query, release, clusters)
        rows = self.api.rows.as_json(search.ids(store))
        if search.counts:
            rows = f'{{"totalCount":{search.total(store)},"data":{rows}}}'
        self.respond_json(rows)

    async def _submit(self) -> None:
        """Save a job, then respond that it was accepted.

        A thread parses the protocol, because a large one takes seconds and must not block other requests.
        """
        user = self.authenticated().username
        self.count("submission", user)
        body = self.body if isinstance(self.body, str) else _NOT_A_PROTOCOL
        release = self.api.release
        document = await asyncio.to_thread(read_protocol, body, release)
        name = document["name"]
        taken = ApiError(409, "ConflictJobError", f"Job {user}~{name} already exists.")
        if self.api.store.job(name, user) is not None:
            raise taken
        cluster = _virtual_cluster(document)
        if cluster not in self.api.users.virtual_clusters(user):
            raise not_allowed(user, f"do operation in {cluster}")
        known, defaults = self.api.storages.names(), self.api.storages.defaults()
        spec = await asyncio.to_thread(_spec, document, known, defaults, release)
        config = _shown_config(document)
        try:
            job = self.api.store.add_job(name, user, cluster, config, spec, document.get("secrets"))
        except NameTaken:
            raise taken from None
        if release.job_types:
            self.api.store.add_tag(job, document.get("jobType", "others"))
        self.api.launcher.add(job)
        self.respond(202, {"status": 202, "message": f"Update job {name} for user {user} successfully."})

    async def _get(self, name: str, number: str | None = None) -> None:
        store = self.api.store
        job, shown = self._looked_up(name, number)
        tags = store.tags([job]).get(job.id, [])
        detail = job_detail(job, shown, tags, lambda task: store.tries(task) if task.number else [task])
        self.respond(200, detail)

    async def _change_execution(self, name: str) -> None:
        bearer = self.authenticated()
        wanted = checked_body(self.body, {"value": ("STOP", "START")})["value"]
        job = self._found(name)
        self.check_owner(bearer, job.username, f"execute job {name}.")
        if wanted == "STOP":
            self.api.launcher.stop(job)
        self.respond(202, {"status": 202, "message": f"Execute job {name} successfully."})

    async def _config(self, name: str) -> None:
        job, _ = self._looked_up(name)
        self.respond_string("text/yaml", json.dumps(job.config, separators=(",", ":")))

    async def _ssh(self, name: str) -> None:
        self.authenticated()
        raise ApiError(404, "NoJobSshInfoError", f"SSH info of job {name} is not found.")

    def _task(
        self, name: str, number: str, role: str, index: str
    ) -> tuple[Job, ShownAttempt, Sequence[Task]]:
        """Return the job, the job attempt, and all tries (latest first) of the task identified by a path."""
        job = self._found(name)
        missing = f"Job attempt not found in job {name} with jobAttemptIndex {number}"
        shown = self._attempt(job, number, missing)
        for task in shown.tasks:
            if (task.role, str(task.index)) == (role, index):
                return job, shown, self.api.store.tries(task) or [task]
        where = f"in Job {name} with jobAttemptIndex {number}, taskRoleName {role} and taskIndex {index}"
        raise ApiError(404, "NoJobError", f"Task not found {where}.")

    async def _task_attempts(self, *path: str) -> None:
        self.authenticated()
        self.respond(200, task_attempts(*self._task(*path)))

    async def _logs(self, name: str, *path: str) -> None:
        self.authenticated()
        *place, task_attempt = path
        if self.api.release.private_jobs:
            self._looked_up(name)
        try:
            job, _, tried = self._task(name, *place)
        except ApiError:
            raise ApiError(500, "UnknownError", "Failed to get log list") from None
        chosen = [item for item in tried if str(item.number) == task_attempt and item.launched]
        if not chosen:
            raise ApiError(404, "NoTaskLogError", "Log of task is not found.")
        tail = self.get_query_argument("tail-mode", "") == "true"
        self.respond(200, {"locations": log_locations(self.api, job, chosen[0], tail=tail)})

    async def _job_attempts(self, *_path: str) -> None:
        """Respond like a server whose job history service is off."""
        self.authenticated()
        raise ApiError(500, None, "Unexpected Call")

    async def _events(self, name: str) -> None:
        job, _ = self._looked_up(name)
        kind = self.get_query_argument("type", None)
        events = [row for row in self.api.store.events(job) if kind in (None, row["type"])]
        self.respond(200, {"totalCount": len(events), "data": [event_row(job, row) for row in events]})

    def _tagged(self, name: str, doing: str) -> tuple[Job, str]:
        """Return a job and the tag in the body. Raise ApiError 403 if the user may not change the job."""
        bearer = self.authenticated()
        tag = checked_body(self.body, {"value": ".+"})["value"]
        self.check_owner(bearer, name.partition("~")[0], f"{doing} job {name}.")
        return self._found(name), tag

    async def _add_tag(self, name: str) -> None:
        job, tag = self._tagged(name, "add tag to")
        self.api.store.add_tag(job, tag)
        self.respond(200, {"status": 200, "message": f"Add tag {tag} for job {name} successfully."})

    async def _delete_tag(self, name: str) -> None:
        job, tag = self._tagged(name, "delete tag from")
        if not self.api.store.remove_tag(job, tag):
            raise ApiError(404, "NoTagError", f"Tag {tag} is not found for job {name}.")
        self.respond(200, {"status": 200, "message": f"Delete tag {tag} from job {name} successfully."})

    job_routes = (
        route("GET", "/api/v2/jobs", _list),
        route("POST", "/api/v2/jobs", _submit),
        route("GET", _JOB, _get),
        route("GET", f"{_JOB}/attempts/:number", _get),
        route("GET", _TASK, _task_attempts),
        route("GET", f"{_TASK}/:attempt/logs", _logs),
        route("PUT", f"{_JOB}/executionType", _change_execution),
        route("GET", f"{_JOB}/config", _config),
        route("GET", f"{_JOB}/ssh", _ssh),
        route("GET", f"{_JOB}/job-attempts", _job_attempts),
        route("GET", f"{_JOB}/job-attempts/:number", _job_attempts),
        route("PUT", f"{_JOB}/tag", _add_tag),
        route("DELETE", f"{_JOB}/tag", _delete_tag),
        route("GET", f"{_JOB}/events", _events),
    )


# the checks of a submission


def _with_storages(
    extras: Mapping[str, Any], known: Sequence[str], defaults: Sequence[str]
) -> dict[str, Any]:
    """Return a protocol's extras, with ``storages`` reduced to each storage's name and mount path.

    Items without a name are left out. The server takes ``share`` and ``readOnly`` from its own
    configuration, not from the job. ``known`` lists the names of all storages, ``defaults`` the names of
    those that a job gets if its list is empty.

    Raises:
        ApiError: 404 for a storage that does not exist.
    """
    wanted = extras.get("storages")
    if wanted == []:
        wanted = [{"name": name} for name in defaults]
    named = [item for item in wanted or () if item.get("name")]
    for item in named:
        if item["name"] not in known:
            raise ApiError(404, "NoStorageError", f"Storage {item['name']} is not found.")
    return {
        **extras,
        "storages": [{key: item[key] for key in ("name", "mountPath") if key in item} for item in named],
    }


def read_protocol(body: str, release: Release) -> dict[str, Any]:
    """Return the job protocol in a body.

    Raises:
        ApiError: 500 if the YAML is invalid, a command cannot be rendered, or a task role has no
            ``instances``; 400 if the protocol is invalid in another way.
    """
    try:
        document = read_yaml(body).value
        problems = validate_protocol(document, release=release.spec_release)
        refused = [problem for problem in problems if problem.level is Level.REFUSED]
        if refused and _fits_schema(document, release_number(release.spec_release)):
            entrypoints(document)
    except SpecError as error:
        raise _failure(error) from None
    if refused:
        raise ApiError(400, "InvalidProtocolError", "; ".join(map(str, refused)))
    if any("instances" not in role for role in document["taskRoles"].values()):
        raise ApiError(500, "UnknownError", "a task role has no instances")
    return dict(document)


def _fits_schema(document: Any, number: tuple[int, ...]) -> bool:
    findings = schema_findings(document, "protocol.v2", lambda value, _: type(value).__name__, number)
    return not any(finding.level is Level.REFUSED for finding in findings)


def _failure(error: SpecError) -> ApiError:
    return ApiError(500, None, "; ".join(map(str, error.problems)))


def _virtual_cluster(document: Mapping[str, Any]) -> Any:
    """Return a protocol's virtual cluster, by default ``default``. The schema allows values of any type."""
    chosen = (document.get("defaults") or {}).get("virtualCluster")
    return "default" if chosen is None else chosen


def _spec(
    document: Mapping[str, Any], storages: Sequence[str], defaults: Sequence[str], release: Release
) -> dict[str, Any]:
    """Return the launcher's spec of a protocol; ``storages`` and ``defaults`` are as in `_with_storages`.

    Raises:
        ApiError: 404 if a storage does not exist; 500 if a command cannot be rendered, or the extras have a
            structure on which the real server fails; 400 if there are more tasks or ports than allowed here.
    """
    try:
        extras = _with_storages(document.get("extras") or {}, storages, defaults)
        plugins = [item for item in extras.get(PLUGIN) or () if item["plugin"] not in release.started_by_site]
        spec = job_spec({**document, "extras": {**extras, PLUGIN: plugins}})
    except SpecError as error:
        raise _failure(error) from None
    except (AttributeError, LookupError, TypeError):
        raise ApiError(500, None, "extras: a field is missing or has an invalid type") from None
    if is_too_large(spec):
        message = f"luigi-pai local runs at most {MAX_TASKS} tasks with {MAX_JOB_PORTS} ports in a job"
        raise ApiError(400, "InvalidProtocolError", message)
    return spec


def _shown_config(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a protocol as GET config returns it, with secrets and registry credentials masked."""
    shown = masked(document)
    return {**shown, "secrets": MASK} if "secrets" in shown else shown
