"""Converts the different forms of a path on HDFS to the absolute path that WebHDFS expects."""

from __future__ import annotations

import posixpath
import re

from luigi_pai.files.errors import HdfsError

__all__ = ["hdfs_path", "is_foreign", "split_uri", "storage_path"]

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?", re.DOTALL)
_DEFAULT_FS = re.compile(r"\$(?:PAI_DEFAULT_FS_URI|\{PAI_DEFAULT_FS_URI\})(?=/|$)")
_VARIABLE = re.compile(r"\$\{[^}/]*\}|(?:^|(?<=/))\$\w+")
_SCHEMES = ("hdfs", "webhdfs", "swebhdfs")
_NAMENODE_PORT = 8020  # the default


def split_uri(path: str) -> tuple[str, str, str]:
    """Return scheme, ``HOST:PORT`` and path of a URI. For a plain path, the first two are empty."""
    match = None if path.startswith("/") else _URI.fullmatch(path)
    if not match:
        return "", "", path
    return match[1].lower(), match[2] or "", match[3] or "/"


def is_foreign(path: str) -> bool:
    """Return whether a path's scheme is another file system's, not HDFS's: ``s3://b/p``, ``file:///p``."""
    scheme = split_uri(path)[0]
    return bool(scheme) and scheme not in (*_SCHEMES, "viewfs")


def hdfs_path(path: str, fs_uri: str | None) -> str:
    """Convert a path or URI to the absolute, normalised path on HDFS.

    Args:
        path: ``/p``, ``hdfs://h:port/p``, ``webhdfs://h:port/p``,
            ``$PAI_DEFAULT_FS_URI/p`` or ``${PAI_DEFAULT_FS_URI}/p``. ``?``, ``#``,
            ``%``, ``*`` and ``[`` are ordinary characters.
        fs_uri: The ``fs_uri`` of [OpenPai]. A URI with the same scheme but another host or port raises
            HdfsError. If None, HDFS URIs with any host are accepted.

    Raises:
        HdfsError: The path is relative, is not UTF-8, has an unknown variable, or is on another file system.
            (HDFS itself would only say that the path does not exist, which is misleading.)
    """
    scheme, authority, base = split_uri(fs_uri or "")
    below = _below_default(path, "HDFS")
    if below is not None:
        return _normal(base.rstrip("/") + below or "/")
    path_scheme, path_authority, plain = split_uri(path)
    if not path_scheme:
        if not plain.startswith("/"):
            raise _invalid(
                path, "it is relative; start it with / or hdfs://HOST:PORT/ or $PAI_DEFAULT_FS_URI/"
            )
        return _normal(plain)
    if path_scheme not in _SCHEMES and path_scheme != scheme:
        raise _invalid(path, f"{path_scheme}: is not HDFS; start it with / or hdfs://HOST:PORT/")
    is_same = not path_authority or _address(scheme, path_authority) == _address(scheme, authority)
    if path_scheme == scheme and not is_same:
        why = f"it is on {path_scheme}://{path_authority}, and fs_uri in [OpenPai] is {fs_uri}"
        raise _invalid(path, f"{why}; start it with $PAI_DEFAULT_FS_URI/, or correct fs_uri")
    return _normal(plain)


def storage_path(path: str, mount_path: str, root: str) -> str:
    """Convert a path to the absolute, normalised path in a storage.

    Args:
        path: ``$PAI_DEFAULT_FS_URI/p``, ``${PAI_DEFAULT_FS_URI}/p`` or ``/p``, which are all ``/p`` in the
            storage; or a path below ``mount_path`` or ``root``.
        mount_path: The path at which containers mount the storage.
        root: The storage's folder on this machine.

    Raises:
        HdfsError: The path is relative, is not UTF-8, has an unknown variable, or is on another file system.
    """
    below = _below_default(path, "storage")
    if below is not None:
        return _normal(below or "/")
    scheme = split_uri(path)[0]
    if scheme or not path.startswith("/"):
        why = f"{scheme}: is another file system" if scheme else "it is relative"
        raise _invalid(path, f"{why}; start it with {mount_path}/ or $PAI_DEFAULT_FS_URI/", "storage")
    place = _normal(path)
    for start in (mount_path.rstrip("/"), root.rstrip("/")):
        if f"{place}/".startswith(f"{start}/"):
            return _normal(place[len(start) :] or "/")
    return place


def _below_default(path: str, kind: str) -> str | None:
    """Return the part after ``$PAI_DEFAULT_FS_URI``; None if the path does not start with it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise _invalid(path, "it is not UTF-8", kind) from None
    default = _DEFAULT_FS.match(path)
    if default:
        return path[default.end() :]
    variable = _VARIABLE.search(path)
    if variable:
        why = f"{variable[0]} is unknown; only $PAI_DEFAULT_FS_URI is resolved, at the start"
        raise _invalid(path, why, kind)
    return None


def _normal(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _address(scheme: str, authority: str) -> str:
    host = authority.rpartition("@")[2].lower()
    return host if scheme != "hdfs" or re.search(r":\d+$", host) else f"{host}:{_NAMENODE_PORT}"


def _invalid(path: str, why: str, kind: str = "HDFS") -> HdfsError:
    message = f"{path!r} is not a path on this {kind}: {why}"
    return HdfsError(message, operation="resolve", path=path, reason=why)
