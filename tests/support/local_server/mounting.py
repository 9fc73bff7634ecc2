"""Whether this machine lets its user mount folders in a namespace; tests of both kinds of machines ask it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from luigi_pai.local.container.storages import can_mount


def _can_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as work:
        return can_mount({"/mnt/nfs1": Path(folder)}, Path(work))


MOUNTS = _can_mount()
"""Whether tasks have their storages at absolute paths. If not, the tests see how tasks do without."""

ROOT = "" if MOUNTS else "${LUIGI_PAI_MOUNTS:-}"
"""What a command writes before a mount path."""
