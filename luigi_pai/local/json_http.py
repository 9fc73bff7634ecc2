"""Request handlers that follow the rest-server: JSON, errors as {code, message}, bodies up to 100 kB."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from tornado.web import HTTPError, RequestHandler, stream_request_body

from luigi_pai.jobspec.dialects.javascript_text import javascript_number

if TYPE_CHECKING:
    from luigi_pai.local.rest.base import Api

_MAX_BODY = 100 * 1024
_TOKEN = re.compile("(/tokens?/)[^/]{20,}", re.IGNORECASE)


class ApiError(Exception):
    """An API error response; ``code`` is None if OpenPAI sends this error without a code."""

    def __init__(self, status: int, code: str | None, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def no_api(uri: str) -> ApiError:
    """Return the error for a route that does not exist."""
    return ApiError(404, "NoApiError", f"API {uri} is not found.")


def logged_path(path: str) -> str:
    """Return a request's path for the log. Tokens in it, as in a request to revoke one, are masked."""
    return _TOKEN.sub(r"\1******", path)


@stream_request_body
class SmallBodyHandler(RequestHandler):
    """A handler that keeps a request's body in memory if it is at most 100 kB, and drops larger bodies."""

    @property
    def api(self) -> Api:
        """The objects that an application's routes share."""
        api: Api = self.settings["api"]
        return api

    def prepare(self) -> None:
        """Start with an empty body."""
        self.content = bytearray()
        self.too_large = False

    def data_received(self, chunk: bytes) -> None:
        """Add a piece to the body. Drop the whole body as soon as it is too large."""
        if not self.too_large and len(self.content) + len(chunk) <= _MAX_BODY:
            self.content += chunk
        else:
            self.too_large = True
            self.content.clear()

    def set_default_headers(self) -> None:
        """Set the headers that name the server and forbid browsers from guessing content types."""
        self.set_header("Server", "luigi-pai local")
        self.set_header("X-Content-Type-Options", "nosniff")

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log a server error, without the request's query and body."""
        if not isinstance(value, (ApiError, HTTPError)) and value:
            self.application.settings["log"].error(
                "%s %s failed", self.request.method, logged_path(self.request.path), exc_info=(typ, value, tb)
            )


class RestHandler(SmallBodyHandler):
    """A handler whose responses, including errors, are JSON."""

    def respond(self, status: int, value: Any) -> None:
        """Send a value as JSON."""
        self.respond_json(json.dumps(value, separators=(",", ":")), status)

    def respond_json(self, body: str, status: int = 200) -> None:
        """Send a JSON string."""
        self.respond_string("application/json", body, status)

    def respond_string(self, content_type: str, body: str, status: int = 200) -> None:
        """Send a string."""
        self.set_status(status)
        self.set_header("Content-Type", f"{content_type}; charset=utf-8")
        self.finish(body)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Send an error in OpenPAI's form."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, HTTPError):
            error = ApiError(status_code, None, error.log_message or self._reason)
        elif not isinstance(error, ApiError):
            body = "the local server failed; see server.log in its data folder"
            error = ApiError(500, "UnknownError", body)
        code = {} if error.code is None else {"code": error.code}
        self.respond(error.status, {**code, "message": error.message})

    def credentials(self) -> tuple[str, str]:
        """Return the scheme, in lower case, and the rest of the Authorization header."""
        scheme, _, rest = self.request.headers.get("Authorization", "").partition(" ")
        return scheme.lower(), rest.strip()

    def body_value(self) -> Any:
        """Return the parsed body if it is JSON or a form, else {}.

        Raises ApiError 413 if the body is too large, 400 if it is not a valid JSON object or array.
        """
        if self.too_large:
            raise ApiError(413, None, "request entity too large")
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        body = bytes(self.content).decode("utf-8", "replace")
        if kind == "application/x-www-form-urlencoded":
            fields = parse_qs(body, keep_blank_values=True)
            return {key: values[0] if len(values) == 1 else values for key, values in fields.items()}
        if kind == "application/json" and body:
            return _parse_json(body)
        return {}


def _parse_json(body: str) -> Any:
    """Return the object or array in a JSON document, reading 1.0 as 1.

    Raises:
        ApiError: 400, if the document is not a JSON object or array.
    """
    try:
        value = json.loads(body, parse_float=_number, parse_constant=_number)
        if isinstance(value, dict | list):
            json.dumps(value, ensure_ascii=False).encode()  # raises for a lone surrogate
            return value
    except (ValueError, RecursionError):
        pass
    raise ApiError(400, None, "the body is no JSON object or array")


def _number(body: str) -> float:
    number = javascript_number(float(body))
    if not math.isfinite(number):
        raise ValueError(body)
    return number


def whole_number(body: str) -> int | None:
    """Return the number in a string of 1 to 18 digits; None for any other string."""
    return int(body) if re.fullmatch("[0-9]{1,18}", body) else None
