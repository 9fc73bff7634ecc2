"""Storage: a Luigi file system for a cluster storage."""

from __future__ import annotations

import contextlib
import functools
import os
import posixpath
import shlex
from typing import TYPE_CHECKING

from luigi_pai.config import OpenPai
from luigi_pai.errors import ConfigError, PaiApiError
from luigi_pai.files.errors import HdfsError
from luigi_pai.files.file_system import FileSystem
from luigi_pai.files.paths import storage_path
from luigi_pai.files.storage.mounts import find_mounted, is_on_own_disk, on_this_machine
from luigi_pai.files.storage.volume import MountedVolume
from luigi_pai.jobspec.storage.mount import StorageMount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from luigi_pai.api.dialects.storages import StorageFacts

__all__ = ["Storage"]

_MOUNTED = {"nfs": "nfs", "samba": "cifs", "azureFile": "cifs"}


class Storage(FileSystem):
    """A cluster storage that is mounted both in containers and on this machine.

    Constructing a Storage makes no network requests.

    Args:
        name: The storage's name on the cluster.
        path: The storage's folder on this machine, with the files that containers see. If None, the storage's
            source is requested from the cluster and looked up in this machine's mounts.
        mount_path: The path where containers mount the storage.
        cluster: The NAME of the [OpenPai:NAME] section whose cluster has the storage. If None, the cluster of
            ``OpenPai.current()`` is used.
        timeout: How long an operation on the mount may take before it raises an error, in seconds.
    """

    is_mounted = True

    def __init__(
        self,
        name: str,
        path: str | None = None,
        mount_path: str | None = None,
        *,
        cluster: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.name = name
        self.path = path
        self.mount_path = StorageMount(name, mount_path or "").path
        self._cluster = cluster
        self._timeout = timeout

    @classmethod
    def from_config(cls, cluster: str | None = None) -> Self:
        """Return the storage of a cluster in luigi.cfg; its ``storage`` setting must be set.

        Args:
            cluster: The NAME of [OpenPai:NAME]. If None, the cluster of ``OpenPai.current()`` is used.

        Raises:
            ConfigError: A setting is invalid.
        """
        settings = OpenPai.current(cluster)
        return cls(
            str(settings.storage),
            settings.storage_path,
            settings.storage_mount,
            cluster=cluster,
            timeout=settings.read_timeout,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.path!r})"

    def at(self, path: str) -> tuple[MountedVolume, str]:
        """Return a path's volume and its path on that volume.

        Raises:
            HdfsError: The path is not on this storage.
            ConfigError: The storage is not mounted on this machine, or does not exist.
        """
        volume = self._volume()
        return volume, storage_path(path, self.mount_path, volume.root)

    def check_path(self, path: str) -> None:
        """Raise HdfsError if a path is not on this storage. Makes no network requests."""
        self._place(path)

    def check_writable(self, path: str) -> Sequence[str]:
        """Raise ConfigError if a job cannot use a path, or if the storage is read-only there or here."""
        storage = OpenPai.current(self._cluster).cluster().storage
        with contextlib.suppress(PaiApiError, HdfsError):  # the next use of the storage waits for it
            if storage is not None:
                storage.mount()
            volume = self._volume()
            if volume.is_read_only():
                raise ConfigError(
                    f"{volume.root}, where this machine has storage {self.name}, is mounted read-only"
                )
            place = storage_path(path, self.mount_path, volume.root)
            if place != self._place(path):
                raise ConfigError(
                    f"{path} exists only on this machine, not in containers: write $PAI_DEFAULT_FS_URI{place}"
                )
            if self.path and storage is not None and is_on_own_disk(volume.root, storage.facts().source):
                message = (
                    f"storage_path = {self.path} is on the disk of this machine, so {self.name} may not be "
                    "mounted there, and the job does not see its files: correct storage_path"
                )
                return [message]
        return ()

    def _place(self, path: str) -> str:
        return storage_path(path, self.mount_path, self.mount_path)

    def _volume(self) -> MountedVolume:
        if self.path:
            volume = self._volume_at(os.path.expandvars(os.path.expanduser(self.path)))  # noqa: PTH111
            if not volume.is_there():
                raise ConfigError(
                    f"storage_path = {self.path} in [OpenPai] is not a folder here; mount {self.name} there"
                ).in_section(OpenPai.current(self._cluster).section)
            return volume
        settings = OpenPai.current(self._cluster)
        facts = settings.cluster().server.storage(self.name)
        found = _mounted(facts, settings.pai_url)
        if found is None:
            raise _not_mounted(self.name, facts).in_section(settings.section)
        if facts.share:
            return self._volume_at(found)
        volume = self._volume_at(posixpath.join(found, settings.username))
        if not volume.is_there():  # otherwise the user's first job would create it
            self._volume_at(found).make_folders(f"/{settings.username}")
        return volume

    def _volume_at(self, root: str) -> MountedVolume:
        return _volume(self.name, root, self._timeout, os.getpid())


@functools.cache
def _mounted(facts: StorageFacts, cluster_url: str) -> str | None:
    """Return the folder where this machine mounts a storage; None if it does not.

    The mounts are searched only once. After that, ``MountedVolume`` checks that the storage is still mounted.
    """
    found = find_mounted(facts.source) or on_this_machine(facts.source, cluster_url)
    if found is None:
        _mounted.cache_clear()
    return found


def _not_mounted(name: str, facts: StorageFacts) -> ConfigError:
    """Return the error for a storage that is not mounted here, or whose mount is not recognized."""
    step = "set storage_path in [OpenPai] to the folder at which this machine has its files"
    details = f" ({facts.type})"
    if facts.type in _MOUNTED and facts.source:
        details = f" ({facts.type}, {facts.source})"
        command = f"sudo mount -t {_MOUNTED[facts.type]} {shlex.quote(facts.source)} /mnt/{name}"
        step = f"mount it: {command}; or {step}"
    return ConfigError(f"storage = {name} in [OpenPai]{details} is not mounted on this machine; {step}")


@functools.cache
def _volume(name: str, root: str, timeout: float, _process: int) -> MountedVolume:
    return MountedVolume(name, root, timeout)
