"""URLs of a WebHDFS: of its NameNodes, as configured, and of its DataNodes, as sent."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

_DATANODES_BASE = "/webhdfs/v1"
_WHO_AND_WHERE = ("user.name", "delegation", "namenoderpcaddress")  # parameters
_NO_ESCAPE = "/%25zz"  # the name %zz, which cannot be decoded again

_PYLONS_SLIP = re.compile(r"((?:(?!/webhdfs/).)*/a/[^/:]+)/(\d+/webhdfs/v1.*)", re.DOTALL)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def api_base(url: str) -> str:
    """Return the base URL of requests to a WebHDFS, from its configured URL.

    That is ``http://HOST:PORT``, or with the path of a proxy, ``https://KNOX/gateway/default``; a path that
    ends in ``/v1``, as ``http://PYLON/webhdfs/api/v1``, is taken as it is.
    """
    url = url.strip().rstrip("/")
    return url if urlsplit(url).path.endswith("/v1") else f"{url}/webhdfs/v1"


def datanode_address(location: str, path: str, rule: str | None) -> str:
    """Return the URL on a DataNode of a request that a NameNode redirected.

    Args:
        location: from the NameNode, or from a proxy before it. The Pylon of OpenPAI 0.7.1 redirects to
            ``/a/HOST/PORT/...`` and serves ``/a/HOST:PORT/...`` (``nginx.conf.template``; 0.7.2 is right).
        path: replaces the one in ``location``, in which Hadoop composes characters
            (``java.net.URI.toASCIIString``), so that it may name another file.
        rule: replaces scheme, host and port; ``{host}`` and ``{port}`` in it stand for those of
            ``location``. None: they stay.
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
    """Return the URL of a file ``%zz``: the reply is not found or, if decoded twice, illegal argument."""
    parts = urlsplit(address)
    proxy, base, _path = parts.path.partition(_DATANODES_BASE)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name in _WHO_AND_WHERE]
    query = urlencode([("op", "OPEN"), *kept])
    return urlunsplit(parts._replace(path=proxy + base + _NO_ESCAPE, query=query))
