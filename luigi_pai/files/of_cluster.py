"""The file system of a cluster in luigi.cfg."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.config import OpenPai

if TYPE_CHECKING:
    from luigi_pai.files.file_system import FileSystem

__all__ = ["cluster_files"]


def cluster_files(cluster: str | None = None, path: str | None = None) -> FileSystem:
    """Return the file system of a cluster; without settings, HDFS with ``webhdfs://`` paths only.

    Args:
        cluster: the NAME of [OpenPai:NAME]; if None, the cluster of ``OpenPai.current()``.
        path: if the cluster has HDFS and a storage, a path below ``storage_mount`` is on the storage, and
            any other path is on HDFS.

    Raises:
        ConfigError: a setting is wrong.
    """
    settings = OpenPai.current(cluster)
    mount = settings.storage_mount_path()
    if mount is not None and (settings.hdfs_account() is None or f"{path}/".startswith(f"{mount}/")):
        from luigi_pai.files.storage.storage import Storage  # noqa: PLC0415  a cluster has one of the two

        return Storage.from_config(cluster)
    from luigi_pai.files.hdfs.webhdfs import WebHdfs  # noqa: PLC0415  as above

    return WebHdfs.from_config(cluster)
