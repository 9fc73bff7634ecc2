"""Sends requests to the NameNodes and DataNodes of an HDFS, and builds their URLs."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit, urlunsplit

import requests

from luigi_pai.api.wire.faults import NoResponse
from luigi_pai.api.wire.http import HttpClient
from luigi_pai.api.wire.repeats import SAFE, UNSENT, Tries
from luigi_pai.errors import MissingPackage
from luigi_pai.files.errors import ELSEWHERE, HdfsError, HdfsUnreachable, failed, refused, unanswered
from luigi_pai.files.hdfs.responses import Result, parse_response
from luigi_pai.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Iterable

_DATANODES_BASE = "/webhdfs/v1"
_WHO_AND_WHERE = ("user.name", "delegation", "namenoderpcaddress")  # parameters
_NO_ESCAPE = "/%25zz"  # the name %zz, escaped once; a server that decodes it twice rejects it
_PYLONS_SLIP = re.compile(r"((?:(?!/webhdfs/).)*/a/[^/:]+)/(\d+/webhdfs/v1.*)", re.DOTALL)
_DEFAULT_PORTS = {"http": 80, "https": 443}
logger = logging.getLogger("luigi-interface")
_CONNECTIONS = 64  # maximum number of open connections to one server; each thread of an upload uses one
# Operations that can be repeated. CREATE is safe because the NameNode only returns the URL for the data.
_IDEMPOTENT = ("CREATE", "DELETE", "MKDIRS", "SETOWNER", "SETPERMISSION")
# exception in a DataNode's response to ``probe_of_decoding`` -> whether it decodes paths twice
_OF_THE_PROBE = {"FileNotFoundException": False, "IllegalArgumentException": True}


def api_base(url: str) -> str:
    """Return the base URL for WebHDFS requests, given the configured URL.

    The configured URL is ``http://HOST:PORT``, or a proxy's, such as ``https://KNOX/gateway/default``.
    ``/webhdfs/v1`` is added if the path does not end in ``/v1`` (as ``http://PYLON/webhdfs/api/v1`` does).
    """
    url = url.strip().rstrip("/")
    return url if urlsplit(url).path.endswith("/v1") else f"{url}/webhdfs/v1"


def datanode_address(location: str, path: str, rule: str | None) -> str:
    """Return the DataNode URL for a request that a NameNode redirected.

    Args:
        location: The URL of the redirect, from the NameNode or its proxy. Pylon, the proxy of OpenPAI 0.7.1,
            redirects to ``/a/HOST/PORT/...`` but serves only ``/a/HOST:PORT/...``, which is used instead.
            (The incorrect redirect is in Pylon's ``nginx.conf.template``. It is fixed in OpenPAI 0.7.2.)
        path: The request's HDFS path. It replaces the HDFS path in ``location``, which may point to another
            file because Hadoop normalises its Unicode characters (``java.net.URI.toASCIIString``).
        rule: The replacement for scheme, host and port. In it, ``{host}`` and ``{port}`` stand for the
            host and port of ``location``. If None, scheme, host and port do not change.
    """
    parts = urlsplit(location)
    slip = _PYLONS_SLIP.fullmatch(parts.path)
    proxy, base, sent = (f"{slip[1]}:{slip[2]}" if slip else parts.path).partition(_DATANODES_BASE)
    place = proxy + base + (quote(path) if base else sent)
    if rule is None:
        return urlunsplit(parts._replace(path=place))
    host = parts.hostname or ""
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 80)
    start = rule.format(host=f"[{host}]" if ":" in host else host, port=port)
    return f"{start.rstrip('/')}{place}" + (f"?{parts.query}" if parts.query else "")


def probe_of_decoding(address: str) -> str:
    """Return a URL for a file named ``%zz``, which does not exist.

    The server's error for it shows whether the server decodes paths twice.
    """
    parts = urlsplit(address)
    proxy, base, _path = parts.path.partition(_DATANODES_BASE)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name in _WHO_AND_WHERE]
    query = urlencode([("op", "OPEN"), *kept])
    return urlunsplit(parts._replace(path=proxy + base + _NO_ESCAPE, query=query))


@dataclass(frozen=True)
class Account:
    """NameNodes, user, timeouts and the other arguments of ``WebHdfs``.

    Attributes:
        bases: The WebHDFS URL of each NameNode, ``http://HOST:PORT/webhdfs/v1``; only one NameNode is active.
        section: The section of luigi.cfg that error messages name.
    """

    bases: tuple[str, ...]
    user: str
    auth: str = "simple"
    redirect: str | None = None
    verify: bool | str = True
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    section: str = "OpenPai"


class Transport:
    """Sends requests to one HDFS as one user.

    Rejected requests and missing responses raise HdfsError. Requests that can be repeated are retried after
    transient errors. Other requests are retried only if they did not reach the server. A request with file
    data is never retried.

    If there are several NameNodes, the one that last responded is tried first. The next NameNode is tried if
    a NameNode is on standby, if the request did not reach it, or if it does not respond to a read-only
    request. If a request that changes something reached a NameNode and gets no response, HdfsError is raised
    immediately, because the request may have been executed.

    Attributes:
        account: The account that was passed to the constructor.
    """

    def __init__(self, account: Account) -> None:
        self.account = account
        self._http = HttpClient(verify=account.verify, connections=_CONNECTIONS)
        self._login = _kerberos() if account.auth == "kerberos" else None
        self._active = account.bases[0]
        self._alone = len(account.bases) == 1
        self._user = account.user if account.auth == "simple" else None
        self._twice: bool | None = None  # whether DataNodes decode paths twice

    @property
    def server(self) -> str:
        """The host and port of the NameNode that last responded."""
        return urlsplit(self._active).netloc

    def failed(self, operation: str, path: str, reason: str, **about: Any) -> HdfsError:
        """Return the HdfsError for a failed operation; see ``errors.failed``."""
        return failed(operation, path, self.server, reason, **about).in_section(self.account.section)

    def close(self) -> None:
        """Close all open connections. The next request opens a new one."""
        self._http.close()

    def ask(self, method: str, path: str, operation: str, **params: str | int | None) -> Result:
        """Send a request to the active NameNode and, if redirected, to the DataNode; omit None parameters."""
        stream = operation == "OPEN"
        query = {**params, "op": operation, "user.name": self._user}
        about = {"params": query, "stream": stream, "follow": False}
        result = self._ask_namenodes(method, path, operation, about)
        if result.leads_to is None:
            return result
        result.response.close()
        address = self.datanode(result.response, result.leads_to, path, operation)
        return self._retried(method, address, path, operation, stream=stream)

    def send_file(
        self, method: str, path: str, operation: str, data: bytes | Iterable[bytes], **params: str
    ) -> None:
        """Send the data of CREATE or APPEND to the DataNode chosen by the NameNode, without retries."""
        result = self.ask(method, path, operation, **params)
        address = self.datanode(result.response, result.value, path, operation)
        self.send_once(method, address, path, operation, data=data).close()

    def datanode(self, response: requests.Response, location: str, path: str, operation: str) -> str:
        """Return a redirect's DataNode URL; raise HdfsError if its location is not a valid URL."""
        rule = self.account.redirect
        try:
            location = urljoin(response.url, location)
            address = datanode_address(location, path, rule)
        except ValueError:
            address = ""
        if not address:
            reason = f"the server redirected to {redact(location)[:200]!r}, which is not a valid URL"
            raise self.failed(operation, path, reason, next_step="check webhdfs_url in [OpenPai]")
        if "%" in path and self._datanodes_decode_twice(address, path):
            return datanode_address(location, quote(path), rule)
        return address

    def _datanodes_decode_twice(self, address: str, path: str) -> bool:
        if self._twice is None:
            try:
                self._retried("GET", probe_of_decoding(address), path, "OPEN", stream=True).response.close()
            except HdfsError as error:
                if error.exception not in _OF_THE_PROBE:
                    raise
                self._twice = _OF_THE_PROBE[error.exception]
        return bool(self._twice)

    def _ask_namenodes(self, method: str, path: str, operation: str, about: dict[str, Any]) -> Result:
        passed: list[HdfsError] = []
        bases = self.account.bases
        first = bases.index(self._active)
        for base in bases[first:] + bases[:first]:
            try:
                result = self._retried(method, base + quote(path), path, operation, **about)
            except HdfsError as error:
                if not _may_be_done_elsewhere(method, error):
                    raise
                passed.append(error)
            else:
                self._active = base
                return result
        if len(passed) == 1:
            raise passed[0]
        reasons = "; ".join(f"{error.server}: {error.reason}" for error in passed)
        step = "check webhdfs_url in [OpenPai], and that a NameNode is active"
        reason = f"no NameNode is active ({reasons})"
        inactive = self.failed(operation, path, reason, next_step=step, kind=HdfsUnreachable)
        inactive.transient = all(error.transient for error in passed)
        raise inactive

    def _retried(self, method: str, url: str, path: str, operation: str, **about: Any) -> Result:
        """Send a request, with at most two retries after transient errors.

        If the request certainly did not reach the server, it is retried, but only after the first such
        error. After other errors, it is retried if it only reads or, with a single NameNode, if its
        operation is in ``_IDEMPOTENT``. An error response is never retried here, because transient ones last
        longer than these retries.
        """
        is_safe = method == "GET" or (self._alone and operation in _IDEMPOTENT)
        maybe_done = False

        def ask() -> Result:
            result = parse_response(operation, path, self.send_once(method, url, path, operation, **about))
            # if a repeated DELETE finds nothing, an earlier try was executed
            return replace(result, value=True) if maybe_done and operation == "DELETE" else result

        def log(failure: HdfsError, pause: float) -> None:
            nonlocal maybe_done
            maybe_done |= not failure.unsent
            logger.info("%s; retried in %g s: %s %s", failure, pause, method, redact(url))

        try:
            return Tries(SAFE if is_safe else UNSENT, log=log).call(ask)
        except HdfsError as error:
            failure = error.in_section(self.account.section)
        raise failure

    def send_once(self, method: str, url: str, path: str, operation: str, **about: Any) -> requests.Response:
        """Send a request once; raise HdfsError if it fails, or ConfigError for an invalid proxy setting."""
        headers = {
            "Content-Type": "application/octet-stream",  # HttpFS requires it
            "Accept-Encoding": "identity",  # the received bytes are counted
        }
        account = self.account
        namenodes = [urlsplit(base).netloc for base in account.bases]
        failure: HdfsError
        try:
            response = self._http.send(
                method,
                url,
                timeouts=(account.connect_timeout, account.read_timeout),
                headers=headers,
                auth=self._login if urlsplit(url).netloc in namenodes else lambda request: request,
                **about,
            )
            if response.ok:
                return response
            failure = refused(operation, path, response)
        except NoResponse as no:
            failure = unanswered(operation, path, no, namenodes)
        # outside the except block, to keep ``no``, whose URL has a delegation token, out of tracebacks
        raise failure.in_section(account.section)


def _may_be_done_elsewhere(method: str, error: HdfsError) -> bool:
    """Return whether to send the request to another NameNode after this error."""
    if error.exception:
        return error.exception in ELSEWHERE
    return isinstance(error, HdfsUnreachable) and (method == "GET" or error.unsent)


def _kerberos() -> Any:
    """Return the ``hdfs`` library's Kerberos login (Negotiate), which uses the ticket from ``kinit``."""
    try:
        from hdfs.ext.kerberos import KerberosClient  # noqa: PLC0415  an extra
    except ImportError as error:
        raise MissingPackage(
            "hdfs_auth = kerberos in [OpenPai] needs requests-kerberos: pip install requests-kerberos"
        ) from error
    session = requests.Session()
    KerberosClient("namenode:", session=session)
    return session.auth
