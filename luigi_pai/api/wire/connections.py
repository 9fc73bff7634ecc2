"""The requests session of a transport."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import requests
from urllib3.util.retry import Retry

from luigi_pai.timed_http import MAX_ANSWER, TimedAdapter, TimedConnection, timed_pools, too_long

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.api.wire.environment import Environment

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


class Connections(requests.Session):
    """The connections to one rest-server, and to the hosts of its redirects and logs.

    Args:
        environment: proxies and CA bundle.
    """

    def __init__(self, environment: Environment) -> None:
        super().__init__()
        self.trust_env = False  # no .netrc; the environment is not read for each request
        self._environment = environment
        self.headers["Accept-Encoding"] = "gzip"
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter(_POOLS, max_retries=_READ_RETRIES))

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Drop the token if a redirect leaves the host."""
        old, new = response.request.url or "", prepared_request.url or ""
        if self.should_strip_auth(old, new):  # type: ignore[no-untyped-call]
            prepared_request.headers.pop("Authorization", None)

    def rebuild_proxies(self, prepared_request: requests.PreparedRequest, proxies: Any) -> Any:
        """Use the proxy of the host that a redirect leads to."""
        proxies = dict(self._environment.route(prepared_request.url or "").proxies)
        return super().rebuild_proxies(prepared_request, proxies)  # type: ignore[no-untyped-call]


class _Adapter(TimedAdapter):
    """An adapter that limits the size of replies after decompression."""

    def build_response(self, req: Any, resp: Any) -> requests.Response:
        """Return a reply."""
        resp.stream = functools.partial(_bounded, resp, resp.stream)
        return super().build_response(req, resp)


def _bounded(
    reply: Any, stream: Callable[..., Iterator[bytes]], *args: Any, **options: Any
) -> Iterator[bytes]:
    """Yield the parts of a reply's body, up to the limit; each part of 10 KiB may expand to 10 MiB."""
    size = 0
    for part in stream(*args, **options):
        size += len(part)
        if size > MAX_ANSWER:
            reply.close()
            raise too_long(MAX_ANSWER)
        yield part


_POOLS = timed_pools(TimedConnection)
