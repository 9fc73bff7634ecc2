"""The requests session of a transport."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import requests
from urllib3.util.retry import Retry

from luigi_pai.timed_http import TimedAdapter

if TYPE_CHECKING:
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
            self.mount(scheme, TimedAdapter(max_retries=_READ_RETRIES))

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Drop the token if a redirect leaves the host."""
        old, new = response.request.url or "", prepared_request.url or ""
        if self.should_strip_auth(old, new):  # type: ignore[no-untyped-call]
            prepared_request.headers.pop("Authorization", None)

    def rebuild_proxies(self, prepared_request: requests.PreparedRequest, proxies: Any) -> Any:
        """Use the proxy of the host that a redirect leads to."""
        proxies = dict(self._environment.route(prepared_request.url or "").proxies)
        return super().rebuild_proxies(prepared_request, proxies)  # type: ignore[no-untyped-call]
