"""Uploads to HDFS and downloads from it: in parallel, only what changed, whole files only."""

from luigi_pai.hdfs.transfer.downloading import download
from luigi_pai.hdfs.transfer.summary import Transfer, readable
from luigi_pai.hdfs.transfer.uploading import Upload, upload

__all__ = ["Transfer", "Upload", "download", "readable", "upload"]
