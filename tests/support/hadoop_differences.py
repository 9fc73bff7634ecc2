"""What differs between the Hadoops as a client of their WebHDFS sees it; docs/hdfs.md has the same table.

`luigi_pai.files` asks no server for its version: what it does holds on each. test_differences.py compares
the table with the servers.
"""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass, replace
from functools import cache

from real_hdfs import HADOOP_2, HADOOP_3

__all__ = ["Differences", "Refusal", "differences_of", "local_differences", "version_at"]

Refusal = tuple[int, str]  # HTTP status, and Hadoop's name of the error


@dataclass(frozen=True)
class Differences:
    """What a server does where others do something else.

    Attributes:
        new_file_mode: the permission of a file that CREATE makes without one.
        datanode_decodes: how often a DataNode decodes the percent signs of a path.
        status_of_colon: how GETFILESTATUS refuses a name with ``:``, which no file can have; None if one can.
        rename_to_colon: how RENAME refuses such a name.
        create_below_file: how CREATE refuses a path below a file.
        mkdirs_below_file: how MKDIRS refuses one.
        owner_named: whom the error of SETOWNER names when alice gives her file to bob.
        over_quota: how CREATE refuses more than the space quota; None where it answers 201.
        has_trash_root: whether GETTRASHROOT is known.
        missing: what is said of a path that does not exist.
    """

    new_file_mode: str
    datanode_decodes: int
    status_of_colon: Refusal | None
    rename_to_colon: Refusal
    create_below_file: Refusal
    mkdirs_below_file: Refusal
    owner_named: str
    over_quota: Refusal | None
    has_trash_root: bool
    missing: str = "File {path} does not exist"


_BY_VERSION = {
    HADOOP_2.version: Differences(
        new_file_mode="755",
        datanode_decodes=2,
        status_of_colon=(400, "InvalidPathException"),
        rename_to_colon=(403, "IOException"),
        create_below_file=(403, "RemoteException"),
        mkdirs_below_file=(403, "FileAlreadyExistsException"),
        owner_named="bob",
        over_quota=None,
        has_trash_root=False,
    ),
    HADOOP_3.version: Differences(
        new_file_mode="644",
        datanode_decodes=1,
        status_of_colon=(404, "FileNotFoundException"),
        rename_to_colon=(400, "InvalidPathException"),
        create_below_file=(403, "ParentNotDirectoryException"),
        mkdirs_below_file=(403, "ParentNotDirectoryException"),
        owner_named="alice",
        over_quota=(403, "DSQuotaExceededException"),
        has_trash_root=True,
    ),
}


def differences_of(version: str) -> Differences:
    """Return what a version does; of one that was not measured, what the newest measured before it does."""
    measured = [known for known in _BY_VERSION if _numbers(known) <= _numbers(version)]
    return _BY_VERSION[max(measured or [HADOOP_2.version], key=_numbers)]


def local_differences() -> Differences:
    """Return what the local WebHDFS does: what 2.7.4 does, but for these."""
    return replace(
        _BY_VERSION[HADOOP_2.version],
        datanode_decodes=1,
        rename_to_colon=(400, "InvalidPathException"),
        create_below_file=(403, "AccessControlException"),
        mkdirs_below_file=(403, "AccessControlException"),
    )


@cache
def version_at(url: str) -> str:
    """Return the version that a NameNode says it has."""
    query = f"{url}/jmx?qry=Hadoop:service=NameNode,name=NameNodeInfo"
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(query, timeout=20) as reply:
        return str(json.load(reply)["beans"][0]["SoftwareVersion"])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("-")[0].split(".") if part.isdigit())
