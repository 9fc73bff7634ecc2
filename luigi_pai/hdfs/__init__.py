"""The cluster's HDFS, over WebHDFS: targets, file system, paths, uploads and downloads.

Names are imported on first use, because their modules import the ``hdfs`` library and Luigi's
``contrib.hdfs``, which a run without HDFS does not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luigi_pai.hdfs.client import WebHdfs
    from luigi_pai.hdfs.errors import (
        FileAlreadyExists,
        HdfsError,
        HdfsUnreachable,
        MissingParentDirectory,
        NotADirectory,
        TransferError,
    )
    from luigi_pai.hdfs.paths import hdfs_path
    from luigi_pai.hdfs.target import HdfsFlagTarget, HdfsTarget
    from luigi_pai.hdfs.transfer import Transfer, Upload, download, upload

__all__ = [
    "FileAlreadyExists",
    "HdfsError",
    "HdfsFlagTarget",
    "HdfsTarget",
    "HdfsUnreachable",
    "MissingParentDirectory",
    "NotADirectory",
    "Transfer",
    "TransferError",
    "Upload",
    "WebHdfs",
    "download",
    "hdfs_path",
    "upload",
]

_HOME_OF = {
    "WebHdfs": "client",
    "hdfs_path": "paths",
    **dict.fromkeys(("HdfsFlagTarget", "HdfsTarget"), "target"),
    **dict.fromkeys(("Transfer", "Upload", "download", "upload"), "transfer"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
