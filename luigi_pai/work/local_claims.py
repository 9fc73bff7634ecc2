"""The claims of a user on this machine, for work without an output folder on HDFS.

They are in ``$XDG_STATE_HOME/luigi_pai/claims``. They decide between the processes of one user on one
machine, or on several machines if these share the folder. They do not prove a success.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import time
from typing import TYPE_CHECKING

from luigi_pai.private_folder import state_folder
from luigi_pai.work.local_claim_folder import LocalClaimFolder, only_remover, warn_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_HASH = 32  # characters of the name of a folder of claims
_UNTOUCHED = 90 * 24 * 3600  # age in seconds from which a folder of claims is removed
_TIDIED = 300  # folders of claims that a process looks at to remove the old ones

_roots: dict[tuple[str, str], Path | None] = {}  # by XDG_STATE_HOME and HOME; None: it cannot be used


def local_claims(
    cluster: str, user: str, place: str, retention: float, now: Callable[[], float] = time.time
) -> LocalClaimFolder | None:
    """Return the folder of the claims of some work; None, after one warning, if it cannot be used.

    Args:
        cluster: The URL of the rest-server.
        user: Who submits.
        place: The output folder of the work. If it has none, the name of the work.
        retention: Seconds without a new file of a submission after which its claim counts as absent.
        now: Returns seconds since 1970 UTC.
    """
    about = os.environ.get("XDG_STATE_HOME", ""), os.environ.get("HOME", "")
    if about not in _roots:
        _roots[about] = _root(max(_UNTOUCHED, retention), now)
    root = _roots[about]
    if root is None:
        return None
    key = json.dumps([cluster, user, place])
    return LocalClaimFolder(root / hashlib.sha256(key.encode()).hexdigest()[:_HASH], retention, now)


def _root(age: float, now: Callable[[], float]) -> Path | None:
    """Return the folder of all folders of claims, without those that are older than ``age`` seconds."""
    try:
        root = state_folder() / "claims"
        root.mkdir(mode=0o700, exist_ok=True)
        folders = [*root.iterdir()]
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        warn_once(error)
        return None
    oldest = now() - age
    for folder in random.sample(folders, min(len(folders), _TIDIED)):
        with contextlib.suppress(OSError):  # another process does the same, or there are new files
            if folder.lstat().st_mtime < oldest:
                _remove(folder, oldest)
    return root


def _remove(folder: Path, oldest: float) -> None:
    """Remove a folder of claims, unless somebody has just touched a file in it."""
    with only_remover(folder):
        for file in folder.iterdir():
            if file.lstat().st_mtime < oldest:
                file.unlink()
        folder.rmdir()
