"""This user's folder for locks on this machine; the module needs only the standard library."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def private_folder() -> Path:
    """Return the folder ``luigi-pai-UID`` in the temporary folder; make it if it does not exist.

    Every user may write to the temporary folder, so ``luigi-pai-UID`` is checked. It must be a folder
    (not a link) that belongs to this user, and no other user may have any access to it.

    Raises:
        PermissionError: the folder fails one of these checks.
        OSError: the folder cannot be made.
    """
    folder = Path(tempfile.gettempdir(), f"luigi-pai-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise PermissionError(f"{folder} is not a folder")
    if about.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    if about.st_mode & 0o077:
        raise PermissionError(f"{folder} is open to other users")
    return folder
