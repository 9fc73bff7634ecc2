"""Mounts a cluster's storage in containers as a replacement for OpenPAI 0.7's HDFS.

A 0.7 job names folders on HDFS, and its commands use ``hdfs dfs``. If a storage is mounted at
``/mnt/nfs1``, you can use the same paths: ``$PAI_DEFAULT_FS_URI/p`` and ``/p`` are ``/mnt/nfs1/p``.
"""

from __future__ import annotations

import copy
import functools
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from luigi_pai.jobspec.dialects.shell_text import packed
from luigi_pai.jobspec.job import FS_URI, UNSET, Unset
from luigi_pai.jobspec.paths import list_of
from luigi_pai.jobspec.protocol_parts import RuntimePlugin, Storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.jobspec.protocol import JobProtocol

_PLUGIN, _NAMES = "teamwise_storage", "storageConfigNames"
_DEFAULT_FS = re.compile(rf"(?:{re.escape(FS_URI)}|\${{{FS_URI[1:]}}})(?=/|$)")
_LOCAL_MOUNTS = "${LUIGI_PAI_MOUNTS:-}"  # set by local servers, which cannot mount at absolute paths

UNNAMED_FOLDERS: Final = {
    "PAI_DATA_DIR": "",
    "PAI_OUTPUT_DIR": '"$PAI_DEFAULT_FS_URI/Output/$PAI_USER_NAME/$PAI_JOB_NAME"',
    "PAI_CODE_DIR": "",
}
"""Folder variable -> its value, as a shell word, in a job that does not set the folder.

OpenPAI 0.7 uses the same values, and only then creates the output folder.
"""

MAKE_OUTPUT: Final = '(umask 0; mkdir -p "$PAI_OUTPUT_DIR") || true'
"""Command that creates the output folder for a job that does not set one. All users can write there."""

COPY_CODE: Final = (
    'cp -rHf "${PAI_CODE_DIR%/}" . || '
    '{ echo "luigi_pai: the code folder $PAI_CODE_DIR cannot be copied to $PWD" >&2; exit 1; }'
)
"""Command that copies the code folder to the working folder, even if a copy exists (in a task's retry)."""


@dataclass(frozen=True)
class StorageMount:
    """A storage that jobs mount.

    Attributes:
        name: The storage's name on the cluster.
        path: The storage's absolute path in containers, without a trailing slash; ``/mnt/NAME`` by default.
        by_plugin: Whether the ``teamwise_storage`` runtime plugin mounts it (0.16 and 0.17). The plugin uses
            the path in the cluster's configuration, which must equal ``path``.
    """

    name: str
    path: str = ""
    by_plugin: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.path.rstrip("/") or f"/mnt/{self.name}")

    def has(self, path: str) -> bool:
        """Return whether a path in containers is on the storage."""
        return f"{path}/".startswith(f"{self.path}/")


def with_storage(protocol: JobProtocol, mount: StorageMount) -> JobProtocol:
    """Return a copy of a protocol that also mounts a storage.

    A protocol that already mounts the storage, at any path, is returned unchanged. The same applies to a
    protocol that requests the user's default storages, with ``storages: []`` or with the plugin without
    names: adding a name would replace the defaults, so the storage is mounted only if it is one of them.

    If a protocol names its storages only in the plugin, the storage is added there on all releases. 1.0 and
    later mount such storages at ``/mnt/NAME``.
    """
    changed = copy.deepcopy(protocol)
    extras = changed.extras
    plugins = [each for each in extras.runtimePlugins if each.plugin == _PLUGIN]
    named = [list_of(each.parameters, _NAMES) for each in plugins]
    listed = UNSET if mount.by_plugin else extras.storages  # releases that use the plugin ignore the list
    if listed == [] or [] in named:
        return protocol
    storages = [] if isinstance(listed, Unset) else listed
    if any(mount.name in each for each in (*named, [each.name for each in storages])):
        return protocol
    if not mount.by_plugin and (storages or not plugins):
        extras.storages = [*storages, Storage(mount.name, mountPath=mount.path)]
        return changed
    for plugin, names in zip(plugins, named, strict=True):
        if not plugin.taskroles:
            plugin.parameters[_NAMES] = [*names, mount.name]
            return changed
    extras.runtimePlugins.append(RuntimePlugin(_PLUGIN, parameters={_NAMES: [mount.name]}))
    return changed


def with_output(protocol: JobProtocol, mount: StorageMount, folder: str) -> JobProtocol:
    """Return a copy of a protocol that mounts a storage, and whose roles export an output folder on it.

    If the protocol already mounts the storage, the folder is under the protocol's mount path.
    """
    extras = protocol.extras
    listed = [] if isinstance(extras.storages, Unset) else extras.storages
    paths = [each.mountPath for each in listed if each.name == mount.name and isinstance(each.mountPath, str)]
    mounted = StorageMount(mount.name, paths[0] if paths else mount.path)
    path = mounted.path + container_path(folder, mount).removeprefix(mount.path)
    root, output = (shell_word(each, mounted, expand=False) for each in (mounted.path, path))
    return exporting(with_storage(protocol, mount), PAI_DEFAULT_FS_URI=root, PAI_OUTPUT_DIR=output)


def exporting(protocol: JobProtocol, **words: str) -> JobProtocol:
    """Return a copy of a protocol whose roles first export variables. ``words`` are shell words."""
    changed = copy.deepcopy(protocol)
    for role in changed.taskRoles.values():
        role.commands = [export(words), *role.commands]
    return changed


def export(words: Mapping[str, object]) -> str:
    """Return the command that exports variables, each as a shell word."""
    return "export " + " ".join(f"{name}={word}" for name, word in words.items())


def container_path(path: str, mount: StorageMount) -> str:
    """Convert a path as a task may write it to the path in containers.

    ``$PAI_DEFAULT_FS_URI/p``, ``${PAI_DEFAULT_FS_URI}/p`` and ``/p`` become ``MOUNT/p``. ``MOUNT/p``,
    relative paths and URIs (``s3://b/p``, ``hdfs://HOST/p``) are returned unchanged.
    """
    if found := _DEFAULT_FS.match(path):
        return mount.path + path[found.end() :]
    return mount.path + path if path.startswith("/") and not mount.has(path) else path


def container_paths(paths: str, mount: StorageMount) -> str:
    """Convert comma-separated paths to paths in containers."""
    return re.sub(r"[^,\s][^,]*", lambda found: container_path(found[0], mount), paths)


def shell_word(paths: str, mount: StorageMount, *, expand: bool) -> str:
    """Convert comma-separated paths to paths in containers, as one shell word.

    If ``expand`` is true, the shell expands variables in the paths.
    """
    starts = re.compile(rf"(?:(?<=[, ])|^)(?={re.escape(mount.path)}(?:[/,]|$))")
    if expand:
        return f'"{starts.sub(_LOCAL_MOUNTS, paths)}"'
    return f'"{_LOCAL_MOUNTS}"'.join(shlex.quote(part) if part else "" for part in starts.split(paths))


@functools.cache
def hdfs_command() -> str:
    """Return a command that creates ``hdfs`` and ``hadoop`` commands if the image does not have ``hdfs``.

    They are in ``.luigi_pai`` in the working folder or, if that is not writable, in a new temporary folder.
    """
    unpack = packed(Path(__file__).with_name("hdfs_shim.sh").read_bytes())
    return (
        "command -v hdfs >/dev/null || { _pai=$PWD/.luigi_pai; "
        '{ mkdir -p "$_pai" && : >"$_pai/hdfs"; } 2>/dev/null || _pai=$(mktemp -d) && '
        f'{unpack} >"$_pai/hdfs" && '
        'chmod 755 "$_pai" "$_pai/hdfs" && ln -sf hdfs "$_pai/hadoop" && export PATH="$PATH:$_pai"; } || '
        'echo "luigi_pai: the hdfs command cannot be written: the image needs base64 and gzip" >&2'
    )
