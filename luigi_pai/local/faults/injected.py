"""The faults of the local server, and the routes that control its faults, job scripts and contents."""

from __future__ import annotations

import asyncio
import json
import math
import time
from http.client import responses as reasons
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.rules import CONTROL, Faults, parse_faults, parse_job_scripts
from luigi_pai.local.faults.connections import Answer, Fate, break_off, send
from luigi_pai.local.json_http import ApiError, RestHandler, logged_path
from luigi_pai.local.rest.base import PREFIX, RACE

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from tornado.httputil import HTTPHeaders, RequestStartLine

    from luigi_pai.local.config.rules import Rule
    from luigi_pai.local.rest.base import Api


class Control(RestHandler):
    """A route that controls the server's behaviour. Like every route, it serves only the server's user."""

    def _parsed(self, parse: Callable[[Any], Any]) -> Any:
        """Return the body, parsed by ``parse``; raises ApiError 400 if ``parse`` raises ConfigError."""
        try:
            return parse(self.body_value())
        except ConfigError as error:
            raise ApiError(400, "InvalidParametersError", str(error)) from None


class FaultControl(Control):
    """``GET`` returns the fault rules in force, ``PUT`` replaces them."""

    async def get(self) -> None:
        """Answer with the rules, each with the numbers of requests that matched and that were affected."""
        self.answer(200, self.api.faults.shown())

    async def put(self) -> None:
        """Replace the rules; their counts and random numbers start again."""
        vars(self.api.faults).update(vars(self._parsed(parse_faults)))
        self.answer(200, self.api.faults.shown())


class JobScriptControl(Control):
    """``POST`` adds job scripts, which are tried after the existing job scripts."""

    async def post(self) -> None:
        """Add the scripts; answer with the number of all scripts."""
        self.api.scripts.rules += self._parsed(parse_job_scripts)
        self.answer(200, {"rules": len(self.api.scripts.rules)})


class ContentsControl(Control):
    """``GET`` lists jobs, ``DELETE`` clears all but users, ``POST`` deletes jobs that ended before a time."""

    async def get(self) -> None:
        """Answer with the task's name and the user of each job, in the order in which they were submitted."""
        jobs = self.api.store.whole_jobs("NOT deleted ORDER BY id")
        shown = [{"name": job.task_name, "username": job.username} for job in jobs]
        self.answer(200, {"jobs": shown})

    async def delete(self) -> None:
        """Delete all jobs, fault rules, job scripts, and all files in the server's own HDFS and storages."""
        vars(self.api.faults).update(vars(Faults()))
        await self.api.launcher.delete_all()
        self.api.scripts.clear()
        self.api.hdfs.empty()
        self.api.storages.empty()
        self.answer(200, {})

    async def post(self) -> None:
        """Delete the jobs that ended before a time, with their files, as a real server's retention does."""
        body = self.body_value()
        before = body.get("endedBefore") if isinstance(body, dict) else None
        if not isinstance(before, int):
            raise ApiError(400, "InvalidParametersError", "the body must be {endedBefore: milliseconds}")
        for job in self.api.store.select_jobs("WHERE completed < ?", [before]):
            self.api.folders.remove(job.id, job.name)
            self.api.store.purge_job(job)
        self.answer(200, {})


_WINDOW = 60  # seconds in the window of 1.8's rate limits; 1.8 always sends the whole window in Retry-After


class InjectedFaults:
    """Applies the fault rules in force to the server's requests, and logs every fault except delays."""

    def __init__(self, api: Api, log: logging.Logger) -> None:
        self._api = api
        self._log = log

    async def choose(self, line: RequestStartLine, headers: HTTPHeaders) -> Fate | None:
        """Apply a delay, revoke the token, or mark a login. Return any other fault, or None."""
        headers.pop(RACE, None)  # only a rule sets it
        path = unquote(line.path.partition("?")[0]).removeprefix(PREFIX)
        faults = self._api.faults
        if not faults.rules or path.startswith(CONTROL):
            return None
        seconds, rule = faults.strike(line.method, path)
        if seconds:
            await asyncio.sleep(seconds)
        if rule is None:
            return None
        self._log.info("fault %s: %s %s", rule.fault, line.method, logged_path(path))
        if rule.fault == "expire":
            self._api.tokens.revoke(headers.get("Authorization", "").rpartition(" ")[2])
        elif rule.fault == "race":
            headers[RACE] = str(rule.seconds)
        elif rule.fault in ("reset", "drop"):
            reset = rule.fault == "reset"
            return Fate(lambda connection, _: break_off(connection, reset=reset), after=not reset)
        else:
            answer = {"error": self._error, "limit": self._limit, "safe-mode": _safe_mode}[rule.fault](rule)
            with_body = line.method != "HEAD"
            return Fate(
                lambda connection, _: send(connection, answer, with_body=with_body), after=rule.executed
            )
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


def _safe_mode(_rule: Rule) -> Answer:
    """Return the refusal of a NameNode in safe mode, as HDFS 2.7.4 and 3.3.4 send it."""
    message = "Name node is in safe mode.\nThe reported blocks 0 needs additional 1 blocks"
    body = {"RemoteException": {"exception": "SafeModeException", "message": message}}
    return Answer(403, {"Content-Type": "application/json"}, json.dumps(body).encode())
