"""The requests session of a transport, and its idle connections."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import requests
from urllib3.util.connection import is_connection_dropped
from urllib3.util.retry import Retry

from luigi_pai.timed_http import MAX_ANSWER, TimedAdapter, TimedConnection, timed_pools, too_long

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from urllib3.connectionpool import HTTPConnectionPool

    from luigi_pai.api.wire.environment import Environment

__all__ = ["Connections"]

_READ_RETRIES = Retry(
    total=2,
    connect=1,
    read=1,
    redirect=0,
    status=1,
    other=0,
    backoff_factor=0.1,
    status_forcelist=(502, 503, 504),
    allowed_methods=frozenset({"GET"}),
    raise_on_status=False,
    raise_on_redirect=False,
    respect_retry_after_header=False,
)
"""A GET is repeated at once, once for each kind of error; the caller retries longer."""

_LOCK_SECONDS = 0.01  # it is held for microseconds, or, in a forked process, for ever


class Connections(requests.Session):
    """The connections to one rest-server, and to the hosts of its redirects and logs.

    Args:
        home: URL of the rest-server; only its idle connections are watched.
        environment: proxies and CA bundle.
    """

    def __init__(self, home: str, environment: Environment) -> None:
        super().__init__()
        self.trust_env = False  # no .netrc; the environment is not read for each request
        self._environment = environment
        self._home_pools: list[HTTPConnectionPool] = []  # of direct connections to the rest-server
        pools = {
            scheme: functools.partial(_new_pool, kind, home, self._home_pools)
            for scheme, kind in _POOLS.items()
        }
        self.headers["Accept-Encoding"] = "gzip"
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter(pools, _POOLS, max_retries=_READ_RETRIES))

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Drop the token if a redirect leaves the host."""
        old, new = response.request.url or "", prepared_request.url or ""
        if self.should_strip_auth(old, new):  # type: ignore[no-untyped-call]
            prepared_request.headers.pop("Authorization", None)

    def rebuild_proxies(self, prepared_request: requests.PreparedRequest, proxies: Any) -> Any:
        """Use the proxy of the host that a redirect leads to."""
        proxies = dict(self._environment.route(prepared_request.url or "").proxies)
        return super().rebuild_proxies(prepared_request, proxies)  # type: ignore[no-untyped-call]

    def close_dropped(self) -> bool:
        """Close idle connections that the rest-server has closed; return whether there were any.

        Sends nothing and takes a few microseconds.
        """
        dropped = False
        for pool in self._home_pools:
            dropped |= _close_dropped(pool)
        return dropped


class _Adapter(TimedAdapter):
    """An adapter whose replies are bounded as they are decompressed."""

    def build_response(self, req: Any, resp: Any) -> requests.Response:
        """Return a reply."""
        resp.stream = functools.partial(_bounded, resp, resp.stream)
        return super().build_response(req, resp)


def _bounded(
    reply: Any, stream: Callable[..., Iterator[bytes]], *args: Any, **options: Any
) -> Iterator[bytes]:
    """Yield the parts of a reply's body: what is in 10 KiB, which requests asks for, is 10 MiB at most."""
    size = 0
    for part in stream(*args, **options):
        size += len(part)
        if size > MAX_ANSWER:
            reply.close()
            raise too_long(MAX_ANSWER)
        yield part


def _close_dropped(pool: HTTPConnectionPool) -> bool:
    idle = pool.pool
    if idle is None or not idle.mutex.acquire(timeout=_LOCK_SECONDS):
        return False
    try:  # with the lock, no connection can be taken and be in use
        gone = [one for one in idle.queue if one is not None and one.sock and is_connection_dropped(one)]
        for connection in gone:
            connection.close()
    finally:
        idle.mutex.release()
    return bool(gone)


_POOLS = timed_pools(TimedConnection)


def _new_pool(
    kind: type[HTTPConnectionPool], home: str, home_pools: list[HTTPConnectionPool], *args: Any, **kwargs: Any
) -> HTTPConnectionPool:
    """Make a pool; add it to the list if it is for the rest-server."""
    pool = kind(*args, **kwargs)
    if pool.is_same_host(home):
        home_pools[:] = [one for one in home_pools if one.pool is not None] + [pool]
    return pool
