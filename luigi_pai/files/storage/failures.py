"""The HdfsError of an OSError from a mount."""

from __future__ import annotations

import errno

from luigi_pai.files.errors import HdfsError, HdfsUnreachable, failed

_AWAY = (
    errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNREFUSED, errno.ECONNRESET,
    errno.ECONNABORTED, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.ENODEV,
    errno.ENXIO,
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
    errno.EXDEV: "AccessControlException",
    errno.EISDIR: "FileNotFoundException",
}
_NO_RIGHT = "ask for permission; files that containers wrote belong to root or nobody, see docs/storages.md"
_NEXT_STEPS = {
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.ENOSPC: "the storage is full; make room",
    errno.EDQUOT: "your quota there is used up; make room, or ask for more",
    errno.EROFS: "mount the storage here so that it can be written",
    errno.EXDEV: "name a path that is in the storage without links",
    errno.EISDIR: 'open a file in it, (target / "NAME").open()',
    errno.ELOOP: "remove the link that leads in a circle",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def failure_of(error: Exception, operation: str, place: str, server: str) -> HdfsError:
    """Return the HdfsError of an error that was raised for a path on this machine."""
    if not isinstance(error, OSError):  # what was asked for is no mode, no user of this machine, or no path
        exception = "IllegalArgumentException"
        return failed(operation, place, server, f"{exception}: {error}", exception=exception, what="")
    number = error.errno or errno.EIO
    is_away = number in _AWAY
    name = _NAMES.get(number)
    reason = error.strerror or str(error)
    failure = failed(
        operation,
        place,
        server,
        f"{name}: {reason}" if name else reason,
        next_step="check its mount on this machine" if is_away else _NEXT_STEPS.get(number, ""),
        exception=name,
        kind=HdfsUnreachable if is_away else None,
        what="",
    )
    failure.transient = is_away or number in _PASSING
    return failure
