"""Proxies and CA bundle of the process environment, checked and cached by host."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from requests.utils import get_environ_proxies, select_proxy
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXY_SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")
_FORM = (
    "write http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with /, ? and # in user or password as %2F, "
    "%3F and %23, and in Latin-1"
)


@dataclass(frozen=True)
class Route:
    """The route to a host.

    Attributes:
        proxies: as requests takes them; empty for a direct connection.
        variable: the environment variable of the proxy; None without a proxy.
    """

    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    variable: str | None = None


class Environment:
    """The proxy and CA settings of the process environment.

    requests reads them for each request, which takes most of a request's CPU time. Here they are read
    at the first request to a host. A ``.netrc`` is not read.

    Args:
        verify: of the account: True, False, or a file of CA certificates.

    Attributes:
        verify: as requests takes it; a CA bundle of the environment replaces True.
        verify_source: the setting of the CA bundle; None without one.
    """

    def __init__(self, *, verify: bool | str) -> None:
        self.verify = verify
        self.verify_source = "verify" if isinstance(verify, str) else None
        if verify is True:
            for name in _CA_VARIABLES:
                if os.environ.get(name):
                    self.verify, self.verify_source = os.environ[name], name
                    break
        self._routes: dict[str, Route] = {}

    def ca_bundle_problem(self) -> str:
        """Return the error text for a CA bundle that cannot be read."""
        problem = "is not a readable file of CA certificates (PEM)"
        if self.verify_source == "verify":
            return (
                f"verify = {self.verify!r} in [OpenPai] of luigi.cfg {problem}; "
                "write true, false or a file of CA certificates"
            )
        return (
            f"{self.verify_source} = {self.verify!r} in the environment {problem}; "
            "correct or unset it, or set verify in [OpenPai] of luigi.cfg"
        )

    def route(self, url: str) -> Route:
        """Return the route to the host of a URL.

        Raises:
            ConfigError: the URL of the proxy is not valid; names the variable, not its value.
            ValueError: the URL itself is not valid.
        """
        parts = urlsplit(url)
        host = f"{parts.scheme}://{parts.netloc}"
        known = self._routes.get(host)
        if known is None:
            known = self._routes[host] = _route(host)
        return known


def _route(host: str) -> Route:
    proxies = get_environ_proxies(host)
    proxy = select_proxy(host, proxies)
    if not proxy:
        return Route()
    variable = _variable(proxy, proxies, urlsplit(host).scheme)
    problem = _problem(proxy)
    if problem:
        raise ConfigError(f"{variable} in the environment {problem}")
    return Route(proxies, variable)


def _variable(proxy: str, proxies: Mapping[str, str], scheme: str) -> str:
    """Return the name of the environment variable of a proxy, in its own case."""
    key = scheme if proxies.get(scheme) == proxy else "all"
    wanted = f"{key}_proxy"
    spelled = [name for name in os.environ if name.lower() == wanted and os.environ[name] == proxy]
    return wanted if wanted in spelled or not spelled else spelled[0]


def _problem(proxy: str) -> str | None:
    """Return the problem of a proxy's URL without any part of the URL: it may contain a password."""
    url = proxy if "://" in proxy else f"http://{proxy}"  # as requests reads it
    scheme, _, rest = url.partition("://")
    try:
        parts = parse_url(url)
        unquote(parts.auth or "").encode("latin-1")  # as the header that carries it
    except (LocationParseError, ValueError):  # ValueError also for the encoding
        parts = None
    is_ambiguous = re.search("[/?#].*@", rest)
    if parts is None or not parts.host or is_ambiguous or scheme.lower() not in _PROXY_SCHEMES:
        return f"is not a valid proxy URL; {_FORM}"
    if scheme.lower().startswith("socks") and find_spec("socks") is None:
        return "names a SOCKS proxy; install the package for it: pip install 'requests[socks]'"
    return None
