"""URLs of WebHDFS: of NameNodes, from the configuration, and of DataNodes, from redirects."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

_DATANODES_BASE = "/webhdfs/v1"
_WHO_AND_WHERE = ("user.name", "delegation", "namenoderpcaddress")  # parameters
_NO_ESCAPE = "/%25zz"  # the name %zz, escaped once; a server that decodes it twice refuses it

_PYLONS_SLIP = re.compile(r"((?:(?!/webhdfs/).)*/a/[^/:]+)/(\d+/webhdfs/v1.*)", re.DOTALL)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def api_base(url: str) -> str:
    """Return the base URL of requests to a WebHDFS, from its configured URL.

    The configured URL is ``http://HOST:PORT``, or a proxy's, such as ``https://KNOX/gateway/default``.
    ``/webhdfs/v1`` is added if the path does not end in ``/v1`` (as ``http://PYLON/webhdfs/api/v1`` does).
    """
    url = url.strip().rstrip("/")
    return url if urlsplit(url).path.endswith("/v1") else f"{url}/webhdfs/v1"


def datanode_address(location: str, path: str, rule: str | None) -> str:
    """Return the DataNode URL for a request that a NameNode redirected.

    Args:
        location: URL of the redirect, from the NameNode or its proxy. Pylon, the proxy of OpenPAI 0.7.1,
            redirects to ``/a/HOST/PORT/...`` but serves only ``/a/HOST:PORT/...``, which is used instead.
            (The wrong redirect is in Pylon's ``nginx.conf.template``. OpenPAI 0.7.2 has the right one.)
        path: the HDFS path of the request. It replaces the HDFS path in ``location``, which may be another
            file's, because Hadoop normalises its Unicode characters (``java.net.URI.toASCIIString``).
        rule: replaces scheme, host and port; ``{host}`` and ``{port}`` in it are replaced by the host and
            port of ``location``. If None, scheme, host and port do not change.
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
    """Return the URL of a missing file ``%zz``. Its error shows whether a server decodes paths twice."""
    parts = urlsplit(address)
    proxy, base, _path = parts.path.partition(_DATANODES_BASE)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name in _WHO_AND_WHERE]
    query = urlencode([("op", "OPEN"), *kept])
    return urlunsplit(parts._replace(path=proxy + base + _NO_ESCAPE, query=query))
