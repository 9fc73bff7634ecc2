"""The routes of OpenPAI 1.8 for jobs."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.local import submission_v2
from luigi_pai.local.job_search import JobSearch
from luigi_pai.local.job_view_v2 import (
    attempt_number,
    attempt_summary,
    framework_name,
    job_detail_v2,
    task_attempts,
)
from luigi_pai.local.joi import Object, String
from luigi_pai.local.log_files import log_locations
from luigi_pai.local.records import NewJob
from luigi_pai.local.rest import route
from luigi_pai.local.store import NameTaken
from luigi_pai.local.wire import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.local.access_v2 import AccessV2
    from luigi_pai.local.records import Attempt, Job, Task

__all__ = ["ROUTES"]

_EXECUTION_TYPE = Object({"value": String(one_of=("STOP", "START"), required=True)}, root=True)
_TAG = Object({"value": String(required=True)}, root=True)
_SMALL = 4096
"""Characters of a document that takes a few milliseconds to read."""
_ALIAS = "*"
"""Begins an alias in YAML: a small text can mean a large document."""
_NOT_A_PROTOCOL = "[object Object]"
"""What a body that is no text is to the server's YAML reader."""


def _found(handler: AccessV2, name: str) -> Job:
    user, _, job_name = name.partition("~")
    job = handler.api.store.job_of(user, job_name)
    if job is None:
        raise ApiError(404, "NoJobError", f"Job {name} is not found.")
    return job


def _attempt(handler: AccessV2, job: Job, number: str) -> Attempt | None:
    """Return an attempt by its number, from 0; the newest for what is no number, as the server has it."""
    attempts = handler.api.store.attempts(job)
    last = attempts[-1] if attempts else None
    newest = str(attempt_number(last))
    wanted = (number.lstrip("0") or "0") if re.fullmatch("[0-9]+", number) else newest
    if wanted == newest:
        return last
    for attempt in attempts:
        if str(attempt_number(attempt)) == wanted:
            return attempt
    raise ApiError(404, "NoJobError", f"JobAttemptId {number} is not found in {job.full_name}.")


async def _list(handler: AccessV2) -> None:
    handler.count_list(handler.who())
    store = handler.api.store
    search = JobSearch(handler.request.query)
    rows = handler.api.rows.as_json(search.ids(store))
    if search.counts:
        rows = f'{{"totalCount":{search.total(store)},"data":{rows}}}'
    handler.answer_json(rows)


async def _at_once(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    return work(*arguments)


async def _submit(handler: AccessV2) -> None:
    """Write a job down, then say that it is taken.

    Reading a large document takes seconds, in which others are to be answered; a small one is
    read sooner than a thread has its turn.
    """
    bearer = handler.who()
    handler.count_submission(bearer)
    body = handler.body if isinstance(handler.body, str) else _NOT_A_PROTOCOL
    small = len(body) <= _SMALL and _ALIAS not in body
    run = _at_once if small else asyncio.to_thread
    document = await run(submission_v2.read_protocol, body)
    name, user = document["name"], bearer.username
    taken = ApiError(409, "ConflictJobError", f"Job {user}~{name} already exists.")
    if handler.api.store.job_of(user, name) is not None:
        raise taken
    cluster = submission_v2.virtual_cluster(document)
    submitter = handler.api.users.get(user)
    if submitter is None or cluster not in handler.api.groups.virtual_clusters(submitter):
        raise ApiError(403, "ForbiddenUserError", f"User {user} is not allowed to do operation in {cluster}")
    spec = await run(submission_v2.spec_of, document, handler.api.storages)
    config = submission_v2.shown_config(document)
    new = NewJob(name, user, cluster, config, spec, generation=2, secrets=document.get("secrets"))
    try:
        job = handler.api.store.add_job(new)
    except NameTaken:
        raise taken from None
    handler.api.launcher.add(job)
    handler.answer(202, {"status": 202, "message": f"Update job {name} for user {user} successfully."})


async def _get(handler: AccessV2, name: str) -> None:
    handler.who()
    job = _found(handler, name)
    _show(handler, job, handler.api.store.last_attempt(job))


async def _get_attempt(handler: AccessV2, name: str, number: str) -> None:
    handler.who()
    job = _found(handler, name)
    _show(handler, job, _attempt(handler, job, number))


def _show(handler: AccessV2, job: Job, attempt: Attempt | None) -> None:
    store = handler.api.store
    handler.answer(200, job_detail_v2(job, attempt, store, handler.api.notes.tags([job]).get(job.id, [])))


async def _execute(handler: AccessV2, name: str) -> None:
    bearer = handler.who()
    wanted = handler.checked(_EXECUTION_TYPE)["value"]
    job = _found(handler, name)
    if bearer.username != job.username and not handler.is_admin(bearer):
        raise ApiError(
            403, "ForbiddenUserError", f"User {bearer.username} is not allowed to execute job {name}."
        )
    if wanted == "STOP":
        handler.api.launcher.stop(job)
    handler.answer(202, {"status": 202, "message": f"Execute job {name} successfully."})


async def _config(handler: AccessV2, name: str) -> None:
    handler.who()
    handler.answer_as_yaml(_found(handler, name).config)


async def _ssh(handler: AccessV2, name: str) -> None:
    handler.who()
    raise ApiError(404, "NoJobSshInfoError", f"SSH info of job {name} is not found.")


# attempts, tasks, logs


def _task(handler: AccessV2, path: tuple[str, str, str, str]) -> tuple[Job, Attempt, Task]:
    """Return the task that a path names: the job, the number of its attempt, the role, the index."""
    name, number, role, index = path
    job = _found(handler, name)
    try:
        attempt = _attempt(handler, job, number)
    except ApiError:
        where = f"in job {name} with jobAttemptIndex {number}"
        raise ApiError(404, "NoJobError", f"Job attempt not found {where}") from None
    for task in handler.api.store.tasks(attempt) if attempt is not None else ():
        if attempt is not None and (task.role, str(task.index)) == (role, index):
            return job, attempt, task
    where = f"in Job {name} with jobAttemptIndex {number}, taskRoleName {role} and taskIndex {index}"
    raise ApiError(404, "NoJobError", f"Task not found {where}.")


async def _task_attempts(handler: AccessV2, *path: str) -> None:
    handler.who()
    name, number, role, index = path
    job, attempt, task = _task(handler, (name, number, role, index))
    handler.answer(200, task_attempts(job, attempt, handler.api.store.tries(task)))


async def _logs(handler: AccessV2, *path: str) -> None:
    handler.who()
    name, number, role, index, task_attempt = path
    try:
        job, _, task = _task(handler, (name, number, role, index))
    except ApiError:
        raise ApiError(500, "UnknownError", "Failed to get log list") from None
    chosen = [item for item in handler.api.store.tries(task) if str(item.number) == task_attempt]
    if not chosen:
        raise ApiError(404, "NoTaskLogError", "Log of task is not found.")
    tail = handler.get_query_argument("tail-mode", "") == "true"
    handler.answer(200, {"locations": log_locations(handler.api, job, chosen[0], tail=tail)})


async def _job_attempts(handler: AccessV2, name: str) -> None:
    handler.who()
    job, store = _found(handler, name), handler.api.store
    handler.answer(200, [attempt_summary(job, attempt, store) for attempt in reversed(store.attempts(job))])


async def _job_attempts_health(handler: AccessV2, _name: str) -> None:
    handler.who()
    handler.answer_text("text/html", "ok")


async def _job_attempt(handler: AccessV2, name: str, number: str) -> None:
    handler.who()
    job = _found(handler, name)
    attempt = _attempt(handler, job, number)
    if attempt is None:
        raise ApiError(404, "NoJobError", f"JobAttemptId {number} is not found in {name}.")
    handler.answer(200, attempt_summary(job, attempt, handler.api.store))


# events and tags


async def _events(handler: AccessV2, name: str) -> None:
    handler.who()
    job = _found(handler, name)
    events = handler.api.notes.events(job, handler.get_query_argument("type", None))
    name = framework_name(job)
    handler.answer(
        200, {"totalCount": len(events), "data": [{**event, "frameworkName": name} for event in events]}
    )


def _may_tag(handler: AccessV2, name: str, doing: str) -> str:
    """Return the tag of the request's body, if this user may change the tags of this job."""
    bearer = handler.who()
    tag = str(handler.checked(_TAG)["value"])
    if name.partition("~")[0] != bearer.username and not handler.is_admin(bearer):
        raise ApiError(
            403, "ForbiddenUserError", f"User {bearer.username} is not allowed to {doing} job {name}."
        )
    return tag


async def _add_tag(handler: AccessV2, name: str) -> None:
    tag = _may_tag(handler, name, "add tag to")
    handler.api.notes.add_tag(_found(handler, name), tag)
    handler.answer(200, {"status": 200, "message": f"Add tag {tag} for job {name} successfully."})


async def _delete_tag(handler: AccessV2, name: str) -> None:
    tag = _may_tag(handler, name, "delete tag from")
    if not handler.api.notes.remove_tag(_found(handler, name), tag):
        raise ApiError(404, "NoTagError", f"Tag {tag} is not found for job {name}.")
    handler.answer(200, {"status": 200, "message": f"Delete tag {tag} from job {name} successfully."})


_JOB = "/api/v2/jobs/:name"
_TASK = f"{_JOB}/attempts/:number/taskRoles/:role/taskIndex/:index/attempts"

ROUTES = (
    route("GET", "/api/v2/jobs", _list),
    route("POST", "/api/v2/jobs", _submit),
    route("GET", _JOB, _get),
    route("GET", f"{_JOB}/attempts/:number", _get_attempt),
    route("GET", _TASK, _task_attempts),
    route("GET", f"{_TASK}/:attempt/logs", _logs),
    route("PUT", f"{_JOB}/executionType", _execute),
    route("GET", f"{_JOB}/config", _config),
    route("GET", f"{_JOB}/ssh", _ssh),
    route("GET", f"{_JOB}/job-attempts", _job_attempts),
    route("GET", f"{_JOB}/job-attempts/healthz", _job_attempts_health),
    route("GET", f"{_JOB}/job-attempts/:number", _job_attempt),
    route("PUT", f"{_JOB}/tag", _add_tag),
    route("DELETE", f"{_JOB}/tag", _delete_tag),
    route("GET", f"{_JOB}/events", _events),
)
