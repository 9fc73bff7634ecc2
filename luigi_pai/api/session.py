"""One HTTP session per cluster and process: token, timeouts, retries, errors.

The one place that talks HTTP to a rest-server. Nothing here knows what a job is.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urljoin, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import LocationParseError, NewConnectionError, ReadTimeoutError
from urllib3.util.retry import Retry

from luigi_pai.errors import (
    AuthenticationError,
    ClusterUnreachable,
    ConfigError,
    InvalidReply,
    JobNotFound,
    NameConflict,
    PaiHttpError,
    PermissionRefused,
    RateLimited,
    ServerFault,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Account", "Session"]

logger = logging.getLogger("luigi-interface")

_UNAUTHORIZED = 401
_RENEWED_BEFORE_END = 30.0  # seconds
_READ_RETRIES = Retry(
    total=3,
    connect=2,
    read=1,
    redirect=0,
    status=2,
    other=0,
    backoff_factor=0.2,
    status_forcelist=(502, 503, 504),
    allowed_methods=frozenset({"GET"}),
    raise_on_status=False,
    raise_on_redirect=False,
    respect_retry_after_header=False,
)
"""A GET is tried again at once, up to twice and within a second; a longer fault is the caller's."""

_LOGIN_HINTS = {
    "IncorrectPasswordError": "set the right password in [OpenPai] of luigi.cfg",
    "NoUserError": "set the right username in [OpenPai] of luigi.cfg",
}


@dataclass(frozen=True)
class Account:
    """A user of a cluster, and how to reach it.

    Attributes:
        url: the rest-server, with its path if it has one.
        username: whose jobs these are.
        password: for the login; not needed with ``token``.
        token: an application token, sent as it is and never renewed.
        expiration: life of a login in seconds, 60 to 604800 (0.7 to 0.12; later servers ignore it).
        verify: as requests takes it: True, False, or a file of CA certificates.
        connect_timeout, read_timeout: seconds.
    """

    url: str
    username: str
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    expiration: int = 3600
    verify: bool | str = True
    connect_timeout: float = 10.0
    read_timeout: float = 30.0


class _Bearer(requests.auth.AuthBase):
    """The token of a request, as an auth object so that no ``.netrc`` takes its place."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class _Connections(requests.Session):
    """A session that, after a redirect too, takes no user and password from a ``.netrc``."""

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Drop the token where a redirect leaves the host."""
        old, new = response.request.url or "", prepared_request.url or ""
        if self.should_strip_auth(old, new):  # type: ignore[no-untyped-call]
            prepared_request.headers.pop("Authorization", None)


class Session:
    """Requests to one rest-server as one user. Safe to share between threads and over a fork.

    A token is asked for when a request first needs one, kept for as long as it
    says that it lives, and asked for again when the server no longer takes it.
    A redirect of a GET is followed, without the token where it leaves the host;
    any other redirect is an error.

    Args:
        account: who asks, and where.

    Attributes:
        answered: whether the server has ever answered, with anything.

    Raises:
        ConfigError: the account's token is none that a request could carry.
    """

    def __init__(self, account: Account) -> None:
        if account.token and not _can_be_sent(account.token):
            raise ConfigError(
                "token in [OpenPai] of luigi.cfg has blanks, line ends or other characters that no token "
                "has; copy it again"
            )
        self.account = account
        self._base = account.url.rstrip("/") + "/"
        self._lock = threading.Lock()
        self._token: str | None = account.token
        self._token_ends = math.inf
        self._http = _connections()
        self._pid = os.getpid()
        self.answered = False

    def url(self, path: str) -> str:
        """Return the address of an API path, below the path that ``pai_url`` has."""
        return urljoin(self._base, path.lstrip("/"))

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self._http.close()

    def request(self, method: str, path: str, *, body: Any = None, authorize: bool = True) -> Any:
        """Send one request and return the JSON of its answer.

        Args:
            method: GET, POST, PUT or DELETE.
            path: below the rest-server, ``/api/v1/jobs``, quoted.
            body: text, or what is to be sent as JSON.
            authorize: log in first. False sends the token only if there is
                one, and logs in when the server asks for it.

        Raises:
            ClusterUnreachable: nobody answered in time.
            InvalidReply: the answer is not of an OpenPAI.
            PaiHttpError: the class for the answer, see ``errors``.
        """
        self._own_process()
        token = self._kept_token() or (self._login(None) if authorize else None)
        response = self._send(method, path, body, token)
        if response.status_code == _UNAUTHORIZED and not self.account.token:
            response = self._send(method, path, body, self._login(token))
        return self._read(method, path, response)

    def _login(self, refused: str | None) -> str:
        """Return a token other than the refused one."""
        with self._lock:
            kept = self._kept_token()
            if kept and kept != refused:
                return kept  # another thread has renewed it
            account = self.account
            path = "/api/v1/token"
            answer = self._send(
                "POST",
                path,
                {
                    "username": account.username,
                    "password": account.password,
                    "expiration": account.expiration,
                },
                None,
            )
            if answer.status_code in (400, 401, 403, 404):
                self._refuse_login(path, answer)
            reply = self._read("POST", path, answer)
            token = reply.get("token") if isinstance(reply, dict) else None
            if not isinstance(token, str) or not token or not _can_be_sent(token):
                raise InvalidReply(
                    f"{self.url(path)} answered a login without a token; {self._check_url_hint()}"
                )
            logger.debug("Logged in to %s as %s", account.url, account.username)
            self._token, self._token_ends = token, time.monotonic() + _life_of(token)
            return token

    def _kept_token(self) -> str | None:
        return self._token if time.monotonic() < self._token_ends else None

    def _refuse_login(self, path: str, answer: requests.Response) -> NoReturn:
        code, message = _error_of(answer)
        if code is None:
            self._read("POST", path, answer)
        hint = _LOGIN_HINTS.get(code or "")
        if self.account.password is None:
            hint = "no password is set; write password = ... (or token = ...) in [OpenPai] of luigi.cfg"
        raise AuthenticationError(
            f"login of user {self.account.username!r} at {self.account.url} was refused: {message}"
            + (f"; {hint}" if hint else ""),
            status=answer.status_code,
            code=code,
            server_message=message,
        )

    def _send(self, method: str, path: str, body: Any, token: str | None) -> requests.Response:
        url = self.url(path)
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        started = time.monotonic()
        try:
            response = self._http.request(
                method,
                url,
                data=None if data is None else data.encode(),
                headers={} if data is None else {"Content-Type": "application/json"},
                auth=_Bearer(token),
                timeout=(self.account.connect_timeout, self.account.read_timeout),
                verify=self.account.verify,
                allow_redirects=method == "GET",
            )
        except requests.TooManyRedirects:
            raise InvalidReply(f"{url} redirects without end; {self._check_url_hint()}") from None
        except (requests.RequestException, LocationParseError) as error:
            raise self._unreachable(method, error) from None
        self.answered = True
        logger.debug(
            "%s %s -> %d in %.0f ms", method, url, response.status_code, (time.monotonic() - started) * 1000
        )
        return response

    def _own_process(self) -> None:
        """After a fork, take connections and a lock of this process's own; the token goes on."""
        if self._pid != os.getpid():
            self._lock = threading.Lock()
            self._http = _connections()
            self._pid = os.getpid()

    def _unreachable(self, method: str, error: Exception) -> ClusterUnreachable:
        """Say in one line why nobody answered. The cause is not chained: it names pools, not servers."""
        url = self.account.url
        causes = list(_causes(error))
        reason = _reason(causes)
        if isinstance(error, ValueError):  # InvalidURL, MissingSchema, LocationParseError and their like
            return ClusterUnreachable(f"pai_url = {url!r} is no address: {error}; {_REACH_HINT}")
        if isinstance(error, requests.exceptions.SSLError):
            return ClusterUnreachable(
                f"TLS with {url} failed: {reason}; set verify in [OpenPai] to the file of its CA"
            )
        if isinstance(error, requests.exceptions.ConnectTimeout):
            limit = self.account.connect_timeout
            return ClusterUnreachable(f"{url} did not take a connection within {limit:g} s; {_REACH_HINT}")
        if any(isinstance(cause, NewConnectionError) for cause in causes):
            return ClusterUnreachable(f"cannot reach {url}: {reason}; {_REACH_HINT}")
        if any(isinstance(cause, (requests.exceptions.Timeout, ReadTimeoutError)) for cause in causes):
            limit = self.account.read_timeout
            return ClusterUnreachable(
                f"{url} took the connection but did not answer within {limit:g} s", answer_lost=True
            )
        return ClusterUnreachable(
            f"the connection to {url} broke before it answered ({method}): {reason}", answer_lost=True
        )

    def _read(self, method: str, path: str, response: requests.Response) -> Any:
        status = response.status_code
        if status // 100 == 2:  # noqa: PLR2004  the class of an HTTP status
            return self._json(path, response)
        if status // 100 == 3:  # noqa: PLR2004
            target = urlsplit(urljoin(response.url, response.headers.get("Location", "")))
            raise InvalidReply(
                f"{self.url(path)} redirects {method} to {target.scheme}://{target.netloc}{target.path}; "
                "set pai_url in [OpenPai] to where the rest-server is"
            )
        code, message = _error_of(response)
        about: dict[str, Any] = {"status": status, "code": code, "server_message": message}
        text = f"{method} {self.url(path)}: {status} {code or response.reason or ''}".rstrip()
        text += f": {message}" if message else ""
        if status // 100 == 5:  # noqa: PLR2004
            raise ServerFault(text, **about)
        if status == 429:  # noqa: PLR2004
            raise RateLimited(text, reset_at=_reset_time(response.headers), **about)
        if code is None and not _is_json(response):
            raise InvalidReply(f"{text}: this is no answer of an OpenPAI; {self._check_url_hint()}")
        if status == _UNAUTHORIZED:
            whose = "token" if self.account.token else "username and password"
            raise AuthenticationError(
                f"{text}; the server does not take the {whose} of [OpenPai] in luigi.cfg", **about
            )
        if status == 404:  # noqa: PLR2004
            if code == "NoApiError":
                raise PaiHttpError(
                    f"{text}; this OpenPAI does not speak the v1 dialect (0.7 to 0.14)", **about
                )
            raise (JobNotFound if code in (None, "NoJobError") else PaiHttpError)(text, **about)
        raise _ERROR_CLASSES.get(status, PaiHttpError)(text, **about)

    def _json(self, path: str, response: requests.Response) -> Any:
        try:
            return response.json()
        except ValueError:
            raise InvalidReply(
                f"{self.url(path)} answered {response.status_code} with "
                f"{response.headers.get('Content-Type') or 'something'} in place of JSON; "
                f"{self._check_url_hint()}"
            ) from None

    def _check_url_hint(self) -> str:
        return f"is {self.account.url} (pai_url in [OpenPai]) the rest-server?"


def _connections() -> requests.Session:
    http = _Connections()
    http.mount("http://", HTTPAdapter(max_retries=_READ_RETRIES))
    http.mount("https://", HTTPAdapter(max_retries=_READ_RETRIES))
    return http


_REACH_HINT = "check pai_url in [OpenPai] of luigi.cfg, and that the rest-server runs"

_ERROR_CLASSES: dict[int, type[PaiHttpError]] = {
    403: PermissionRefused,
    409: NameConflict,
}


def _can_be_sent(token: str) -> bool:
    """Return whether a header can carry a token; an error about one that it cannot would show it."""
    return token.isascii() and token.isprintable() and " " not in token


def _life_of(token: str) -> float:
    """Return for how many seconds a token may be kept.

    Servers give out JSON Web Tokens, whose ``iat`` and ``exp`` say it. Any other
    token, as mocked tests have them, serves the request it was asked for.
    """
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        life = float(claims["exp"]) - float(claims["iat"])
    except (IndexError, KeyError, TypeError, ValueError):
        return 0.0
    return life - min(_RENEWED_BEFORE_END, life / 10)


def _error_of(response: requests.Response) -> tuple[str | None, str]:
    """Return OpenPAI's error code, if the answer has one, and its message."""
    try:
        reply = response.json()
    except ValueError:
        return None, ""
    if not isinstance(reply, dict):
        return None, ""
    code = reply.get("code")
    return (code if isinstance(code, str) else None), str(reply.get("message") or "")


def _is_json(response: requests.Response) -> bool:
    try:
        response.json()
    except ValueError:
        return False
    return True


def _reset_time(headers: Mapping[str, str]) -> float | None:
    """Return when the limit ends, or None where the server does not say.

    X-RateLimit-Reset is that moment by the server's clock. Retry-After is the
    whole window: the end is never later, whatever the clocks say.
    """
    moment, window = _seconds(headers.get("X-RateLimit-Reset")), _seconds(headers.get("Retry-After"))
    ends = [] if moment is None else [moment]
    ends += [] if window is None else [time.time() + window]
    return min(ends, default=None)


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception of requests and all that is nested in it, the outermost first."""
    seen: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and not any(cause is other for other in seen):
            seen.append(cause)
            yield cause
            waiting += [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]


def _reason(causes: Sequence[BaseException]) -> str:
    """Return the system's own words for a failure, or else the library's."""
    for cause in causes:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    return str(causes[-1]) or type(causes[-1]).__name__
