"""The base of both REST APIs: dispatch, rate limits, body checks, and objects that routes share."""

from __future__ import annotations

import asyncio
import base64
import math
import re
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from tornado.web import Finish

from luigi_pai.local.accounts.users import password_matches
from luigi_pai.local.container.ports import TASK_PORTS
from luigi_pai.local.json_http import ApiError, RestHandler, no_api
from luigi_pai.local.launcher.task_runner import Services

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from luigi_pai.local.accounts.users import Bearer, Tokens, Users
    from luigi_pai.local.config.rules import Faults
    from luigi_pai.local.config.settings import Address
    from luigi_pai.local.hdfs.cluster import ClusterHdfs
    from luigi_pai.local.launcher.launcher import Launcher
    from luigi_pai.local.releases import Release
    from luigi_pai.local.store.records import Job
    from luigi_pai.local.views.job_lists import JobRows

PREFIX = "/rest-server"
RACE = "Luigi-Pai-Race"  # header: seconds between the two steps of a login; set by fault injection


@dataclass(frozen=True, kw_only=True)
class Api(Services):
    """The objects that routes share: the launcher's services, and the ones below."""

    users: Users
    tokens: Tokens
    launcher: Launcher
    address: Address
    files: ClusterHdfs
    rows: JobRows
    release: Release
    limits: RateLimits | None
    faults: Faults


@dataclass(frozen=True)
class _Route:
    """A method, a path pattern, and the handler."""

    method: str
    pattern: re.Pattern[str]
    action: Callable[..., Awaitable[None]]


def route(method: str, path: str, action: Callable[..., Awaitable[None]]) -> _Route:
    """Return a route. ``:word`` in ``path`` matches one segment; the method ``*`` matches every method."""
    return _Route(method, re.compile(re.sub(r"/:\w+", "/([^/]+)", path) + "/?", re.IGNORECASE), action)


def not_allowed(username: str, action: str) -> ApiError:
    """Return the error for an action that a user is not allowed to take."""
    return ApiError(403, "ForbiddenUserError", f"User {username} is not allowed to {action}")


_GUEST = "Guest is not allowed to do this operation."


class ApiHandler(RestHandler):
    """Handler for all of an API's routes."""

    routes: ClassVar[Sequence[_Route]] = ()
    invalid_token = _GUEST
    _limit_headers: Mapping[str, str] = MappingProxyType({})

    async def _dispatch(self) -> None:
        """Call the route's handler like Express, ignoring case and a trailing slash in the path.

        HEAD is handled as GET without the body. There is no CORS, because other sites' pages are rejected.
        """
        method = "GET" if self.request.method == "HEAD" else self.request.method
        path = self.request.path.removeprefix(PREFIX)
        self.body: Any = self.body_value()
        self.count("call", self.request.remote_ip or "")
        for known in self.routes:
            found = known.pattern.fullmatch(path)
            if found and known.method in (method, "*"):
                await known.action(self, *(unquote(part) for part in found.groups()))
                return
        raise no_api((self.request.uri or "").removeprefix(PREFIX))

    get = head = post = put = delete = patch = options = _dispatch

    async def log_in(self, username: str, password: str, seconds: int) -> None:
        """Respond with a token valid for ``seconds``; raise ApiError 400 for an invalid name or password."""
        user = self.api.users.get(username)
        if user is None:
            raise ApiError(400, "NoUserError", f"User {username} is not found.")
        if not await password_matches(user, password):
            raise ApiError(400, "IncorrectPasswordError", "Password is incorrect.")
        tokens = self.api.tokens
        read = tokens.valid_tokens(username)
        if RACE in self.request.headers:
            await asyncio.sleep(float(self.request.headers[RACE]))
        token = tokens.issue(username, admin=user.admin, expiration=seconds)
        for lost in set(tokens.valid_tokens(username)) - {
            *read,
            token,
        }:  # 1.8 saves `read` and ``token``
            tokens.revoke(lost)
        self.respond(200, {"user": username, "token": token, "admin": user.admin})

    async def add_user(self, username: str, password: str, message: str) -> None:
        """Add a user limited to the ``default`` virtual cluster; raises ApiError 409 for a taken name."""
        if not await self.api.users.add(username, password):
            raise ApiError(409, "ConflictUserError", f"User name {username} already exists.")
        self.respond(201, {"message": message})

    def set_default_headers(self) -> None:
        """Set the rate limit headers here, so that error responses include them too."""
        super().set_default_headers()
        for name, value in self._limit_headers.items():
            self.set_header(name, value)

    def count(self, kind: str, key: str) -> None:
        """Count a request if the server has limits (`RateLimits.count`). Above the limit, send 429."""
        if self.api.limits is None:
            return
        self._limit_headers, refused = self.api.limits.count(kind, key)
        for name, value in self._limit_headers.items():
            self.set_header(name, value)
        if refused:
            self.respond_string("text/html", "Too many requests, please try again later.", 429)
            raise Finish

    def authenticated(self) -> Bearer:
        """Return the authenticated user; raises ApiError 401 without a valid token."""
        bearer = self._bearer()
        if bearer is None:
            is_guest = "Authorization" not in self.request.headers
            raise ApiError(401, "UnauthorizedUserError", _GUEST if is_guest else self.invalid_token)
        return bearer

    def _bearer(self) -> Bearer | None:
        """Return the user for ``Bearer TOKEN`` or ``Basic USER:APPLICATION_TOKEN``; None if it is invalid."""
        scheme, credentials = self.credentials()
        if scheme == "bearer":
            return self.api.tokens.check(credentials)
        if scheme != "basic":
            return None
        try:
            name, _, token = base64.b64decode(credentials).decode().partition(":")
        except ValueError:  # not base64, or not UTF-8 inside
            return None
        bearer = self.api.tokens.check(token)
        return bearer if bearer and bearer.application and bearer.username == name else None

    def is_admin(self, bearer: Bearer) -> bool:
        """Return whether a user is an administrator now, regardless of their token."""
        return self.api.users.is_admin(bearer.username)

    def check_owner(self, bearer: Bearer, owner: str, action: str) -> None:
        """Raise ApiError 403 if a user is neither the job's owner nor an administrator."""
        if bearer.username != owner and not self.is_admin(bearer):
            raise not_allowed(bearer.username, action)

    def find_job(self, name: str, *key: str) -> Job:
        """Return the job that `Store.job` finds by ``key``; if none, raise ApiError 404 with ``name``."""
        job = self.api.store.job(*key)
        if job is None:
            raise ApiError(404, "NoJobError", f"Job {name} is not found.")
        return job


Rule = str | range | tuple[Any, ...]
"""A field's valid values: a pattern for a string, a range for a whole number, or a tuple of values."""


def checked_body(
    body: Any, fields: Mapping[str, Rule], optional: Mapping[str, Rule] | None = None
) -> dict[str, Any]:
    """Return the body. It must have all ``fields``, may have ``optional`` fields, and must not have others.

    Raises:
        ApiError: 400 InvalidParametersError, which lists every problem but quotes no values.
    """
    given = body if isinstance(body, dict) else {}
    known = {**fields, **(optional or {})}
    problems = [f"{name}: is not a field here" for name in given if name not in known]
    problems += [f"{name}: is missing" for name in fields if name not in given]
    problems += [
        f"{name}: is not of the form {rule}"
        for name, rule in known.items()
        if name in given and not _fits(given[name], rule)
    ]
    if problems:
        raise ApiError(400, "InvalidParametersError", "; ".join(problems))
    return given


def _fits(value: Any, rule: Rule) -> bool:
    """Return whether a value is valid for a field. Numbers may be strings."""
    if isinstance(rule, str):
        return isinstance(value, str) and re.fullmatch(rule, value, re.DOTALL) is not None
    if isinstance(rule, range):
        return re.fullmatch("[0-9]{1,9}", str(value)) is not None and int(value) in rule
    return value in rule


MAX_TASKS = 1000
"""Maximum number of tasks in a job."""

_MAX_PORTS = 1000
"""Maximum number of ports per task, not counting ``ssh`` and ``http``, which every task has."""

MAX_JOB_PORTS = 5000
"""Maximum number of ports for all tasks in a job together, not counting ``ssh`` and ``http``."""


def is_too_large(spec: Mapping[str, Any]) -> bool:
    """Return whether a job's spec has more tasks or ports than this server allows."""
    tasks = [role["taskNumber"] for role in spec["taskRoles"]]
    ports = [
        sum(port["portNumber"] for port in role["portList"] if port["label"] not in TASK_PORTS)
        for role in spec["taskRoles"]
    ]
    wanted: int = sum(count * number for count, number in zip(tasks, ports, strict=True))
    return bool(sum(tasks) > MAX_TASKS or max(ports) > _MAX_PORTS or wanted > MAX_JOB_PORTS)


_WINDOWS = {"call": 60, "list": 60, "submission": 3600}  # seconds


class RateLimits:
    """The rate limits of OpenPAI 1.x and LTP, counted as their rest-servers count.

    A window is the minute or hour that a limit applies to. On OpenPAI (express-rate-limit 5), windows follow
    each other from the server's start and are the same for all clients. On LTP (express-rate-limit 7), each
    address's or user's window starts with its first request. Rejected requests also count.

    Args:
        limits: calls per minute and address, lists per minute and user, submissions per hour and user.
        clock: returns the time in seconds since 1970 UTC.
        per_key: whether windows start as on LTP; if False, they start as on OpenPAI.
    """

    def __init__(
        self, limits: Sequence[int], clock: Callable[[], float] = time.time, *, per_key: bool = False
    ) -> None:
        self._limits = dict(zip(_WINDOWS, limits, strict=True))
        self._clock = clock
        self._started = clock()
        self._per_key = per_key
        self._counts: dict[tuple[str, str], tuple[float, int]] = {}  # kind, key -> end of window, count

    def count(self, kind: str, key: str) -> tuple[dict[str, str], bool]:
        """Count a ``call`` from an IP address, or a user's ``list`` or ``submission``.

        Returns the response's rate limit headers, and whether to reject the request.
        """
        limit, seconds, now = self._limits[kind], _WINDOWS[kind], self._clock()
        end, count = self._counts.get((kind, key), (now, 0))
        if now >= end:
            self._counts = {name: other for name, other in self._counts.items() if now < other[0]}
            first = now if self._per_key else self._started
            end, count = first + seconds * ((now - first) // seconds + 1), 0
        count += 1
        self._counts[kind, key] = (end, count)
        headers = {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(max(0, limit - count)),
            "X-RateLimit-Reset": str(math.ceil(end)),
        }
        if count > limit:
            headers["Retry-After"] = str(math.ceil(end - now) if self._per_key else seconds)
        return headers, count > limit
