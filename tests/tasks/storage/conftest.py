"""Counts what is done on a mount."""

from __future__ import annotations

from collections import Counter

import pytest

from luigi_pai.files.storage.volume import MountedVolume


@pytest.fixture
def used(monkeypatch):
    """How often each operation was done on the mount."""
    used, do = Counter(), MountedVolume._do

    def note(self, operation, path, work):
        used[operation] += 1
        return do(self, operation, path, work)

    monkeypatch.setattr(MountedVolume, "_do", note)
    return used
