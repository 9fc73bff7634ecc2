"""Tests of what goes over the wire run on HDFS alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hdfs_backend import EACH_HDFS, LOCAL, real_backend

if TYPE_CHECKING:
    from hdfs_backend import Backend


@pytest.fixture(params=EACH_HDFS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """The local WebHDFS and each real HDFS in turn."""
    if request.param == LOCAL:
        found: Backend = request.getfixturevalue("local_backend")
        return found
    return real_backend(request.param)
