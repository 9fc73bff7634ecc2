"""The differences of a storage from HDFS."""

from __future__ import annotations

from dataclasses import replace

from hadoop_differences import Differences, local_differences


def storage_differences() -> Differences:
    """Return the differences of a storage from the local WebHDFS."""
    return replace(
        local_differences(),
        new_file_mode="644",
        status_of_colon=None,
        missing="No such file or directory",
    )
