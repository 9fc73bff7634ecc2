"""The sections ``[OpenPai]`` and ``[OpenPai:NAME]`` of luigi.cfg."""

from __future__ import annotations

import argparse
import functools
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import luigi
import luigi.configuration
from luigi.parameter import ParameterVisibility

from luigi_pai.cluster_settings import ClusterSettings, section_values
from luigi_pai.config_file import SECTION, chosen_section, configuration
from luigi_pai.settings import SETTINGS, Scope, split_urls, tls_verify

if TYPE_CHECKING:
    from typing import NoReturn

    from luigi_pai.api.cluster import Cluster

__all__ = ["HdfsAccount", "OpenPai"]

_LUIGIS_PORT = 50070  # Luigi's default for port in [webhdfs]


@dataclass(frozen=True)
class HdfsAccount:
    """The URLs, user and authentication for access to HDFS.

    Attributes:
        urls: The URL of the WebHDFS of each NameNode, as configured.
        user: The user on HDFS.
        auth: ``simple`` or ``kerberos``.
    """

    urls: tuple[str, ...]
    user: str
    auth: str


class _RefusedOption(argparse.Action):
    """An option that exits with an error, because every user of the machine can read command lines."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,  # noqa: ARG002
        values: object,  # noqa: ARG002  the secret
        option_string: str | None = None,
    ) -> NoReturn:
        key = str(option_string).rpartition("-")[2]
        parser.exit(
            2,
            f"{parser.prog}: {option_string} is not accepted, because other users can read command lines; "
            f"nothing was run. Write {key} = ${{PAI_{key.upper()}}} into luigi.cfg, and set this environment "
            "variable\n",
        )


class _SecretParameter(luigi.OptionalParameter):
    """A setting that never appears in logs, task IDs or the scheduler, and is refused on command lines."""

    def __init__(self, **declared: Any) -> None:
        super().__init__(significant=False, visibility=ParameterVisibility.PRIVATE, **declared)

    @classmethod
    def _parser_kwargs(cls, *names: Any) -> dict[str, Any]:
        """Return the arguments of ``add_argument`` for the option that Luigi adds for each parameter."""
        return {**super()._parser_kwargs(*names), "action": _RefusedOption}  # type: ignore[no-untyped-call]


def _parameters() -> type:
    """Return a class with a Luigi parameter for each setting, so that each is an option of ``luigi``."""
    classes = {**vars(luigi), "SecretParameter": _SecretParameter}
    return type(
        "_Parameters",
        (),
        {
            key: classes[setting.kind.parameter](default=setting.default, description=setting.summary)
            for key, setting in SETTINGS.items()
        },
    )


if TYPE_CHECKING:

    class _Parameters: ...

else:
    _Parameters = _parameters()


class _Everything(set[str]):
    """A set that contains every string."""

    def __contains__(self, _: object) -> bool:
        return True


class OpenPai(_Parameters, ClusterSettings, luigi.Config):
    """The settings. Each one has the name of a key of ``[OpenPai]`` in luigi.cfg.

    ``luigi.contrib.pai`` also has the first four keys. Durations are in seconds.

    An additional cluster has a section ``[OpenPai:NAME]`` with the same keys; ``current("NAME")`` returns its
    settings. The section must have ``pai_url`` and ``username``. If it has no keys for timeouts, polling,
    ``console`` or the defaults of tasks (``on_kill``, ``logs``, ...), the values in ``[OpenPai]`` apply.

    A pickle does not contain secrets; unpickling reads them from luigi.cfg.

    Attributes:
        section: The section of luigi.cfg, ``OpenPai`` or ``OpenPai:NAME``.
    """

    _made_for: Cluster | None = None  # the Cluster, if the settings belong to one that the user created

    _unconsumed_params = _Everything()  # prevents Luigi's warning about unknown keys, which shows values

    if TYPE_CHECKING:  # Luigi's __init__ has no types

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __reduce__(self) -> tuple[Any, ...]:
        public = {key: value for key, value in self.param_kwargs.items() if not SETTINGS[key].is_secret}
        return functools.partial(type(self), **public), ()

    def __copy__(self) -> OpenPai:
        return self  # settings never change

    def __deepcopy__(self, _memory: object) -> OpenPai:
        return self

    @classmethod
    def get_param_values(cls, params: Any, args: Any, kwargs: Any) -> Any:
        """Read the section. A ConfigError contains no values; errors raised by Luigi may contain a password.

        Raises:
            ConfigError: Keys cannot be read. The message names each of them.
        """
        given = {*kwargs, *(name for name, _ in params[: len(args)])}
        values = section_values(cls.section, given)
        return super().get_param_values(params, args, {**values, **kwargs})  # type: ignore[no-untyped-call]

    @classmethod
    def current(cls, cluster: str | Cluster | None = None) -> OpenPai:
        """Return the checked settings. They are read again only if their sources have changed.

        Args:
            cluster: The NAME of ``[OpenPai:NAME]``. If None or empty, the environment variable
                ``LUIGI_PAI_CLUSTER`` contains the NAME; if the variable is not set, ``[OpenPai]`` is read.
                For a Cluster, its own settings are returned; if you have constructed it, the settings of
                tasks are those in ``[OpenPai]``, and there is no file system.

        Raises:
            ConfigError: There is no such section, or a setting is invalid.
        """
        if cluster is not None and not isinstance(cluster, str):
            return cluster.settings or cls._for_cluster(cluster)
        section = chosen_section(cluster)
        kind = cls if section == SECTION else _settings_of(section)
        kept = configuration().kept
        if kind not in kept:
            settings = kind(**section_values(section))  # without values, Luigi would read them twice
            settings.check()
            if settings.console == "quiet":
                from luigi_pai.console import install  # noqa: PLC0415  few processes need it

                install()
            kept[kind] = settings
        current: OpenPai = kept[kind]
        return current

    @classmethod
    def _for_cluster(cls, cluster: Cluster) -> OpenPai:
        """Return the settings of a Cluster that the user constructed."""
        values = {key: each.default for key, each in SETTINGS.items() if each.scope is Scope.CLUSTER}
        values |= {"pai_url": cluster.url, "username": cluster.username}
        values["api_version"] = cluster.book.api.detector.given or "auto"
        settings: OpenPai = type.__call__(cls, **values)  # not from Luigi's cache of equal objects
        settings._made_for, cluster.settings = cluster, settings
        return settings

    def cluster(self) -> Cluster:
        """Return the Cluster of these settings; all calls return the same object until ``reset_clusters()``.

        Raises:
            ConfigError: A setting is invalid.
        """
        if self._made_for is not None:
            return self._made_for
        cluster = super().cluster()
        cluster.settings = self
        return cluster

    def hdfs_account(self) -> HdfsAccount | None:
        """Return the URLs, user and authentication of HDFS; None if no HDFS is configured.

        The URLs are in ``webhdfs_url``. If neither it nor ``storage`` is set, ``[OpenPai]`` uses Luigi's own
        keys: ``namenode_host`` and ``user`` of ``[hdfs]``, ``port``, ``user`` and ``client_type`` of
        ``[webhdfs]``.
        """
        kept, key = configuration().kept, (HdfsAccount, self)
        if key not in kept:
            kept[key] = self._hdfs_account()
        account: HdfsAccount | None = kept[key]
        return account

    def _hdfs_account(self) -> HdfsAccount | None:
        if self._made_for is not None:
            return None
        urls = split_urls(self.webhdfs_url)
        if urls or self.section != SECTION or self.storage:
            return HdfsAccount(urls, self.hdfs_user or self.username, self.hdfs_auth) if urls else None
        luigis = luigi.configuration.get_config()
        hosts = split_urls(str(luigis.get("hdfs", "namenode_host", "")))
        port = luigis.get("webhdfs", "port", _LUIGIS_PORT)
        if not hosts:
            return None
        user = luigis.get("webhdfs", "user", "") or luigis.get("hdfs", "user", "")
        auth = "kerberos" if luigis.get("webhdfs", "client_type", "") == "kerberos" else self.hdfs_auth
        urls = tuple(f"http://{host}:{port}" for host in hosts)
        return HdfsAccount(urls, self.hdfs_user or user or self.username, auth)

    def storage_mount_path(self) -> str | None:
        """Return the path at which containers mount the storage; None without a storage."""
        if not self.storage:
            return None
        from luigi_pai.jobspec.storage.mount import StorageMount  # noqa: PLC0415  only with a storage

        return StorageMount(self.storage, self.storage_mount or "").path

    @property
    def has_files(self) -> bool:
        """Whether the cluster has a file system, an HDFS or a storage."""
        return bool(self.storage) or self.hdfs_account() is not None

    def tls_verify(self) -> bool | str:
        """Return ``verify`` in the form for requests: True, False, or the path of a CA file."""
        return tls_verify(self.verify)


_SETTINGS: dict[str, type[OpenPai]] = {}


def _settings_of(section: str) -> type[OpenPai]:
    """Return the subclass named like ``section``. Luigi reads the section with the name of the class."""
    known = _SETTINGS.get(section)
    if known is None:
        members = {"__module__": __name__, "task_namespace": "", "section": section}
        made = types.new_class(section, (OpenPai,), exec_body=lambda body: body.update(members))
        known = _SETTINGS.setdefault(section, made)  # all threads get the same class
    return known
