"""The faults of the local server: what its rules do to a request."""

from __future__ import annotations

import asyncio
import math
import re
import time
from functools import partial
from http.client import responses as reasons
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from luigi_pai.local.config.fault_rules import CONTROL
from luigi_pai.local.faults.connections import Answer, Fate, break_off, send
from luigi_pai.local.faults.control import purge_ended
from luigi_pai.local.json_http import NO_DATABASE, logged_path
from luigi_pai.local.rest.base.api import PREFIX

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Sequence

    from tornado.httputil import HTTPHeaders, RequestStartLine

    from luigi_pai.local.config.fault_rules import Faults, Rule
    from luigi_pai.local.rest.base.api import Api
    from luigi_pai.local.store.records import Job

__all__ = ["InjectedFaults"]

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
        """Return the job that a path names, or all jobs of a list's API."""
        found = _JOB.fullmatch("/".join(path.split("/")[:5]))
        if found is None:
            return ()
        store, api, name = self._api.store, found[1].lower(), found[2]
        if name is None:
            return store.jobs(api)
        user, _, job_name = name.partition("~")
        return [store.job(name) if api == "v1" else store.job_of(user, job_name)]


def _send(answer: Answer, connection: Any, _answer: Answer | None, *, with_body: bool) -> None:
    send(connection, answer, with_body=with_body)
