"""The routes of the local server, and the refusal of requests that pages of other sites made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from tornado.web import Application, StaticFileHandler

from luigi_pai.local.config.fault_rules import CONTENTS_PATH, FAULTS_PATH
from luigi_pai.local.config.settings import is_loopback
from luigi_pai.local.container.scripted import JOB_SCRIPTS_PATH
from luigi_pai.local.faults.injected import ContentsControl, FaultControl, JobScriptControl
from luigi_pai.local.json_http import ApiError, RestHandler, logged_path, no_api
from luigi_pai.local.pages.handlers import JobListPage, JobPage, StopJob
from luigi_pai.local.rest.v1 import V1Handler
from luigi_pai.local.rest.v2.routes import V2Handler
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
            (r"/(?:job-detail|view)\.html", JobPage),  # view.html to 0.10
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
    'sites. A proxy in front of it has to send "Host: {}", and no Origin of its own name.'
)


class _Refusal(RestHandler):
    """Refuses a request that a page of another site made in the user's browser, or of an unknown address."""

    def initialize(self, *, is_foreign: bool = False) -> None:
        self._is_foreign = is_foreign

    def prepare(self) -> None:
        super().prepare()
        if self._is_foreign:
            raise ApiError(403, "ForbiddenOriginError", _FOREIGN.format(self.api.address.netloc))
        raise no_api(self.request.uri or "")


class _LocalApplication(Application):
    """An application that browsers cannot be tricked into using.

    A web page can make its reader's browser, which the door lets in, send
    requests to 127.0.0.1; such a request carries the
    page's Origin, or (after DNS rebinding) a foreign Host. What a page only
    embeds has no Origin: browsers say in Sec-Fetch-* what it is for.
    """

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Return the handler of a request: the refusal if a page of another site made it."""
        if self.is_foreign(request.headers):
            return self.get_handler_delegate(request, _Refusal, {"is_foreign": True})
        return super().find_handler(request, **kwargs)

    def is_foreign(self, headers: HTTPHeaders) -> bool:
        """Say whether a page of another site made a browser send a request with these headers."""
        origin, host = headers.get("Origin"), headers.get("Host") or "127.0.0.1"  # HTTP/1.0, no browser
        foreign = origin is not None and _split(origin).netloc != host
        return foreign or _is_embedded(headers) or not is_loopback(_split(f"//{host}").hostname or "")


def _is_embedded(headers: HTTPHeaders) -> bool:
    """Say whether a page of another site requests an image, a script or a frame for itself."""
    site, *rest = [headers.get(f"Sec-Fetch-{name}") for name in ("Site", "Mode", "Dest")]
    return site in ("cross-site", "same-site") and rest != ["navigate", "document"]


def _split(url: str) -> SplitResult:
    """Return the parts of a URL, all empty for one that is invalid."""
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 else urlsplit("")
    except ValueError:  # its port is no number, for one
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
