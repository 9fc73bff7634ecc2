"""The servers of a test session: one local OpenPAI for each choice of APIs, or a real cluster."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from luigi_pai.api.registry import CLUSTERS, reset_clusters
from luigi_pai.local import LocalPai
from luigi_pai.testing.configuration import luigi_configured, open_pai_settings
from luigi_pai.testing.pai import MovedClock, Pai

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Servers"]

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
        self._used: set[str] = set()

    @property
    def url(self) -> str:
        """Of the one that speaks both APIs, or of the cluster."""
        self._used.add("both")  # by whoever asks
        return self._url or self._server("both").url

    @contextlib.contextmanager
    def use(self, api: str) -> Iterator[Pai]:
        """Lend an OpenPAI to one test, empty if it is on this machine.

        Args:
            api: ``v1``, ``v2`` or ``both``.
        """
        server = None if self._url else self._server(api)
        if server is not None and api in self._used:
            server.empty()
        self._used.add(api)
        section = self._section(server)
        clock, earlier = MovedClock(), CLUSTERS.clock
        reset_clusters()
        CLUSTERS.clock = clock
        try:
            with luigi_configured(section, self._folders.mktemp("luigi_pai")):
                pai = Pai(section["pai_url"], section.get("username", ""), server, clock)
                self._check(pai, api)
                yield pai
        finally:
            reset_clusters()
            CLUSTERS.clock = earlier

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

    def _section(self, server: LocalPai | None) -> Mapping[str, str]:
        if server is not None:
            return {**server.luigi_section, **_POLLING}
        return {"username": "admin", **open_pai_settings(), "pai_url": str(self._url)}

    @staticmethod
    def _check(pai: Pai, api: str) -> None:
        """Skip a test that is for another API than that of the cluster."""
        if pai.server is None and api != "both":
            speaks = pai.cluster.dialect.version  # known since its jobs were listed
            if speaks != api:
                pytest.skip(f"this test is for {api}, and {pai.url} speaks {speaks}")
