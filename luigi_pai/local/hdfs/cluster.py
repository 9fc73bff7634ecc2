"""The local OpenPAI's HDFS: its own in the data folder, an existing real HDFS, or none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.settings import HdfsAddress
from luigi_pai.local.hdfs.command.client import Fault, Hdfs
from luigi_pai.local.hdfs.webhdfs.handlers import webhdfs_routes
from luigi_pai.local.hdfs.webhdfs.namespace import Tree
from luigi_pai.local.json_http import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tornado.routing import URLSpec

_TIMEOUT = 10.0  # seconds for each response, so that a start or submission fails instead of hanging
_SHARED = 0o777  # mode of /Output, so that every user can write output there, as on a real OpenPAI
_OUTPUT = "/Output"


class OwnHdfs:
    """Files in the data folder, served as WebHDFS by this server."""

    def __init__(self, root: Path, address: HdfsAddress) -> None:
        self.address = address
        self._tree = Tree(root)
        self._tree.mkdirs(_OUTPUT, _SHARED)

    def empty(self) -> None:
        """Delete all files and folders, then recreate ``/Output``."""
        for entry in self._tree.children("/"):
            gone = self._tree.delete(f"/{entry['pathSuffix']}", recursive=True)
            if gone is not None:
                self._tree.purge(gone)
        self._tree.mkdirs(_OUTPUT, _SHARED)

    def routes(self) -> Sequence[URLSpec]:
        """Return the WebHDFS routes."""
        return webhdfs_routes(self._tree)

    async def make_output(self, name: str, username: str) -> None:
        """Make ``/Output/USER/NAME``, the output folder of ``username``'s job ``name``."""
        self._tree.mkdirs(f"{_OUTPUT}/{username}/{name}", 0o755)


class NoHdfs:
    """No HDFS, as on a cluster that has storages."""

    address = HdfsAddress()

    def routes(self) -> Sequence[URLSpec]:
        """Return no routes: this server handles no WebHDFS requests."""
        return ()

    def empty(self) -> None:
        """Delete nothing."""

    async def make_output(self, name: str, username: str) -> None:
        """Make no folder."""


class OutsideHdfs(NoHdfs):
    """A real HDFS. Clients send requests to it directly; `empty` deletes nothing, as others also use it.

    Args:
        url: its WebHDFS URL, ``http://HOST:PORT``.
        fs_uri: value of ``$PAI_DEFAULT_FS_URI``; None to ask the HDFS for it.
        user: the HDFS user that creates ``/Output`` (shared by all users) if it is missing.

    Raises:
        ConfigError: the HDFS cannot be used; the message says why, and what to do.
    """

    def __init__(self, url: str, fs_uri: str | None, user: str) -> None:
        self._url = url.rstrip("/").removesuffix("/webhdfs/v1")
        try:
            side = self._as(user)
            side.status("/")
            self.address = HdfsAddress(self._url, fs_uri.rstrip("/") if fs_uri else _fs_uri(side))
            if side.status(_OUTPUT) is None:
                _make_shared(side)
        except Fault as fault:
            raise ConfigError(f"the HDFS at {self._url} cannot be used: {fault}") from None

    async def make_output(self, name: str, username: str) -> None:
        """Make the output folder of ``username``'s job ``name``; see `OwnHdfs.make_output`.

        Raises:
            ApiError: the request to HDFS failed; the status is 500, as on the real server.
        """
        try:
            await asyncio.to_thread(self._as(username).mkdir, f"{_OUTPUT}/{username}/{name}")
        except Fault as fault:
            raise ApiError(500, "UnknownError", f"HDFS at {self._url}: {fault}") from None

    def _as(self, user: str) -> Hdfs:
        return Hdfs(self._url, user, setting="--hdfs", timeout=_TIMEOUT)


ClusterHdfs = OwnHdfs | NoHdfs
"""A server's HDFS."""


def _make_shared(side: Hdfs) -> None:
    """Make ``/Output``."""
    try:
        side.mkdir(_OUTPUT, _SHARED)
    except Fault as fault:
        if fault.exception != "AccessControlException":
            raise
        raise Fault(
            f"user {side.user} may not make {_OUTPUT} ({fault}); use --user to name a user who may, or "
            f"as the superuser of HDFS, run: hdfs dfs -mkdir -p {_OUTPUT} && hdfs dfs -chmod 777 {_OUTPUT}"
        ) from None


def _fs_uri(side: Hdfs) -> str:
    address = side.rpc_address()
    if address is None:
        raise Fault("it does not report its hdfs:// address; set the address with --fs-uri hdfs://HOST:PORT")
    return f"hdfs://{address}"
