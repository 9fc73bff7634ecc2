"""HttpClient: requests to servers, with one account's limits, proxies and CA settings."""

from __future__ import annotations

from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import requests
from urllib3.exceptions import HTTPError

from luigi_pai.api.wire.environment import Environment
from luigi_pai.api.wire.faults import NoResponse
from luigi_pai.api.wire.timed_http import TimedAdapter, progress
from luigi_pai.errors import ConfigError
from luigi_pai.redaction import redact_urllib3_logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from urllib3.util.retry import Retry

redact_urllib3_logs()


class HttpClient:
    """One process's HTTP connections, to any number of servers.

    The proxies and the CA bundle set in the environment are read only once; see ``Environment``. A
    ``.netrc`` is not read.

    Args:
        verify: True, False, or a file of CA certificates.
        connections: The maximum number of open connections to one server.
        repeats: The retries that urllib3 makes; none by default.
    """

    def __init__(self, *, verify: bool | str, connections: int, repeats: Retry | int = 0) -> None:
        self._environment = Environment(verify=verify)
        self._session = requests.Session()
        self._session.trust_env = False  # no .netrc; the environment is not read for each request
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, TimedAdapter(max_retries=repeats, pool_maxsize=connections))

    def close(self) -> None:
        """Close the connections. The next request opens new ones."""
        self._session.close()

    def send(
        self,
        method: str,
        url: str,
        *,
        timeouts: tuple[float, float],
        headers: Mapping[str, str],
        data: str | bytes | Iterable[bytes] | None = None,
        stream: bool = False,
        follow: bool = True,
        **about: Any,
    ) -> requests.Response:
        """Send one request and return the response, whatever its status.

        Args:
            method: The HTTP method.
            url: The absolute URL.
            timeouts: Seconds to wait for the connection, and for each part of the response.
            headers: The request's headers, besides those that ``requests`` sends.
            data: The body.
            stream: Whether the body of a successful response is read later.
            follow: Whether redirects are followed.
            about: The ``params`` and ``auth`` arguments of ``requests``.

        Raises:
            NoResponse: There was no complete response. Do not show this error to users, because it contains
                the request.
            ConfigError: A proxy in the environment is not valid.
        """
        progress.sent = None
        try:
            prepared = requests.PreparedRequest()  # in a quarter of the time of Session.request
            prepared.prepare(
                method,
                url,
                {**self._session.headers, **headers},
                data=data.encode() if isinstance(data, str) else data,
                cookies=self._session.cookies,
                **about,
            )
            response = self._session.send(
                prepared,
                timeout=timeouts,
                stream=stream,
                allow_redirects=follow,
                proxies=dict(self._environment.proxies(url)),
                verify=self._environment.verify,
            )
            if stream and response.status_code >= HTTPStatus.BAD_REQUEST:
                response.content  # noqa: B018  read here, where it may break
        except ConfigError:
            raise
        except (requests.RequestException, HTTPError, HTTPException, OSError, ValueError) as error:
            raise NoResponse(method, url, timeouts, self._environment, error, sent=progress.sent) from None
        return response
