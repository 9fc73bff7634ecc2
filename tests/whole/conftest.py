"""The local OpenPAIs that whole pipelines run on."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.local import LocalPai

_serial = itertools.count()


@pytest.fixture(params=["v1", "v2", "ltp"])
def any_cluster(request: pytest.FixtureRequest, as_settings: Callable[[LocalPai], None]) -> LocalPai:
    """The session's local OpenPAI 0.7.1, 1.8 or LTP, with HDFS, as [OpenPai] of luigi.cfg."""
    server: LocalPai = request.getfixturevalue(f"local_pai_{request.param}")
    as_settings(server)
    return server


@pytest.fixture
def name() -> str:
    """A job name that no other test has."""
    return f"e2e-{time.time_ns():x}-{next(_serial)}"
