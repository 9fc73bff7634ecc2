"""The ``[OpenPai]`` and ``[OpenPai:NAME]`` sections of luigi.cfg."""

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
        urls: Each NameNode's WebHDFS URL, as configured.
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
    """A setting hidden from logs, task IDs and the scheduler, and rejected on command lines."""

    def __init__(self, **declared: Any) -> None:
        super().__init__(significant=False, visibility=ParameterVisibility.PRIVATE, **declared)

    @classmethod
    def _parser_kwargs(cls, *names: Any) -> dict[str, Any]:
        """Return the ``add_argument`` arguments for the option that Luigi adds for each parameter."""
        return {**super()._parser_kwargs(*names), "action": _RefusedOption}  # type: ignore[no-untyped-call]


def _parameters() -> type:
    """Return a class with a Luigi parameter for each setting, so that each is a ``luigi`` option."""
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
    """The settings, named like the keys of ``[OpenPai]`` in luigi.cfg.

    ``luigi.contrib.pai`` also has the first four keys. Durations are in seconds.

    Each additional cluster has an ``[OpenPai:NAME]`` section with the same keys; ``current("NAME")`` returns
    its settings. The section must set ``pai_url`` and ``username``. For timeouts, polling, ``console`` and
    task defaults (``on_kill``, ``logs``, ...), values in ``[OpenPai]`` apply unless the section sets them.

    Pickles do not contain secrets; unpickling reads them from luigi.cfg.

    Attributes:
        section: The section of luigi.cfg, ``OpenPai`` or ``OpenPai:NAME``.
    """

    _made_for: Cluster | None = None  # set if the settings belong to a Cluster that the user created

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
        """Read the section. A ConfigError contains no values, while Luigi's own errors may show a password.

        Raises:
            ConfigError: Some keys cannot be read. The message names each of them.
        """
        given = {*kwargs, *(name for name, _ in params[: len(args)])}
        values = section_values(cls.section, given)
        return super().get_param_values(params, args, {**values, **kwargs})  # type: ignore[no-untyped-call]

    @classmethod
    def current(cls, cluster: str | Cluster | None = None) -> OpenPai:
        """Return the checked settings. They are read again only if their sources have changed.

        Args:
            cluster: The NAME in ``[OpenPai:NAME]``. If None or empty, NAME comes from the
                ``LUIGI_PAI_CLUSTER`` environment variable; if that is not set, ``[OpenPai]`` is read.
                For a Cluster, its own settings are returned. If you constructed the Cluster yourself, task
                settings come from ``[OpenPai]``, and there is no file system.

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
        """Return the Cluster for these settings, the same object on each call until ``reset_clusters()``.

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

        The URLs are in ``webhdfs_url``. If neither ``webhdfs_url`` nor ``storage`` is set, ``[OpenPai]`` uses
        Luigi's own keys: ``namenode_host`` and ``user`` in ``[hdfs]``, and ``port``, ``user`` and
        ``client_type`` in ``[webhdfs]``.
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
        """Whether the cluster has a file system (HDFS or a storage)."""
        return bool(self.storage) or self.hdfs_account() is not None

    def tls_verify(self) -> bool | str:
        """Return ``verify`` as requests expects it: True, False, or the path of a CA file."""
        return tls_verify(self.verify)


_SETTINGS: dict[str, type[OpenPai]] = {}


def _settings_of(section: str) -> type[OpenPai]:
    """Return the subclass named like ``section``. Luigi reads the section named like the class."""
    known = _SETTINGS.get(section)
    if known is None:
        members = {"__module__": __name__, "task_namespace": "", "section": section}
        made = types.new_class(section, (OpenPai,), exec_body=lambda body: body.update(members))
        known = _SETTINGS.setdefault(section, made)  # all threads get the same class
    return known
