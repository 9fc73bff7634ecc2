"""The storage that a cluster's jobs mount: its description by the server, and its name in a job."""

from __future__ import annotations

import posixpath
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from luigi_pai.api.retries import Retry
from luigi_pai.api.wire.replies import object_of, objects_of
from luigi_pai.errors import ConfigError, PaiHttpError
from luigi_pai.jobspec.paths import mapping_of
from luigi_pai.jobspec.storage.mount import StorageMount

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.api.session import Session
    from luigi_pai.api.shared import SharedDocument

_STORAGES = "/api/v2/storages"
_CONFIGS, _SERVERS = "/api/v2/storage/config", "/api/v2/storage/server"  # of 0.16 and 0.17
_UNKNOWN = ("NoStorageError", "ForbiddenUserError")
_UNKNOWN_CONFIG = ("UnknownError",)
_PATIENCE = 2.0  # how long to retry a request for the description, in seconds


@dataclass(frozen=True)
class StorageFacts:
    """A server's description of a storage, without keys and passwords.

    Attributes:
        type: ``nfs``, ``samba``, ``azureFile``, ``azureBlob``, ...
        source: The source to mount: ``HOST:/PATH`` or ``//HOST/SHARE``; empty if the type has no such name.
        share: Whether a container sees the whole storage, rather than only the user's folder in it.
        read_only: Whether containers can only read it.
        mount_path: The path at which containers mount it if the job cannot choose (0.16, 0.17); else empty.
    """

    type: str
    source: str
    share: bool = True
    read_only: bool = False
    mount_path: str = ""


class JobStorage:
    """The storage that a cluster's jobs mount.

    Its description is requested once for all forked processes. Transient errors are retried for only 2 s,
    because every use of a file needs the description first. Callers retry for longer.

    Args:
        session: The connection to the rest-server.
        state: A document that forked processes share.
        name: The storage's name.
        mount_path: The path where containers mount it. If None, ``/mnt/NAME`` or the path that 0.16 and
            0.17 send.
    """

    def __init__(self, session: Session, state: SharedDocument, name: str, mount_path: str | None) -> None:
        self._session = session
        self._state = state
        self._name = name
        self._key = f"storage {name}"
        self._mount_path = mount_path

    def facts(self) -> StorageFacts:
        """Return the server's description of the storage.

        Raises:
            ConfigError: The server has no such storage, or the user may not use it.
            PaiApiError: The request failed.
        """
        known = self._state.read().get(self._key)
        if known is not None:
            return StorageFacts(**known)
        facts = Retry(_PATIENCE, self._session.clock, f"storage {self._name}").call(self._ask)
        with self._state.update() as state:
            state[self._key] = asdict(facts)
        return facts

    def mount(self) -> StorageMount:
        """Return the storage's mount in a job; raises the same errors as ``facts``.

        Raises:
            ConfigError: Containers can only read the storage.
        """
        facts = self.facts()
        if facts.read_only:
            raise self._config_error("is read-only, so no job can write its results there", "name another")
        path = self._mount_path or facts.mount_path
        return StorageMount(self._name, path, by_plugin=bool(facts.mount_path))

    def _ask(self) -> StorageFacts:
        apis = (_STORAGES, _UNKNOWN, _of_detail), (_CONFIGS, _UNKNOWN_CONFIG, self._of_config)
        for path, unknown, facts_in in apis:
            try:
                return facts_in(self._get(f"{path}/{quote(self._name, safe='')}"))
            except PaiHttpError as error:
                if error.code in unknown:
                    raise self._not_usable(path) from None
                if error.code != "NoApiError":
                    raise
        raise self._config_error(
            "cannot be used: this server has no storages",
            "storages came with OpenPAI 0.16. Releases up to 0.14 have HDFS: set webhdfs_url. On 0.15, "
            "remove the key; jobs there can only mount NFS with their own commands",
        )

    def _of_config(self, config: Mapping[str, Any]) -> StorageFacts:
        """Return the description from a storage config on 0.16 and 0.17, which may mount several folders."""
        mounts = objects_of(config, "mountInfos")
        wanted = [each for each in mounts if self._mount_path in (None, each.get("mountPoint"))]
        if not mounts:
            raise self._config_error("mounts nothing, as the server says", "name another")
        if not wanted:
            places = ", ".join(str(each.get("mountPoint")) for each in mounts)
            raise self._config_error(
                f"is mounted at {places} on this cluster", "set storage_mount to one of these"
            )
        mount = wanted[0]
        server = self._get(f"{_SERVERS}/{quote(str(mount.get('server')), safe='')}")
        data, user = mapping_of(server.get("data")), self._session.account.username
        inside = str(mount.get("path") or "").replace("${PAI_USER_NAME}", user)
        path = posixpath.join(str(data.get("rootPath") or "/"), inside.lstrip("/")).rstrip("/") or "/"
        address, kind = data.get("address"), str(server.get("type"))
        sources = {"nfs": f"{address}:{path}", "samba": f"//{address}/{path.lstrip('/')}"}
        is_read_only = str(mount.get("permission") or "rw") == "ro"
        return StorageFacts(
            kind, sources.get(kind, ""), read_only=is_read_only, mount_path=str(mount.get("mountPoint"))
        )

    def _get(self, path: str) -> dict[str, Any]:
        return object_of(self._session.request("GET", path), path)

    def _not_usable(self, path: str) -> ConfigError:
        body = self._session.request("GET", path)
        found = objects_of(body, "storages") if isinstance(body, dict) else objects_of({"": body}, "")
        names = ", ".join(sorted(str(each.get("name")) for each in found))
        return self._config_error(
            "does not exist, or you may not use it", f"you may use {names}" if names else "you may use none"
        )

    def _config_error(self, problem: str, step: str) -> ConfigError:
        error = ConfigError(f"storage = {self._name} in [OpenPai] {problem}; {step}")
        error.in_section(self._session.account.section)
        return error


def _of_detail(detail: Mapping[str, Any]) -> StorageFacts:
    """Return the description from a response by 1.0 and later."""
    data, kind = mapping_of(detail.get("data")), str(detail.get("type") or "unknown")
    address = str(data.get("address") or "")
    account, share = data.get("accountName"), data.get("shareName")
    sources = {
        "nfs": f"{data.get('server')}:{data.get('path')}",
        "samba": address if address.startswith("//") else f"//{address}",
        "azureFile": f"//{account}.file.core.windows.net/{share}" if account else "",
    }
    return StorageFacts(
        kind,
        sources.get(kind, ""),
        share=detail.get("share") is not False,
        read_only=detail.get("readOnly") is True,
    )
