"""A storage in a folder of this machine."""

from __future__ import annotations

import pytest

from luigi_pai.files import Storage


@pytest.fixture
def root(tmp_path):
    """The folder of the storage."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def storage(root):
    """The storage ``nfs1``."""
    return Storage("nfs1", str(root))


@pytest.fixture
def volume(storage):
    """Its volume."""
    return storage.at("/")[0]
