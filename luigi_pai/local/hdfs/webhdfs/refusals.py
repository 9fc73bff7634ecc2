"""What WebHDFS answers when it refuses: a ``RemoteException`` and its HTTP status (Hadoop 2.7.4)."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RemoteFault", "disk_faults"]

# exception -> (where Java keeps it, status that WebHDFS gives it)
_FAULTS = {
    "AccessControlException": ("org.apache.hadoop.security.", 403),
    "FileAlreadyExistsException": ("org.apache.hadoop.fs.", 403),
    "FileNotFoundException": ("java.io.", 404),
    "IOException": ("java.io.", 403),
    "IllegalArgumentException": ("java.lang.", 400),
    "InvalidPathException": ("org.apache.hadoop.fs.", 400),
    "PathComponentTooLongException": ("org.apache.hadoop.hdfs.protocol.FSLimitException$", 403),
    "PathIsNotEmptyDirectoryException": ("org.apache.hadoop.fs.", 403),
    "RemoteException": ("org.apache.hadoop.ipc.", 403),
    "UnsupportedOperationException": ("java.lang.", 400),
}
_OF_DISK = {
    errno.ENOENT: "FileNotFoundException",
    errno.ENAMETOOLONG: "PathComponentTooLongException",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.ENOTDIR), "AccessControlException"),
}


class RemoteFault(Exception):
    """A request that is refused, by Java's name without its package; it has HTTP status and JSON body."""

    def __init__(self, exception: str, message: str) -> None:
        super().__init__(message)
        self.exception = exception
        prefix, self.status = _FAULTS[exception]
        found = {"exception": exception, "javaClassName": prefix + exception, "message": message}
        self.body = {"RemoteException": found}


@contextlib.contextmanager
def disk_faults(path: str) -> Iterator[None]:
    """Raise a RemoteFault about a path on HDFS in place of any OSError."""
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        text = f"File {path} does not exist." if number == errno.ENOENT else f"{path}: {os.strerror(number)}"
        raise RemoteFault(_OF_DISK.get(number, "IOException"), text) from error
