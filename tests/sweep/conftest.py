"""HDFS for the tests of sweeps."""

from __future__ import annotations

import pytest
from webhdfs_server import serving


@pytest.fixture
def hdfs(tmp_path, settings):
    """The folder that is HDFS, configured in [OpenPai]."""
    root = tmp_path / "hdfs"
    with serving(root) as url:
        settings(webhdfs_url=url, fs_uri=url.replace("http", "hdfs"), username="admin")
        yield root
