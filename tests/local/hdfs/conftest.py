"""A WebHDFS for the tests of a module."""

from __future__ import annotations

import pytest
from webhdfs_server import serving


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The folder that is HDFS."""
    return tmp_path_factory.mktemp("hdfs") / "root"


@pytest.fixture(scope="module")
def url(root):
    """A WebHDFS over it."""
    with serving(root) as address:
        yield address
