"""The cluster's file system (its HDFS or a storage): targets, paths, uploads and downloads.

Names are imported when they are first used. Their modules import Luigi's ``contrib.hdfs``, which a run
without files does not need.
"""

from __future__ import annotations

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
    "hdfs_path": "paths",
    **dict.fromkeys(("HdfsFlagTarget", "HdfsTarget"), "target"),
    **dict.fromkeys(("Transfer", "Upload", "download", "upload"), "transfer"),
}


def cluster_files(cluster: str | None = None, path: str | None = None) -> FileSystem:
    """Return a cluster's file system; without settings, HDFS with ``webhdfs://`` paths only.

    Args:
        cluster: The NAME of [OpenPai:NAME]. If None, the cluster of ``OpenPai.current()`` is used.
        path: A path that selects the file system if the cluster has both HDFS and a storage. A path below
            ``storage_mount`` is on the storage, and any other path is on HDFS.

    Raises:
        ConfigError: A setting is invalid.
    """
    from luigi_pai.config import OpenPai  # noqa: PLC0415  it imports Luigi

    settings = OpenPai.current(cluster)
    mount = settings.storage_mount_path()
    if mount is not None and (settings.hdfs_account() is None or f"{path}/".startswith(f"{mount}/")):
        from luigi_pai.files.storage.storage import Storage  # noqa: PLC0415  a cluster has one of the two

        return Storage.from_config(cluster)
    from luigi_pai.files.hdfs.webhdfs import WebHdfs  # noqa: PLC0415  as above

    return WebHdfs.from_config(cluster)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
