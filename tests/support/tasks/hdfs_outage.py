"""The error of an HDFS that is away for a moment."""

from luigi_pai.files.errors import HdfsUnreachable


def away_for_now(path: str) -> HdfsUnreachable:
    """Return the error of a write to a path that was not answered."""
    error = HdfsUnreachable("nobody answers", operation="CREATE", path=path)
    error.transient = True
    return error
