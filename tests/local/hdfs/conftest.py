"""A WebHDFS for the tests of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from webhdfs_server import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that is HDFS."""
    return tmp_path_factory.mktemp("hdfs") / "root"


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    """A WebHDFS over it."""
    with serving(root) as address:
        yield address
