"""Lists this machine's mounts, and finds the folder where it mounts a cluster storage."""

from __future__ import annotations

import os
import posixpath
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

_TABLE = "/proc/self/mounts"
_ESCAPED = re.compile(r"\\([0-7]{3})")
_NFS_SOURCE = re.compile(r"(\[[^\]]+\]|[^:/]+):(/.*)", re.DOTALL)
_SMB_SOURCE = re.compile(r"//([^/]+)(/.*)", re.DOTALL)


@dataclass(frozen=True)
class Mount:
    """A mounted file system.

    Attributes:
        source: The mounted source; ``HOST:/PATH`` for NFS.
        folder: The folder where it is mounted.
        type: The file system's type, such as ``nfs4``.
        options: The mount options.
    """

    source: str
    folder: str
    type: str
    options: tuple[str, ...]


def mounts(table: str = _TABLE) -> list[Mount]:
    """Return this machine's mounts in the order of mounting; none if there is no table."""
    try:
        lines = Path(table).read_text("utf-8", "surrogateescape").splitlines()
    except OSError:  # not Linux
        return []
    rows = [[_unescaped(field) for field in line.split(" ")] for line in lines]
    return [Mount(row[0], row[1], row[2], tuple(row[3].split(","))) for row in rows if len(row) > 3]  # noqa: PLR2004


def mount_of(path: str) -> Mount | None:
    """Return the mount that contains a path; None if the mounts are unknown."""
    return _covering(os.path.realpath(path), mounts())


def is_on_own_disk(folder: str, source: str) -> bool:
    """Return whether a folder is on this machine's own disk, so that ``source`` may not be mounted there."""
    own = mount_of(folder)
    return own is not None and own.folder == "/" and source.rpartition(":")[2] != folder


def find_mounted(source: str, known: list[Mount] | None = None) -> str | None:
    """Return the folder where this machine mounts a source; None if the source is not mounted.

    A mount of a parent of the source also counts. A mount that is hidden by a later one does not. Two host
    names count as the same if they share an address.

    Args:
        source: ``HOST:/PATH`` or ``//HOST/SHARE/PATH``.
        known: This machine's mounts.
    """
    wanted = _parts(source)
    if wanted is None:
        return None
    known = mounts() if known is None else known
    found: dict[str, int] = {}
    for mount in known:
        parts = _parts(mount.source)
        inside = None if parts is None or parts[0] != wanted[0] else _inside(wanted, parts[2])
        if parts is None or inside is None:
            continue
        folder = posixpath.join(mount.folder, inside).rstrip("/") or "/"
        if _covering(folder, known) is mount and _is_same_host(parts[1], wanted[1], mount.options):
            found[folder] = len(parts[2])
    return max(found, key=lambda folder: found[folder], default=None)


def on_this_machine(source: str, cluster_url: str) -> str | None:
    """Return the exported folder itself if both the NFS server and the cluster run on this machine.

    If the cluster ran elsewhere, another server could choose the folder that is written to.
    """
    parts, cluster = _parts(source), urlsplit(cluster_url).hostname
    if parts is None or parts[0] != "nfs" or cluster is None:
        return None
    is_here = _is_own(parts[1]) and _is_own(cluster)
    return parts[2] if is_here and Path(parts[2]).is_dir() else None


def _parts(source: str) -> tuple[str, str, str] | None:
    """Return a source's kind, host and normalised path; None if it has a different form."""
    for kind, form in (("nfs", _NFS_SOURCE), ("smb", _SMB_SOURCE)):
        match = form.fullmatch(source)
        if match:
            return kind, match[1].strip("[]").lower(), "/" + posixpath.normpath(match[2]).lstrip("/")
    return None


def _covering(path: str, known: list[Mount]) -> Mount | None:
    """Return the deepest mount at or above a path; if several share that folder, the latest one."""
    found = [each for each in known if _below(path, each.folder) is not None]
    return max(reversed(found), key=lambda each: len(each.folder), default=None)


def _inside(wanted: tuple[str, str, str], mounted: str) -> str | None:
    """Return the part of a source's path that is below a mounted source; SMB ignores case."""
    kind, _host, path = wanted
    if kind == "smb" and path[: len(mounted)].lower() == mounted.lower():
        mounted = path[: len(mounted)]
    return _below(path, mounted)


def _below(path: str, folder: str) -> str | None:
    """Return the part of a path below a folder: empty for the folder itself, None if it is elsewhere."""
    start = f"{folder.rstrip('/')}/"
    return path[len(start) :] if f"{path}/".startswith(start) else None


def _is_same_host(mounted: str, wanted: str, options: tuple[str, ...]) -> bool:
    """Return whether two hosts are the same. A mount's options contain the address that it uses."""
    if mounted == wanted:
        return True
    used = {option.removeprefix("addr=") for option in options if option.startswith("addr=")}
    return bool((used or _addresses(mounted)) & _addresses(wanted))


def _addresses(host: str) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return set()


def _is_own(host: str) -> bool:
    """Return whether one of a host's addresses belongs to this machine."""
    for address in _addresses(host):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.bind((address, 0))
        except OSError:
            continue
        return True
    return False


def _unescaped(field: str) -> str:
    return _ESCAPED.sub(lambda escape: chr(int(escape[1], 8)), field)
