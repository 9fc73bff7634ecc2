"""A storage in a folder of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from luigi_pai.files import Storage

if TYPE_CHECKING:
    from pathlib import Path

    from luigi_pai.files.storage.volume import MountedVolume


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the storage."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def storage(root: Path) -> Storage:
    """The storage ``nfs1``."""
    return Storage("nfs1", str(root))


@pytest.fixture
def volume(storage: Storage) -> MountedVolume:
    """Its volume."""
    return storage.at("/")[0]
