"""The faults of the local server, and its control routes: faults, job scripts, and what it holds."""

from __future__ import annotations

import asyncio
import math
import re
import time
from functools import partial
from http.client import responses as reasons
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.fault_rules import CONTROL, Faults, parse_faults
from luigi_pai.local.container.scripted import parse_job_scripts
from luigi_pai.local.faults.connections import Answer, Fate, break_off, send
from luigi_pai.local.json_http import (
    NO_DATABASE,
    ApiError,
    RestHandler,
    basic_credentials,
    logged_path,
)
from luigi_pai.local.rest.base.api import PREFIX
from luigi_pai.local.store.records import COMPLETED

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable, Sequence

    from tornado.httputil import HTTPHeaders, RequestStartLine

    from luigi_pai.local.config.fault_rules import Rule
    from luigi_pai.local.container.scripted import JobScripts
    from luigi_pai.local.rest.base.api import Api
    from luigi_pai.local.store.records import Job, User

__all__ = ["ContentsControl", "FaultControl", "InjectedFaults", "JobScriptControl", "purge_ended"]


class Control(RestHandler):
    """A route that changes how the server behaves."""

    def initialize(self, api: Api, faults: Faults, scripts: JobScripts) -> None:
        """Store what all requests share."""
        self._api = api
        self._faults = faults
        self._scripts = scripts

    async def _allow(self) -> None:
        """Check that an administrator sent the request, with a token or a password.

        Raises:
            ApiError: 403 or 401.
        """
        user = await self._user()
        if user is None:
            raise ApiError(401, "UnauthorizedUserError", "Guest is not allowed to do this operation.")
        if not user.admin:
            raise ApiError(403, "ForbiddenUserError", "Non-admin is not allowed to do this operation.")

    async def _user(self) -> User | None:
        """Return the user that token, or name and password, authenticate; None without valid ones."""
        scheme, credentials = self.credentials()
        if scheme == "basic":
            return await self._api.users.with_password(*basic_credentials(credentials))
        bearer = self._api.tokens.check(credentials) if scheme == "bearer" else None
        return None if bearer is None else self._api.users.get(bearer.username)


class FaultControl(Control):
    """``GET``, ``PUT`` and ``DELETE`` of the rules in force."""

    async def get(self) -> None:
        """Answer with the rules, and how many requests each has seen and struck."""
        await self._allow()
        self.answer(200, self._faults.shown())

    async def put(self) -> None:
        """Replace the rules; their counts and random numbers start again."""
        await self._allow()
        try:
            self._faults.replace_by(parse_faults(self.body_value()))
        except ConfigError as error:
            raise ApiError(400, "InvalidParametersError", str(error)) from None
        self.answer(200, self._faults.shown())

    async def delete(self) -> None:
        """Clear the rules."""
        await self._allow()
        self._faults.replace_by(Faults())
        self.answer(200, self._faults.shown())


class JobScriptControl(Control):
    """``POST`` of rules, which are tried after those that are there."""

    async def post(self) -> None:
        """Add rules."""
        await self._allow()
        try:
            self._scripts.rules += parse_job_scripts(self.body_value())
        except ConfigError as error:
            raise ApiError(400, "InvalidParametersError", str(error)) from None
        self.answer(200, {"rules": len(self._scripts.rules)})


class ContentsControl(Control):
    """``GET`` of all jobs, ``DELETE`` of everything, ``POST`` to delete jobs that ended long ago."""

    async def get(self) -> None:
        """Show which jobs there are, in the order in which they were submitted."""
        await self._allow()
        store = self._api.store
        jobs = sorted(store.jobs(), key=lambda job: job.id)
        shown = [{"name": job.name, "username": job.username} for job in jobs]
        self.answer(200, {"jobs": shown})

    async def delete(self) -> None:
        """Delete all jobs, all files of the server's own HDFS and storages, faults and scripts."""
        await self._allow()
        self._faults.replace_by(Faults())
        await self._api.launcher.delete_all()
        self._scripts.clear()
        self._api.hdfs.empty()
        self._api.storages.empty()
        self.answer(200, {})

    async def post(self) -> None:
        """Delete the jobs that ended before a time, as real servers do."""
        await self._allow()
        body = self.body_value()
        before = body.get("endedBefore") if isinstance(body, dict) else None
        if not isinstance(before, int):
            raise ApiError(400, "InvalidParametersError", "not of the form {endedBefore: milliseconds}")
        jobs = [job for job in self._api.store.jobs() if (job.completed or before) < before]
        purge_ended(self._api, jobs)
        self.answer(200, {})


def purge_ended(api: Api, jobs: Iterable[Job]) -> None:
    """Delete those of some jobs that have ended, with their files, as a real server's retention does."""
    for job in jobs:
        if job.sub_state == COMPLETED:
            api.folders.remove(job.id, job.name)
            api.store.purge_job(job)


_WINDOW = 60  # seconds that Retry-After names, as OpenPAI 1.8 does: the whole window
_JOB = re.compile(r"/api/(v[12])/jobs(?:/([^/]+))?", re.IGNORECASE)


class InjectedFaults:
    """The rules in force, and the server that they are for; each request that they strike is logged.

    ``is_foreign`` says of a request's headers whether a page of another site sent it.
    """

    def __init__(
        self, api: Api, faults: Faults, is_foreign: Callable[[HTTPHeaders], bool], log: logging.Logger
    ) -> None:
        self._api = api
        self._faults = faults
        self._is_foreign = is_foreign
        self._log = log

    async def choose(self, line: RequestStartLine, headers: HTTPHeaders, connection: Any) -> Fate | None:
        """Delay a request, revoke its token or forget its job, as the rules say; return what is left to do.

        Requests of other sites' pages are left alone, because they are refused anyway.
        """
        path = unquote(line.path.partition("?")[0]).removeprefix(PREFIX)
        if not self._faults.rules or path.startswith(CONTROL) or self._is_foreign(headers):
            return None
        seconds, rule = self._faults.strike(line.method, path)
        if seconds:
            await asyncio.sleep(seconds)
        if rule is None:
            return None
        self._log.info("fault %s: %s %s", rule.fault, line.method, logged_path(path))
        if rule.fault == "expire":
            self._api.tokens.revoke(headers.get("Authorization", "").rpartition(" ")[2])
        elif rule.fault == "vanish":
            purge_ended(self._api, (job for job in self._named(path) if job is not None))
        elif rule.fault == "database":
            setattr(connection, NO_DATABASE, True)  # see `AccessV2.require_database`
        elif rule.fault in ("reset", "drop"):
            reset = rule.fault == "reset"
            return Fate(lambda connection, _: break_off(connection, reset=reset), after=not reset)
        else:
            answer = self._error(rule) if rule.fault == "error" else self._limit(rule)
            return Fate(partial(_send, answer, with_body=line.method != "HEAD"))
        return None

    def _error(self, rule: Rule) -> Answer:
        """Return a 5xx as a proxy sends it."""
        body = f"<html><body><h1>{rule.status} {reasons.get(rule.status, 'Error')}</h1></body></html>"
        return Answer(rule.status, {"Content-Type": "text/html; charset=utf-8"}, body.encode())

    def _limit(self, rule: Rule) -> Answer:
        """Return a 429 as the rest-server sends it."""
        left = self._api.release.window_of_each_key
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Retry-After": str(math.ceil(rule.seconds) if left else _WINDOW),
            "X-RateLimit-Limit": "1",
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": str(math.ceil(time.time() + rule.seconds)),
        }
        return Answer(429, headers, b"Too many requests, please try again later.")

    def _named(self, path: str) -> Sequence[Job | None]:
        """Return the job that a path names, or all jobs for a list's path."""
        found = _JOB.fullmatch("/".join(path.split("/")[:5]))
        if found is None:
            return ()
        store, api, name = self._api.store, found[1].lower(), found[2]
        if api != store.release.api:
            return ()
        if name is None:
            return store.jobs()
        user, _, job_name = name.partition("~")
        return [store.job(name) if api == "v1" else store.job(job_name, user)]


def _send(answer: Answer, connection: Any, _answer: Answer | None, *, with_body: bool) -> None:
    send(connection, answer, with_body=with_body)
