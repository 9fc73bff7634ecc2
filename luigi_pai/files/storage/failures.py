"""The HdfsError of an OSError from a mount."""

from __future__ import annotations

import errno

from luigi_pai.files.errors import FileAlreadyExists, HdfsError, HdfsUnreachable, NotADirectory, failed

_AWAY = (
    errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNREFUSED, errno.ECONNRESET,
    errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENODEV, errno.ENXIO,
)  # fmt: skip
"""Errors of a mount whose server is away."""
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EAGAIN, errno.EBUSY, errno.ENOLCK)
"""Other errors after which the same call may succeed soon."""
_NAMES = {  # error -> what HDFS calls it
    errno.ENOENT: "FileNotFoundException",
    errno.EEXIST: "FileAlreadyExistsException",
    errno.ENOTDIR: "ParentNotDirectoryException",
    errno.ENOTEMPTY: "PathIsNotEmptyDirectoryException",
    errno.EACCES: "AccessControlException",
    errno.EPERM: "AccessControlException",
}
_KINDS = {errno.EEXIST: FileAlreadyExists, errno.ENOTDIR: NotADirectory}
_NO_RIGHT = "ask for permission; files that containers wrote belong to root or nobody, see docs/storages.md"
_NEXT_STEPS = {
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.ENOSPC: "the storage is full; make room",
    errno.EDQUOT: "your quota there is used up; make room, or ask for more",
    errno.EROFS: "mount the storage here so that it can be written",
}


def failure_of(error: Exception, operation: str, place: str, server: str) -> HdfsError:
    """Return the HdfsError of an error that was raised for a path on this machine."""
    number = (error.errno or errno.EIO) if isinstance(error, OSError) else 0
    is_away = number in _AWAY
    failure = failed(
        operation,
        place,
        server,
        (isinstance(error, OSError) and error.strerror) or str(error),
        next_step="check its mount on this machine" if is_away else _NEXT_STEPS.get(number, ""),
        exception=_NAMES.get(number),
        kind=HdfsUnreachable if is_away else _KINDS.get(number),
        what="",
    )
    failure.transient = is_away or number in _PASSING
    return failure
