"""The cluster's HDFS, over WebHDFS: targets, file system, paths, the completion flag.

Imported only where it is needed: it costs the ``hdfs`` library and Luigi's ``contrib.hdfs``.
"""

from luigi_pai.hdfs.client import WebHdfs
from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError, MissingParentDirectory, NotADirectory
from luigi_pai.hdfs.flag import CompletionFlag
from luigi_pai.hdfs.paths import hdfs_path
from luigi_pai.hdfs.target import HdfsTarget

__all__ = [
    "CompletionFlag",
    "FileAlreadyExists",
    "HdfsError",
    "HdfsTarget",
    "MissingParentDirectory",
    "NotADirectory",
    "WebHdfs",
    "hdfs_path",
]
