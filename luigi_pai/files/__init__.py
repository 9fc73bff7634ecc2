"""The cluster's file system, its HDFS or a storage: targets, paths, uploads and downloads.

Names are imported on first use, because their modules import Luigi's ``contrib.hdfs``, which a run without
files does not need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luigi_pai.files.errors import (
        FileAlreadyExists,
        HdfsError,
        HdfsUnreachable,
        MissingParentDirectory,
        NotADirectory,
        TransferError,
    )
    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.files.hdfs.webhdfs import WebHdfs
    from luigi_pai.files.of_cluster import cluster_files
    from luigi_pai.files.paths import hdfs_path
    from luigi_pai.files.storage.storage import Storage
    from luigi_pai.files.target import HdfsFlagTarget, HdfsTarget
    from luigi_pai.files.transfer import Transfer, Upload, download, upload

__all__ = [
    "FileAlreadyExists",
    "FileSystem",
    "HdfsError",
    "HdfsFlagTarget",
    "HdfsTarget",
    "HdfsUnreachable",
    "MissingParentDirectory",
    "NotADirectory",
    "Storage",
    "Transfer",
    "TransferError",
    "Upload",
    "WebHdfs",
    "cluster_files",
    "download",
    "hdfs_path",
    "upload",
]

_HOME_OF = {
    "FileSystem": "file_system",
    "Storage": "storage.storage",
    "WebHdfs": "hdfs.webhdfs",
    "cluster_files": "of_cluster",
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
