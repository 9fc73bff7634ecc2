"""Parallel uploads to the cluster and downloads. Unchanged files are skipped; no file appears incomplete."""

from luigi_pai.files.transfer.downloading import download
from luigi_pai.files.transfer.summary import Transfer, readable
from luigi_pai.files.transfer.uploading import Upload, upload

__all__ = ["Transfer", "Upload", "download", "readable", "upload"]
