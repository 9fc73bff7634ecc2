"""The routes of the local server, and its refusal of requests that pages of other sites cause."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from tornado.web import Application, StaticFileHandler

from luigi_pai.local.config.rules import CONTENTS_PATH, FAULTS_PATH, JOB_SCRIPTS_PATH
from luigi_pai.local.config.settings import is_loopback
from luigi_pai.local.faults import ContentsControl, FaultControl, JobScriptControl
from luigi_pai.local.json_http import ApiError, RestHandler, logged_path, no_api
from luigi_pai.local.pages.handlers import JobListPage, JobPage, StopJob
from luigi_pai.local.rest.v1 import V1Handler
from luigi_pai.local.rest.v2 import V2Handler
from luigi_pai.local.views.log_files import LogFile, LogPage

if TYPE_CHECKING:
    import logging

    from tornado.httputil import HTTPHeaders, HTTPServerRequest
    from tornado.web import RequestHandler

    from luigi_pai.local.rest.base import Api

_ASSETS = str(Path(__file__).parent / "pages" / "assets")

_REST = {"v1": V1Handler, "v2": V2Handler}
_CONTAINER = r"(container_\d+_\d+_\d+_\d+|[0-9a-f-]{36})"


def make_app(api: Api, log: logging.Logger) -> _LocalApplication:
    """Return the application, which logs one line for each request, without query, body or headers."""
    return _LocalApplication(
        [
            (r"(?i:(?:/rest-server)?/api(?:/.*)?)", _REST[api.release.api]),
            *api.hdfs.routes(),
            (r"/", JobListPage),
            (r"/(?:job-detail|view)\.html", JobPage),  # view.html is the page of OpenPAI up to 0.10
            (r"/stop-job", StopJob),
            (r"/assets/(page\.(?:css|js))", StaticFileHandler, {"path": _ASSETS}),
            (rf"/node/containerlogs/{_CONTAINER}/([\w.-]+)/(?:(stdout|stderr|runtime)/?)?", LogPage),
            (FAULTS_PATH, FaultControl),
            (JOB_SCRIPTS_PATH, JobScriptControl),
            (CONTENTS_PATH, ContentsControl),
            (r"/log-manager/[^/]+/api/v1/logs/([a-z.-]+)", LogFile),
        ],
        default_handler_class=_Refusal,
        log_function=_log_request,
        log=log,
        api=api,
    )


_FOREIGN = (
    "The local server answers to requests for localhost or a loopback address only, not to pages of other "
    'sites. A proxy in front of it must send "Host: {}", and remove the Origin header, which names the proxy.'
)


class _Refusal(RestHandler):
    """Refuses requests that a page of another site made a browser send, and requests for unknown paths."""

    def initialize(self, *, is_foreign: bool = False) -> None:
        self._is_foreign = is_foreign

    def prepare(self) -> None:
        super().prepare()
        if self._is_foreign:
            raise ApiError(403, "ForbiddenOriginError", _FOREIGN.format(self.api.address.netloc))
        raise no_api(self.request.uri or "")


class _LocalApplication(Application):
    """An application that refuses the requests which a page of another site makes a browser send.

    `Door` refuses only connections of other users. It accepts the connections of such a browser, because
    the browser runs as this user. The requests carry the page's Origin or, after DNS rebinding, a foreign
    Host. Requests for what a page embeds (images, scripts, frames) carry no Origin, but their Sec-Fetch
    headers say whether another site made them, and for what purpose.
    """

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Return the handler of a request: `_Refusal` if a page of another site caused the request."""
        if self.is_foreign(request.headers):
            return self.get_handler_delegate(request, _Refusal, {"is_foreign": True})
        return super().find_handler(request, **kwargs)

    def is_foreign(self, headers: HTTPHeaders) -> bool:
        """Say whether a page of another site made a browser send a request with these headers."""
        origin, host = headers.get("Origin"), headers.get("Host") or "127.0.0.1"  # browsers always send Host
        foreign = origin is not None and _split(origin).netloc != host
        return foreign or _is_embedded(headers) or not is_loopback(_split(f"//{host}").hostname or "")


def _is_embedded(headers: HTTPHeaders) -> bool:
    """Say whether a page of another site requests an image, a script or a frame for itself."""
    site, *rest = [headers.get(f"Sec-Fetch-{name}") for name in ("Site", "Mode", "Dest")]
    return site in ("cross-site", "same-site") and rest != ["navigate", "document"]


def _split(url: str) -> SplitResult:
    """Return the parts of a URL; all are empty if the URL is invalid."""
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 else urlsplit("")
    except ValueError:  # for example, the port is not a number
        return urlsplit("")


def _log_request(handler: RequestHandler) -> None:
    request = handler.request
    handler.application.settings["log"].info(
        "%s %d %s %s %.1f ms",
        request.remote_ip,
        handler.get_status(),
        request.method,
        logged_path(request.path),
        request.request_time() * 1000,
    )
