"""Names temporary files on the cluster and on this machine, and removes abandoned ones.

On the cluster, incomplete files are in a hidden folder next to their destination,
``.luigi-pai-tmp-USER``, which is removed when it is empty. The files' names, ``HOST-PID-UNIQUE.NAME``,
identify the process that writes them. HOST identifies one boot of a machine, or one start of a container on
it. On this machine, incomplete files are next to their destination, as
``.luigi-pai-tmp-HOST-PID-UNIQUE.NAME``.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import math
import os
import platform
import posixpath
import re
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.files.errors import HdfsError
from luigi_pai.outgoing.folder import OURS

if TYPE_CHECKING:
    from luigi_pai.files.volume import FileStatus, Volume

logger = logging.getLogger("luigi-interface")

_FOLDER = f"{OURS}tmp-"
_NAME = re.compile(r"([0-9a-f]{12})-([0-9]{1,9})-[0-9a-f]{12}(?:\..*)?", re.DOTALL)
_ABANDONED = 2 * 24 * 3600  # seconds unchanged until another machine's file counts as abandoned
_LONGEST_STEM = 50  # how many characters of a file's name its temporary name may contain


def is_temporary(name: str) -> bool:
    """Return whether a name belongs to a folder for temporary files or to a local temporary file."""
    return name.startswith(_FOLDER)


def temporary_path(path: str, user: str) -> str:
    """Return a new temporary path next to a path, which may be a URI. No file is created."""
    folder, name = posixpath.split(path.rstrip("/"))
    hidden = _FOLDER + re.sub(r"[^\w.-]", "_", user)
    return f"{folder.rstrip('/')}/{hidden}/{unique()}.{name[-_LONGEST_STEM:]}"


def discard(volume: Volume, path: str) -> None:
    """Remove the file or folder at a temporary path, and tidy its folder. Raises no errors."""
    with contextlib.suppress(HdfsError):
        volume.remove(path, recursive=True)
    tidy(volume, posixpath.dirname(path))


def tidy(volume: Volume, folder: str) -> None:
    """Remove a folder for temporary files if it is empty, else the abandoned files in it.

    This user's file is abandoned if its process ran on this machine and is no longer running, or if another
    machine wrote it and it has not changed for two days. Removals and errors are logged; errors are not
    raised.
    """
    if not is_temporary(posixpath.basename(folder)):
        return
    try:
        try:
            volume.remove(folder, recursive=False)
        except HdfsError as error:
            if error.exception is None:
                raise
            found = volume.list_folder(folder)
            if not [status for status in found if not remove_abandoned(volume, folder, status)]:
                volume.remove(folder, recursive=False)
    except HdfsError as error:
        logger.info("Temporary files may be left behind in %s: %s", folder, error)


def remove_abandoned(
    volume: Volume, folder: str, status: FileStatus, age: float = math.inf, prefix: str = ""
) -> bool:
    """Remove this user's temporary file if it is abandoned; return whether it was.

    Args:
        volume: The file system.
        folder: The file's folder.
        status: The file's FileStatus.
        age: The file is abandoned after this many seconds without a change, whichever process wrote it.
        prefix: The part of the file's name before ``unique()``.
    """
    name, changed = status["pathSuffix"], status["modificationTime"] / 1000
    is_old = changed < time.time() - age or is_abandoned(name.removeprefix(prefix), changed)
    if status["owner"] != volume.owner or not is_old:
        return False
    volume.remove(f"{folder}/{name}", recursive=True)
    logger.info("Removed %s/%s, which a process that has ended left behind", folder, name)
    return True


def local_temporary(place: Path) -> Path:
    """Return a new temporary path next to a local file."""
    return place.with_name(f"{_FOLDER}{unique()}.{place.name[-_LONGEST_STEM:]}")


def tidy_local(folder: Path) -> None:
    """Remove abandoned temporary files in a local folder, as ``tidy`` does on the cluster."""
    with contextlib.suppress(OSError):
        for found in os.scandir(folder):
            name = found.name.removeprefix(_FOLDER)
            if name == found.name or not _NAME.fullmatch(name) or not found.is_file(follow_symlinks=False):
                continue
            if is_abandoned(name, found.stat().st_mtime):
                Path(found.path).unlink()
                logger.info("Removed %s, which a process that has ended left behind", found.path)


def is_abandoned(name: str, changed: float) -> bool:
    """Return whether a temporary file is abandoned, given its name and last change in seconds since 1970.

    The name starts with the ``unique()`` value of the process that wrote the file.
    """
    match = _NAME.fullmatch(name)
    if not match or match[1] != _host():
        return changed < time.time() - _ABANDONED
    try:
        os.kill(int(match[2]), 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


def unique() -> str:
    """Return the start of a temporary file's name, which identifies this process."""
    return f"{_host()}-{os.getpid()}-{uuid.uuid4().hex[:12]}"


@functools.cache
def _host() -> str:
    """Return an id for this boot of the machine or start of the container. PIDs are unique within it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
        here = boot + os.readlink("/proc/self/ns/pid")  # noqa: PTH115  it is no path
    except OSError:  # not Linux
        here = f"{platform.node()} {uuid.getnode()}"
    return hashlib.sha256(here.encode()).hexdigest()[:12]
