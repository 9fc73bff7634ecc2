"""A test session's servers: one local OpenPAI for each API."""

from __future__ import annotations

import contextlib
from http.client import HTTPException
from typing import TYPE_CHECKING

from luigi_pai.api.registry import CLUSTERS, reset_clusters
from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai
from luigi_pai.local.config.settings import DEFAULT_API
from luigi_pai.testing.configuration import luigi_configured
from luigi_pai.testing.pai import MovedClock, Pai

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

_POLLING = {"poll_min": "0.02", "poll_max": "0.2", "poll_patience": "10"}
"""Settings for polling, in seconds. They are short, because test jobs are short."""


class Servers:
    """A test session's servers."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._local: dict[tuple[str, bool], LocalPai] = {}

    @property
    def url(self) -> str:
        """URL of the server for tests without a marker."""
        return self._server(DEFAULT_API).url

    @contextlib.contextmanager
    def use(self, api: str = DEFAULT_API, *, hdfs: bool = False) -> Iterator[Pai]:
        """Yield an empty OpenPAI for one test. Running jobs end with the test.

        ``hdfs`` adds an HDFS to a release that does not include one.
        """
        server = self._server(api, hdfs=hdfs)
        _empty(server)  # a fixture or a test that has only its URL may have used it
        section = {**server.luigi_section, **_POLLING}
        clock, earlier = MovedClock(), CLUSTERS.clock
        reset_clusters()
        CLUSTERS.clock = clock
        try:
            with luigi_configured(section, self._folders.mktemp("luigi_pai")):
                yield Pai(server, clock)
        finally:
            reset_clusters()
            CLUSTERS.clock = earlier
            _empty(server)

    def close(self) -> None:
        """Stop the servers."""
        for server in self._local.values():
            server.close()

    def _server(self, api: str, *, hdfs: bool = False) -> LocalPai:
        if (api, hdfs) not in self._local:
            self._local[api, hdfs] = LocalPai(api=api, hdfs=True if hdfs else None).start()
        return self._local[api, hdfs]


def _empty(server: LocalPai) -> None:
    """Empty a server, restarting it first if the test stopped or killed it."""
    try:
        server.empty()
    except (ConfigError, OSError, HTTPException):
        server.restart()
        server.empty()
