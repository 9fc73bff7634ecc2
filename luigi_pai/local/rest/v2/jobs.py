"""The routes of OpenPAI 1.8 and LTP 1.5 for jobs."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from luigi_pai.local.json_http import ApiError, whole_number
from luigi_pai.local.rest.base import checked_body, not_allowed, route
from luigi_pai.local.rest.v2 import submission
from luigi_pai.local.store.jobs import NameTaken
from luigi_pai.local.views.job_lists import JobSearch
from luigi_pai.local.views.log_files import log_locations
from luigi_pai.local.views.v2 import event_row, job_detail, latest_attempt, numbered_attempt, task_attempts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.rest.v2.access import AccessV2
    from luigi_pai.local.store.records import Job, Task
    from luigi_pai.local.views.v2 import ShownAttempt

_NOT_A_PROTOCOL = "[object Object]"
"""The text that the real server passes to its YAML reader if the body is not text."""


def _found(handler: AccessV2, name: str) -> Job:
    user, _, job_name = name.partition("~")
    job = handler.api.store.job(job_name, user)
    if job is None:
        raise ApiError(404, "NoJobError", f"Job {name} is not found.")
    return job


def _attempt(handler: AccessV2, job: Job, number: str, missing: str) -> ShownAttempt:
    """Return attempt ``number``, from 0. If there is none, raise ApiError 404 with the text ``missing``."""
    wanted = whole_number(number)
    shown = None if wanted is None else numbered_attempt(job, wanted, handler.api.store)
    if shown is None:
        raise ApiError(404, "NoJobError", missing)
    return shown


def _looked_up(handler: AccessV2, name: str, number: str | None = None) -> tuple[Job, ShownAttempt]:
    """Return a job that the caller may see, and its latest attempt or, if given, attempt ``number``."""
    bearer, release = handler.authenticated(), handler.api.release
    try:
        job = _found(handler, name)
        shown = latest_attempt(job, handler.api.store)
        if number is not None:
            missing = f"JobAttemptId {number} is not found in {job.full_name}."
            shown = _attempt(handler, job, number, missing)
    except ApiError:
        if release.failed_lookup is None:
            raise
        raise ApiError(500, "UnknownError", release.failed_lookup.format(name)) from None
    if release.private_jobs:
        handler.check_owner(bearer, job.username, f"access job {name}.")
    return job, shown


async def _list(handler: AccessV2) -> None:
    username = handler.authenticated().username
    handler.count("list", username)
    store, release = handler.api.store, handler.api.release
    clusters = handler.api.users.virtual_clusters(username) if release.own_virtual_clusters else None
    search = JobSearch(handler.request.query, release, clusters)
    rows = handler.api.rows.as_json(search.ids(store))
    if search.counts:
        rows = f'{{"totalCount":{search.total(store)},"data":{rows}}}'
    handler.answer_json(rows)


async def _submit(handler: AccessV2) -> None:
    """Save a job, then answer that it is accepted.

    A thread parses the protocol, because a large one takes seconds, and other requests must not wait.
    """
    user = handler.authenticated().username
    handler.count("submission", user)
    body = handler.body if isinstance(handler.body, str) else _NOT_A_PROTOCOL
    release = handler.api.release
    document = await asyncio.to_thread(submission.read_protocol, body, release)
    name = document["name"]
    taken = ApiError(409, "ConflictJobError", f"Job {user}~{name} already exists.")
    if handler.api.store.job(name, user) is not None:
        raise taken
    cluster = submission.virtual_cluster(document)
    if cluster not in handler.api.users.virtual_clusters(user):
        raise not_allowed(user, f"do operation in {cluster}")
    known, defaults = handler.api.storages.names(), handler.default_storages()
    spec = await asyncio.to_thread(submission.spec_of, document, known, defaults, release)
    config = submission.shown_config(document)
    try:
        job = handler.api.store.add_job(name, user, cluster, config, spec, document.get("secrets"))
    except NameTaken:
        raise taken from None
    if release.job_types:
        handler.api.store.add_tag(job, document.get("jobType", "others"))
    handler.api.launcher.add(job)
    handler.answer(202, {"status": 202, "message": f"Update job {name} for user {user} successfully."})


async def _get(handler: AccessV2, name: str, number: str | None = None) -> None:
    store = handler.api.store
    job, shown = _looked_up(handler, name, number)
    tags = store.tags([job]).get(job.id, [])
    detail = job_detail(job, shown, tags, lambda task: store.tries(task) if task.number else [task])
    handler.answer(200, detail)


async def _execute(handler: AccessV2, name: str) -> None:
    bearer = handler.authenticated()
    wanted = checked_body(handler.body, {"value": ("STOP", "START")})["value"]
    job = _found(handler, name)
    handler.check_owner(bearer, job.username, f"execute job {name}.")
    if wanted == "STOP":
        handler.api.launcher.stop(job)
    handler.answer(202, {"status": 202, "message": f"Execute job {name} successfully."})


async def _config(handler: AccessV2, name: str) -> None:
    job, _ = _looked_up(handler, name)
    handler.answer_text("text/yaml", json.dumps(job.config, separators=(",", ":")))


async def _ssh(handler: AccessV2, name: str) -> None:
    handler.authenticated()
    raise ApiError(404, "NoJobSshInfoError", f"SSH info of job {name} is not found.")


# attempts, tasks, logs


def _task(
    handler: AccessV2, name: str, number: str, role: str, index: str
) -> tuple[Job, ShownAttempt, Sequence[Task]]:
    """Return the job, the job attempt and all tries (latest first) of the task that a path identifies."""
    job = _found(handler, name)
    missing = f"Job attempt not found in job {name} with jobAttemptIndex {number}"
    shown = _attempt(handler, job, number, missing)
    for task in shown.tasks:
        if (task.role, str(task.index)) == (role, index):
            return job, shown, handler.api.store.tries(task) or [task]
    where = f"in Job {name} with jobAttemptIndex {number}, taskRoleName {role} and taskIndex {index}"
    raise ApiError(404, "NoJobError", f"Task not found {where}.")


async def _task_attempts(handler: AccessV2, *path: str) -> None:
    handler.authenticated()
    handler.answer(200, task_attempts(*_task(handler, *path)))


async def _logs(handler: AccessV2, name: str, number: str, role: str, index: str, task_attempt: str) -> None:
    handler.authenticated()
    if handler.api.release.private_jobs:
        _looked_up(handler, name)
    try:
        job, _, tried = _task(handler, name, number, role, index)
    except ApiError:
        raise ApiError(500, "UnknownError", "Failed to get log list") from None
    chosen = [item for item in tried if str(item.number) == task_attempt and item.launched]
    if not chosen:
        raise ApiError(404, "NoTaskLogError", "Log of task is not found.")
    tail = handler.get_query_argument("tail-mode", "") == "true"
    handler.answer(200, {"locations": log_locations(handler.api, job, chosen[0], tail=tail)})


async def _job_attempts(handler: AccessV2, *_path: str) -> None:
    """Answer as a server whose job history service is off."""
    handler.authenticated()
    raise ApiError(500, None, "Unexpected Call")


# events and tags


async def _events(handler: AccessV2, name: str) -> None:
    job, _ = _looked_up(handler, name)
    kind = handler.get_query_argument("type", None)
    events = [row for row in handler.api.store.events(job) if kind in (None, row["type"])]
    handler.answer(200, {"totalCount": len(events), "data": [event_row(job, row) for row in events]})


def _tagged(handler: AccessV2, name: str, doing: str) -> tuple[Job, str]:
    """Return a job, and the tag in the body; raise ApiError 403 if the user may not change the job."""
    bearer = handler.authenticated()
    tag = checked_body(handler.body, {"value": ".+"})["value"]
    handler.check_owner(bearer, name.partition("~")[0], f"{doing} job {name}.")
    return _found(handler, name), tag


async def _add_tag(handler: AccessV2, name: str) -> None:
    job, tag = _tagged(handler, name, "add tag to")
    handler.api.store.add_tag(job, tag)
    handler.answer(200, {"status": 200, "message": f"Add tag {tag} for job {name} successfully."})


async def _delete_tag(handler: AccessV2, name: str) -> None:
    job, tag = _tagged(handler, name, "delete tag from")
    if not handler.api.store.remove_tag(job, tag):
        raise ApiError(404, "NoTagError", f"Tag {tag} is not found for job {name}.")
    handler.answer(200, {"status": 200, "message": f"Delete tag {tag} from job {name} successfully."})


_JOB = "/api/v2/jobs/:name"
_TASK = f"{_JOB}/attempts/:number/taskRoles/:role/taskIndex/:index/attempts"

ROUTES = (
    route("GET", "/api/v2/jobs", _list),
    route("POST", "/api/v2/jobs", _submit),
    route("GET", _JOB, _get),
    route("GET", f"{_JOB}/attempts/:number", _get),
    route("GET", _TASK, _task_attempts),
    route("GET", f"{_TASK}/:attempt/logs", _logs),
    route("PUT", f"{_JOB}/executionType", _execute),
    route("GET", f"{_JOB}/config", _config),
    route("GET", f"{_JOB}/ssh", _ssh),
    route("GET", f"{_JOB}/job-attempts", _job_attempts),
    route("GET", f"{_JOB}/job-attempts/:number", _job_attempts),
    route("PUT", f"{_JOB}/tag", _add_tag),
    route("DELETE", f"{_JOB}/tag", _delete_tag),
    route("GET", f"{_JOB}/events", _events),
)
