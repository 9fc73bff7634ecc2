"""Session: authenticated requests to one rest-server as one user."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from luigi_pai.api.clock import Clock
from luigi_pai.api.request_limits import Kind, Limits
from luigi_pai.api.wire.logins import expiry, is_refused, is_valid, lifetime, login_error
from luigi_pai.api.wire.repeats import LOGIN, Tries
from luigi_pai.api.wire.replies import is_success, json_of, parsed, raise_error
from luigi_pai.api.wire.transport import Account, Transport
from luigi_pai.errors import (
    ClusterUnreachable,
    ConfigError,
    InvalidReply,
    PaiApiError,
    PaiError,
)
from luigi_pai.jobspec.paths import item_of, mapping_of
from luigi_pai.private_folder import one_at_a_time
from luigi_pai.redaction import redact, redact_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import requests

    from luigi_pai.api.shared import SharedDocument

logger = logging.getLogger(__name__)
http_logger = logging.getLogger("luigi_pai.http")
"""Logs each request at level DEBUG; off by default."""

if http_logger.level == logging.NOTSET:
    http_logger.setLevel(logging.INFO)  # Luigi logs DEBUG by default, and polling makes thousands of requests

_SUBMITTED = (HTTPStatus.CREATED, HTTPStatus.ACCEPTED)
_TOKEN = "/api/v1/token"  # noqa: S105  a path
_LOGIN_TURN = 10.0  # maximum seconds to wait for another process's login on this machine


class Session:
    """Requests to one rest-server as one user. Threads and forked processes may share a session.

    The session logs in when a request first needs a token, sends this token until shortly before it
    expires, and logs in again if the server rejects it. Forks share the token and the rate limits. If
    several of the user's processes on this machine log in to the same account, they take turns, because
    simultaneous logins may delete each other's tokens (``TokenLost``).

    Args:
        account: The server and the user.
        shared: The state that forked processes share.
        clock: The clock that measures token lifetimes and rate limit windows.

    Attributes:
        limits: The server's rate limits.

    Raises:
        ConfigError: The account's token contains characters that are not allowed in a header.
    """

    def __init__(self, account: Account, shared: SharedDocument, clock: Clock | None = None) -> None:
        if account.token and not is_valid(account.token):
            raise ConfigError(
                f"token in [{account.section}] of luigi.cfg contains blanks, line ends or other characters "
                "that are not valid in a token; copy it again"
            )
        self.account = account
        self.clock = clock or Clock()
        self._shared = shared
        self._base = account.url.rstrip("/") + "/"
        self._transport = Transport(account)
        self.limits = Limits(self._shared, self.clock)

    @property
    def answered(self) -> bool:
        """Whether the server has ever responded to this process, or to another forked process's login."""
        return self._transport.answered or "token" in self._shared.read()

    @property
    def mocked(self) -> bool:
        """Whether the last response or error came from a test that mocks the ``requests`` library."""
        return self._transport.mocked

    def url(self, path: str) -> str:
        """Return the URL of an API path, below the path of ``pai_url``."""
        return self._base + path.removeprefix("/")

    def close(self) -> None:
        """Close the connections; the next request opens new connections."""
        self._transport.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = "application/json",
        authorize: bool = True,
        kind: Kind = Kind.CALL,
        each: Callable[[Any], Any] | None = None,
    ) -> Any:
        """Send one request and return the JSON of its response; None for a submission.

        Args:
            method: GET, POST, PUT or DELETE.
            path: The path below the rest-server's URL, percent-encoded, such as ``/api/v1/jobs``.
            body: A string, or a value to send as JSON.
            content_type: The body's media type.
            authorize: Whether to log in first if there is no token. If False, an existing token is sent, and
                a login follows only if the server responds with 401.
            kind: The rate limit that counts this request.
            each: A function that converts the entries of a list that may be large.

        Raises:
            ClusterUnreachable: No response in time.
            InvalidReply: The response is not from OpenPAI.
            RateLimited: The rate limit is reached, according to this response or an earlier one.
            TokenLost: The server rejected the token from the last login, and the token from a new login.
            PaiHttpError: The server responded with an error; see ``errors`` for the subclasses.
        """
        with self._completed():
            token = self._kept_token() or (self._login(None) if authorize else None)
            response = self._send(method, path, body, token, content_type, kind)
            if response.status_code == HTTPStatus.UNAUTHORIZED and not self.account.token:
                response = self._send(method, path, body, self._login(token), content_type, kind)
            if kind is Kind.SUBMIT and response.status_code in _SUBMITTED:
                return None  # the status says that the job was accepted
            document = self._read(response, each)
            if kind is Kind.SUBMIT:
                raise InvalidReply(
                    f"{method} {response.url}: {response.status_code} {response.reason}: an OpenPAI responds "
                    "to a submission with 202 (0.12 to 0.14: 201); is pai_url in [OpenPai] the rest-server?"
                )
        return document

    def server_info(self) -> dict[str, Any]:
        """Return the response to ``GET /api/v1/``, with name, version, launcherType and authnMethod.

        Servers before 0.15 respond with a page or an error. For these, ``{}`` is returned.

        Raises:
            ClusterUnreachable: No response in time.
            ServerFault, RateLimited: The request failed.
        """
        with self._completed():
            response = self._send("GET", "/api/v1/", None, self._kept_token())
            if response.status_code == HTTPStatus.TOO_MANY_REQUESTS or (
                response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
            ):
                self._read(response)
        return mapping_of(parsed(response)) if is_success(response) else {}

    def redacted(self, output: str, secrets: Iterable[str] = ()) -> str:
        """Return output from a server or a job with the password, the token and private keys redacted.

        LTP sends a private key in each user's record (``extension.jobSSH.key``).

        Args:
            output: The output.
            secrets: Additional values to redact, such as a job's secrets.
        """
        return redact(redact_values(output, self.with_own(secrets)))

    def with_own(self, secrets: Iterable[str]) -> tuple[str | None, ...]:
        """Return the secrets together with this session's password and token."""
        return (*secrets, self.account.password, self._last_token())

    def get(self, url: str, *, part: str | None = None) -> requests.Response:
        """Send a GET without the token to a URL on the cluster or a node; return even error responses.

        Args:
            url: The absolute URL; it may contain an access token, as log URLs do.
            part: Value of the ``Range`` header.

        Raises:
            ClusterUnreachable: No response in time.
        """
        with self._completed():
            return self._transport.send("GET", url, None, None, part=part)

    def times(self, action: str) -> int:
        """Count an action that all forks together may perform only a few times; return the new count."""
        with self._shared.update() as state:
            counts = state.get("counts", {})
            state["counts"] = {**counts, action: counts.get(action, 0) + 1}
            return int(state["counts"][action])

    def token_life(self) -> float | None:
        """Log in if there is no token. Return the token's remaining seconds; None if it does not expire.

        Raises:
            AuthenticationError: The login was refused.
        """
        with self._completed():
            end = expiry(self._kept_token() or self._login(None))
        return None if end is None else end - self.clock.time()

    @contextlib.contextmanager
    def _completed(self) -> Iterator[None]:
        """Add luigi.cfg's section to an error; record whether it is mocked and the server responded."""
        try:
            yield
        except PaiError as error:
            if isinstance(error, PaiApiError):
                error.mocked = self._transport.mocked
            if isinstance(error, ClusterUnreachable):
                error.never_replied = not self.answered
            error.in_section(self.account.section)
            raise

    def _login(self, refused: str | None) -> str:
        """Return the shared token. If there is none, or it equals ``refused``, log in for a new token."""
        with self._shared.locked("login"):
            kept = self._kept_token()
            if kept and kept != refused:
                return kept  # another thread or process has renewed it
            account = self.account
            document = Tries(LOGIN, self.clock.sleep).call(self._post_login)
            token = item_of(document, "token")
            if not isinstance(token, str) or not token or not is_valid(token):
                raise InvalidReply(
                    f"{self.url(_TOKEN)} accepted a login, but sent no valid token; "
                    f"is {account.url} (pai_url in [OpenPai]) the rest-server?"
                )
            logger.debug("Logged in to %s as %s", account.url, account.username)
            ends = self.clock.monotonic() + lifetime(token)
            with self._shared.update() as state:
                state["token"] = [token, ends]
            return token

    def _post_login(self) -> Any:
        account = self.account
        form = {
            "username": account.username,
            "password": account.password,
            "expiration": account.expiration,
        }
        with one_at_a_time("login", f"{account.username}@{account.url}", _LOGIN_TURN):
            response = self._send("POST", _TOKEN, form, None)
        if is_refused(response, account):
            may_be_ltp = self._shared.read().get("dialect") != "v1"
            raise login_error(response, account, self.redacted, may_be_ltp=may_be_ltp)
        return self._read(response)

    def _last_token(self) -> str | None:
        token: str | None = self.account.token or self._shared.read().get("token", [None])[0]
        return token

    def _kept_token(self) -> str | None:
        if self.account.token:
            return self.account.token
        token, ends = self._shared.read().get("token", (None, 0.0))
        return token if token and self.clock.monotonic() < ends else None

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        token: str | None,
        content_type: str = "application/json",
        kind: Kind = Kind.CALL,
    ) -> requests.Response:
        url = self.url(path)
        self.limits.reserve(kind, f"{method} {url}")
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        started = time.perf_counter()
        response = self._transport.send(method, url, data, token, content_type)
        milliseconds = (time.perf_counter() - started) * 1000
        http_logger.debug("%s %s -> %d in %.0f ms", method, url, response.status_code, milliseconds)
        if "X-Warning" in response.headers:
            logger.warning(
                "%s %s: the server warns: %s", method, url, self.redacted(response.headers["X-Warning"])
            )
        refused = response.status_code == HTTPStatus.TOO_MANY_REQUESTS
        self.limits.record(kind, response.headers, refused=refused)
        return response

    def _read(self, response: requests.Response, each: Callable[[Any], Any] | None = None) -> Any:
        if not is_success(response):
            raise_error(response, self.account, self.redacted, self.clock.time(), mocked=self.mocked)
        return json_of(response, self.account.url, each)
