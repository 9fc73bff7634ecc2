"""The cluster's HDFS, over WebHDFS: targets, file system, paths, uploads and downloads.

Imported only where it is needed: it costs the ``hdfs`` library and Luigi's ``contrib.hdfs``.
"""

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
