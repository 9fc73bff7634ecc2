"""The proxies and the CA bundle that environment variables set; the proxies are cached by host."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from requests.utils import get_environ_proxies, select_proxy
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from luigi_pai.errors import ConfigError, MissingPackage

if TYPE_CHECKING:
    from collections.abc import Mapping

THROUGH = " through the proxy of {} in the environment"
CORRECT_PROXY = "correct {} (http://USER:PASSWORD@HOST:PORT), or name the host in no_proxy"
"""The parts of error messages about a proxy, with a placeholder for its variable."""

_CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_SOCKS = ("socks4", "socks4a", "socks5", "socks5h")


class Environment:
    """The proxy and CA settings in the process environment.

    By default, ``requests`` reads the environment for each HTTP request, which takes most of the request's
    CPU time. This class reads the CA bundle once, and the proxies at the first request to a host. A
    ``.netrc`` is not read.

    Args:
        verify: The account's setting: True, False, or a file of CA certificates.

    Attributes:
        verify: The value for ``requests``; a CA bundle named in the environment replaces True.
        verify_source: The setting or variable that names the CA bundle; None if there is no bundle.
    """

    def __init__(self, *, verify: bool | str) -> None:
        self.verify = verify
        self.verify_source = "verify" if isinstance(verify, str) else None
        if verify is True:
            for name in _CA_VARIABLES:
                if os.environ.get(name):
                    self.verify, self.verify_source = os.environ[name], name
                    break
        self._proxies: dict[str, dict[str, str]] = {}

    def proxies(self, url: str) -> Mapping[str, str]:
        """Return the proxies for a URL's host, as ``requests`` expects them; empty if there are none.

        Raises:
            ConfigError: The proxy's URL is not valid, or PySocks is missing for a SOCKS proxy. The error
                names the variable but not the URL, which may contain a password.
            ValueError: ``url`` is not valid.
        """
        parts = urlsplit(url)
        host = f"{parts.scheme}://{parts.netloc}"
        if host not in self._proxies:
            found = get_environ_proxies(host)
            proxy = select_proxy(host, found)
            if proxy and not _is_valid(proxy):  # refused: errors of libraries would contain its password
                raise ConfigError(
                    f"{_variable(proxy, parts.scheme)} in the environment is not a valid proxy URL; write "
                    "http://HOST:PORT or http://USER:PASSWORD@HOST:PORT"
                )
            if proxy and urlsplit(proxy).scheme in _SOCKS and importlib.util.find_spec("socks") is None:
                raise MissingPackage(
                    f"{_variable(proxy, parts.scheme)} in the environment is a SOCKS proxy, for which "
                    "PySocks is missing: pip install 'requests[socks]', or name the host in no_proxy"
                )
            self._proxies[host] = found
        return self._proxies[host]

    def proxy_variable(self, url: str) -> str | None:
        """Return the environment variable that sets the proxy for a URL; None if there is no proxy."""
        try:
            proxy = select_proxy(url, self.proxies(url))
        except ValueError:
            return None
        return _variable(proxy, urlsplit(url).scheme) if proxy else None


def _variable(proxy: str, scheme: str) -> str:
    """Return the name of the variable that sets a proxy, in upper or lower case as in the environment."""
    known = (f"{scheme}_proxy", "all_proxy")
    names = (name for name in os.environ if name.lower() in known and os.environ[name] == proxy)
    return next(names, known[0])


def _is_valid(proxy: str) -> bool:
    try:
        parts = parse_url(proxy)
    except LocationParseError:
        return False
    return bool(parts.host) and (parts.scheme or "http") in ("http", "https", *_SOCKS)
