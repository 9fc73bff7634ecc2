"""The base of both REST APIs: the objects that routes share, and their dispatch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from luigi_pai.local.json_http import RestHandler, no_api

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from luigi_pai.local.accounts.users import TokenRegister, Users
    from luigi_pai.local.config.settings import Address
    from luigi_pai.local.container.storages import Storages
    from luigi_pai.local.container.task_files import JobFolders
    from luigi_pai.local.hdfs.cluster import ClusterHdfs
    from luigi_pai.local.launcher.launcher import Launcher
    from luigi_pai.local.releases.release import Release
    from luigi_pai.local.rest.base.rate_limits import RateLimits
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.views.job_events import JobEvents
    from luigi_pai.local.views.job_rows import JobRows, JobTags

__all__ = ["PREFIX", "Api", "ApiHandler", "Route", "route"]

PREFIX = "/rest-server"


@dataclass(frozen=True)
class Api:
    """The objects that routes share; ``config_lines`` are those of a luigi.cfg that points at this server."""

    store: Store
    users: Users
    tokens: TokenRegister
    launcher: Launcher
    address: Address
    virtual_clusters: tuple[str, ...]
    hdfs: ClusterHdfs
    folders: JobFolders
    events: JobEvents
    tags: JobTags
    storages: Storages
    rows: JobRows
    release: Release
    config_lines: str
    limits: RateLimits | None = None


@dataclass(frozen=True)
class Route:
    """A method, a pattern of paths, and the handler."""

    method: str
    pattern: re.Pattern[str]
    action: Callable[..., Awaitable[None]]


def route(method: str, path: str, action: Callable[..., Awaitable[None]]) -> Route:
    """Return a route; ``:word`` in the path stands for one part, ``*`` for every method."""
    return Route(method, re.compile(re.sub(r":\w+", "([^/]+)", path) + "/?", re.IGNORECASE), action)


class ApiHandler(RestHandler):
    """Every address of one of the APIs."""

    routes: ClassVar[Sequence[Route]] = ()

    def initialize(self, api: Api) -> None:
        """Store what all requests share."""
        self.api = api

    async def _dispatch(self) -> None:
        """Answer by the route as express finds it: without case, with or without a slash at its end.

        A HEAD is answered as the GET without its body. No page of another site is allowed in (no CORS).
        """
        method = "GET" if self.request.method == "HEAD" else self.request.method
        path = self.request.path.removeprefix(PREFIX)
        self.body: Any = self.body_value()
        self.count_call()
        for known in self.routes:
            found = known.pattern.fullmatch(path)
            if found and known.method in (method, "*"):
                await known.action(self, *(unquote(part) for part in found.groups()))
                return
        raise no_api((self.request.uri or "").removeprefix(PREFIX))

    get = head = post = put = delete = patch = options = _dispatch

    def count_call(self) -> None:
        """Count the request where the API has a limit."""
