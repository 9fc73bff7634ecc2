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
from urllib3.util.retry import Retry

from luigi_pai.errors import (
    AuthenticationError,
    ClusterUnreachable,
    InvalidReply,
    JobNotFound,
    NameConflict,
    PaiHttpError,
    PermissionRefused,
    RateLimited,
    ServerFault,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """

    def __init__(self, account: Account) -> None:
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
            if not isinstance(token, str) or not token:
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
        except requests.RequestException as error:
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

    def _unreachable(self, method: str, error: requests.RequestException) -> ClusterUnreachable:
        """Say in one line why nobody answered. The cause is not chained: it names pools, not servers."""
        url = self.account.url
        text = str(error)
        if isinstance(error, requests.exceptions.SSLError):
            return ClusterUnreachable(
                f"TLS with {url} failed: {_last_reason(text)}; set verify in [OpenPai] to the file of its CA"
            )
        if isinstance(error, requests.exceptions.ConnectTimeout):
            limit = self.account.connect_timeout
            return ClusterUnreachable(f"{url} did not take a connection within {limit:g} s; {_REACH_HINT}")
        if isinstance(error, requests.exceptions.Timeout) or "Read timed out" in text:
            limit = self.account.read_timeout
            return ClusterUnreachable(
                f"{url} took the connection but did not answer within {limit:g} s", answer_lost=True
            )
        if "NewConnectionError" in text or "NameResolutionError" in text or "refused" in text:
            return ClusterUnreachable(f"cannot reach {url}: {_last_reason(text)}; {_REACH_HINT}")
        if isinstance(error, (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema)):
            return ClusterUnreachable(f"pai_url = {url!r} is no address: {text}; {_REACH_HINT}")
        return ClusterUnreachable(
            f"the connection to {url} broke before it answered ({method}): {_last_reason(text)}",
            answer_lost=True,
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
    http = requests.Session()
    http.mount("http://", HTTPAdapter(max_retries=_READ_RETRIES))
    http.mount("https://", HTTPAdapter(max_retries=_READ_RETRIES))
    return http


_REACH_HINT = "check pai_url in [OpenPai] of luigi.cfg, and that the rest-server runs"

_ERROR_CLASSES: dict[int, type[PaiHttpError]] = {
    403: PermissionRefused,
    409: NameConflict,
}


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
    """Return when the limit ends. Retry-After says the whole window, so it is the second choice."""
    try:
        if "X-RateLimit-Reset" in headers:
            return float(headers["X-RateLimit-Reset"])
        if "Retry-After" in headers:
            return time.time() + float(headers["Retry-After"])
    except ValueError:
        pass
    return None


def _last_reason(text: str) -> str:
    """Return the system's own words out of a nest of exceptions."""
    reason = text.rsplit("Caused by ", 1)[-1]
    reason = reason.rsplit("Error(", 1)[-1].strip("()'\" ")
    reason = reason.rsplit("object at 0x", 1)[-1].split(": ", 1)[-1]
    reason = reason.rsplit("] ", 1)[-1] if reason.startswith("[") else reason
    return reason.strip("()'\" ") or "no reason given"
