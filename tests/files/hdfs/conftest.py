"""Tests of requests run only on HDFS."""

from __future__ import annotations

import pytest
from hdfs_backend import EACH_HDFS, LOCAL, real_backend


@pytest.fixture(params=EACH_HDFS)
def backend(request):
    """The local WebHDFS and each real HDFS in turn."""
    if request.param == LOCAL:
        return request.getfixturevalue("local_backend")
    return real_backend(request.param)
