"""The servers of a test session: one local OpenPAI of each API, or a real cluster."""

from __future__ import annotations

import contextlib
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import pytest

from luigi_pai.api.registry import CLUSTERS, reset_clusters
from luigi_pai.errors import ConfigError, PaiError
from luigi_pai.local import LocalPai
from luigi_pai.local.config.settings import DEFAULT_API
from luigi_pai.testing.configuration import luigi_configured, open_pai_settings
from luigi_pai.testing.pai import MovedClock, Pai

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_POLLING = {"poll_min": "0.02", "poll_max": "0.2", "poll_patience": "10"}
"""Seconds; jobs of tests are short."""


class Servers:
    """The servers of a test session.

    Args:
        url: of a real cluster; None for servers on this machine.
        folders: gives temporary folders.
    """

    def __init__(self, url: str | None, folders: pytest.TempPathFactory) -> None:
        self._url = url
        self._folders = folders
        self._local: dict[str, LocalPai] = {}
        self._is_lent = False  # the URL was given out: tests may use the server without ``use``
        self._failure: str | None = None  # why the cluster cannot be used
        self._has_answered = False

    @property
    def url(self) -> str:
        """URL of the server for tests without a marker."""
        self._is_lent = True
        return self._url or self._server(DEFAULT_API).url

    @contextlib.contextmanager
    def use(self, api: str | None) -> Iterator[Pai]:
        """Lend an OpenPAI to one test, empty if it is on this machine; running jobs end with the test.

        Args:
            api: ``v1``, ``v2`` or ``ltp``; None for the default, or for the API of the cluster.
        """
        server = None if self._url else self._server(api or DEFAULT_API)
        if server is not None and server is self._local.get(DEFAULT_API) and self._is_lent:
            _empty(server)
        section = self._section(server)
        clock, earlier = MovedClock(), CLUSTERS.clock
        reset_clusters()
        CLUSTERS.clock = clock
        try:
            with luigi_configured(section, self._folders.mktemp("luigi_pai")):
                yield self._pai(section, server, clock, api)
        finally:
            reset_clusters()
            CLUSTERS.clock = earlier
            if server is not None:
                _empty(server)

    def close(self) -> None:
        """Stop the servers of this machine."""
        for server in self._local.values():
            server.close()

    def _server(self, api: str) -> LocalPai:
        if api not in self._local:
            server = LocalPai(api=api)
            server.start()
            self._local[api] = server
        return self._local[api]

    def _section(self, server: LocalPai | None) -> Mapping[str, Any]:
        if server is not None:
            return {**server.luigi_section, **_POLLING}
        return {"username": "admin", **open_pai_settings(), "pai_url": str(self._url)}

    def _pai(
        self, section: Mapping[str, Any], server: LocalPai | None, clock: MovedClock, api: str | None
    ) -> Pai:
        """Return the Pai of a test; a cluster that has never answered is asked once."""
        if self._failure is not None:
            pytest.fail(self._failure, pytrace=False)
        try:
            pai = Pai(section["pai_url"], section.get("username", ""), server, clock)
            _check(pai, api)
        except PaiError as error:
            failure = f"--pai-url: {error}"
            self._failure = None if self._has_answered else failure
            pytest.fail(failure, pytrace=False)
        self._has_answered = True
        return pai


def _check(pai: Pai, api: str | None) -> None:
    """Skip a test for another API than that of the cluster; LTP has the API of 1.8."""
    if pai.server is None and api is not None:
        speaks = pai.cluster.book.api.dialect.version  # known since its jobs were listed
        if speaks != ("v1" if api == "v1" else "v2"):
            pytest.skip(f"this test is for {api}, and {pai.url} speaks {speaks}")


def _empty(server: LocalPai) -> None:
    """Empty a server; one that the test has stopped or killed is restarted."""
    try:
        server.empty()
    except (ConfigError, OSError, HTTPException):
        server.restart()
        server.empty()
