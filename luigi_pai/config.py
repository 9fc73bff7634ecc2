"""The sections ``[OpenPai]`` and ``[OpenPai:NAME]`` of luigi.cfg."""

from __future__ import annotations

import configparser
import functools
import logging
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import luigi
import luigi.configuration

from luigi_pai.config_checks import split_urls, tls_verify
from luigi_pai.config_file import (
    SECTION,
    chosen_section,
    configuration,
    has_key,
    is_given_to_luigi,
    misspelled_sections,
    unknown_keys,
    unreadable_files,
    unset_variables,
)
from luigi_pai.errors import ConfigError
from luigi_pai.settings import SETTINGS, Scope, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.api.cluster import Cluster

__all__ = ["HdfsAccount", "OpenPai"]

_LUIGIS_PORT = 50070  # Luigi's default for port in [webhdfs]
_KINDS = {luigi.BoolParameter: "true or false", luigi.IntParameter: "a whole number"}

logger = logging.getLogger("luigi-interface")


@dataclass(frozen=True)
class HdfsAccount:
    """The URLs, the user and the authentication for access to HDFS.

    Attributes:
        urls: the URL of the WebHDFS of each NameNode, as configured.
        user: the user on HDFS.
        auth: ``simple`` or ``kerberos``.
    """

    urls: tuple[str, ...]
    user: str
    auth: str


class _Everything(set[str]):
    """A set that contains every string."""

    def __contains__(self, _: object) -> bool:
        return True


class OpenPai(Settings, luigi.Config):
    """The settings. Each of them has the name of a key of ``[OpenPai]`` in luigi.cfg.

    ``luigi.contrib.pai`` also has the first four keys. Durations are in seconds.

    A further cluster has a section ``[OpenPai:NAME]`` with the same keys; ``current("NAME")`` returns its
    settings. The section must have ``pai_url`` and ``username``. If it lacks keys for timeouts, polling,
    ``console`` or the defaults of tasks (``on_kill``, ``logs``, ...), the values in ``[OpenPai]`` apply.

    A pickle has no secrets; unpickling reads them from luigi.cfg.

    Attributes:
        section: the section of luigi.cfg, ``OpenPai`` or ``OpenPai:NAME``.
    """

    section = SECTION

    _made_for: Cluster | None = None  # if the settings are those of a Cluster that the user made

    _unconsumed_params = _Everything()  # prevents Luigi's warning of unknown keys, which shows values

    if TYPE_CHECKING:  # Luigi's __init__ has no types

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __reduce__(self) -> tuple[Any, ...]:
        given = {key: value for key, value in self.param_kwargs.items() if not SETTINGS[key].is_secret}
        return functools.partial(type(self), **given), ()

    def __copy__(self) -> OpenPai:
        return self  # settings never change

    def __deepcopy__(self, _memory: object) -> OpenPai:
        return self

    @classmethod
    def get_param_values(cls, params: Any, args: Any, kwargs: Any) -> Any:
        """Read the section. A ConfigError contains no values; errors raised by Luigi may contain a password.

        Raises:
            ConfigError: keys cannot be read; the text names each of them.
        """
        try:
            shared = {
                name: parameter.task_value(SECTION, name)
                for name, parameter in (params if cls.section != SECTION else ())
                if name not in kwargs and cls._source(name) != cls.section
            }
            return super().get_param_values(params, args, {**shared, **kwargs})  # type: ignore[no-untyped-call]
        except (configparser.Error, ValueError):
            wrong = cls._unreadable(params)
            if not wrong:
                raise
        raise cls._error(wrong)  # outside of the except block: a __context__ might contain a password

    @classmethod
    def _source(cls, key: str) -> str:
        """Return the section from which a key is read."""
        if cls.section == SECTION or SETTINGS[key].scope is Scope.CLUSTER:
            return cls.section
        return cls.section if has_key(cls.section, key) and not is_given_to_luigi(key) else SECTION

    @classmethod
    def _sourced(cls, problem: str) -> str:
        """Return a problem. If its key is read from another section, that section is added after the key."""
        key, blank, rest = problem.partition(" ")
        is_other = key in SETTINGS and cls._source(key) != cls.section
        return f"{key} of [{SECTION}]{blank}{rest}" if is_other else problem

    @classmethod
    def _unreadable(cls, params: Any) -> list[str]:
        """Return the problems of the keys that cannot be read."""
        wrong = []
        for key, parameter in params:
            source = cls._source(key)
            try:
                parameter.has_task_value(source, key)
            except configparser.Error as error:
                if type(error).__name__ == "InterpolationMissingEnvvarError":
                    wrong.append(f"{key} needs {unset_variables(source, key)}; set it, or write the value")
                else:
                    wrong.append(f"{key} contains a single %; write %%")
            except ValueError:
                advice = getattr(SETTINGS[key].check, "advice", "")
                wrong.append(f"{key} is not {_KINDS.get(type(parameter), 'a number')}: use {advice}")
        return wrong

    @classmethod
    def _error(cls, problems: list[str]) -> ConfigError:
        return ConfigError(f"[{cls.section}] in luigi.cfg: " + "; ".join(map(cls._sourced, problems)))

    @classmethod
    def current(cls, cluster: str | Cluster | None = None) -> OpenPai:
        """Return the checked settings; they are read again only if their sources have changed meanwhile.

        Args:
            cluster: the NAME of ``[OpenPai:NAME]``. If None or empty, the environment variable
                ``LUIGI_PAI_CLUSTER`` gives the NAME; if the variable is not set, ``[OpenPai]`` is read.
                A Cluster stands for the settings it was made from; for one that you made, the settings
                of tasks are those in ``[OpenPai]``, and there is no file system.

        Raises:
            ConfigError: there is no such section, or a setting is wrong.
        """
        if cluster is not None and not isinstance(cluster, str):
            return cluster.settings or cls._of(cluster)
        section = chosen_section(cluster)
        kind = cls if section == SECTION else _settings_of(section)
        kept = configuration().kept
        if kind not in kept:
            settings = kind()
            settings.check()
            if settings.console == "quiet":
                from luigi_pai.console import install  # noqa: PLC0415  few processes need it

                install()
            kept[kind] = settings
        current: OpenPai = kept[kind]
        return current

    @classmethod
    def _of(cls, cluster: Cluster) -> OpenPai:
        """Return the settings of a Cluster that the user made."""
        own = {key: each.default for key, each in SETTINGS.items() if each.scope is Scope.CLUSTER}
        own |= {"pai_url": cluster.url, "username": cluster.username}
        own["api_version"] = cluster.book.api.detector.given or "auto"
        settings: OpenPai = type.__call__(cls, **own)  # not from Luigi's cache of equal objects
        settings._made_for, cluster.settings = cluster, settings
        return settings

    def cluster(self) -> Cluster:
        """Return the Cluster of these settings; all calls return the same object until ``reset_clusters()``.

        Raises:
            ConfigError: a setting is wrong.
        """
        from luigi_pai.api.polling import Polling  # noqa: PLC0415  only runs need luigi_pai.api
        from luigi_pai.api.registry import CLUSTERS  # noqa: PLC0415  as above

        if self._made_for is not None:
            return self._made_for
        known: tuple[OpenPai, Cluster] | None = CLUSTERS.cache.get(type(self))
        if known is not None and known[0] is self:
            return known[1]
        if configuration().kept.get(type(self)) is not self:
            self.check()
        cluster = CLUSTERS.get(
            url=self.pai_url,
            username=self.username,
            password=self.password,
            token=self.token,
            api_version=self.api_version,
            portal_url=self.portal_url,
            fs_uri=self.fs_uri,
            storage=self.storage,
            storage_mount=self.storage_mount,
            expiration=self.expiration,
            verify=tls_verify(self.verify),
            connect_timeout=self.connect_timeout,
            read_timeout=self.read_timeout,
            polling=Polling(self.poll_min, self.poll_max, self.poll_patience),
            retention=self.server_retention,
            section=self.section,
        )
        cluster.settings = self
        CLUSTERS.cache.put(type(self), (self, cluster))
        return cluster

    def check(self) -> None:
        """Check all values at once. An unknown key is logged as a warning, once per process.

        Raises:
            ConfigError: values are wrong; the text names each key and valid values.
        """
        self._warn_of_unknown_keys()
        problems = [*unreadable_files(self.section), *misspelled_sections()]
        for key, setting in SETTINGS.items():
            value = getattr(self, key)
            if value is setting.default:
                if setting.required and self.section != SECTION and not has_key(self.section, key):
                    problems.append(f"{key} is not set; write {setting.required}")
            elif setting.required and not value:
                problems.append(f"{key} is empty; write {setting.required}")
            elif setting.check is not None:
                problems += setting.check.problems(key, value)
        problems += self._contradictions()
        if problems:
            raise self._error(problems)

    def _contradictions(self) -> Iterator[str]:
        if self.poll_max < self.poll_min:
            yield f"poll_max = {self.poll_max} is less than poll_min = {self.poll_min}"
        if self.storage and bool(self.fs_uri) != bool(self.webhdfs_url):
            yield "storage stands beside one of fs_uri and webhdfs_url; set both for an HDFS, else neither"

    def _warn_of_unknown_keys(self) -> None:
        from luigi_pai.api.registry import CLUSTERS  # noqa: PLC0415  as in cluster()

        for key, advice in unknown_keys(self.section).items():
            said = ("unknown key", self.section, key)
            if not CLUSTERS.cache.get(said):
                CLUSTERS.cache.put(said, value=True)
                logger.warning("[%s] in luigi.cfg: unknown key %r; %s", self.section, key, advice)

    def hdfs_account(self) -> HdfsAccount | None:
        """Return the URLs, user and authentication of HDFS; None if no HDFS is configured.

        The URLs are in ``webhdfs_url``. If neither it nor ``storage`` is set, ``[OpenPai]`` takes
        Luigi's own keys: ``namenode_host`` and ``user`` of ``[hdfs]``, ``port``, ``user`` and ``client_type``
        of ``[webhdfs]``.
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
        """Return where containers mount the storage; None without a storage."""
        if not self.storage:
            return None
        from luigi_pai.jobspec.storage.mount import StorageMount  # noqa: PLC0415  only with a storage

        return StorageMount(self.storage, self.storage_mount or "").path

    @property
    def has_files(self) -> bool:
        """Whether the cluster has a file system, an HDFS or a storage."""
        return bool(self.storage) or self.hdfs_account() is not None

    def tls_verify(self) -> bool | str:
        """Return ``verify`` as requests takes it: True, False, or the path of a CA file."""
        return tls_verify(self.verify)


_SETTINGS: dict[str, type[OpenPai]] = {}


def _settings_of(section: str) -> type[OpenPai]:
    """Return the subclass named like ``section``. Luigi reads the section that has the name of the class."""
    known = _SETTINGS.get(section)
    if known is None:
        members = {"__module__": __name__, "task_namespace": "", "section": section}
        made = types.new_class(section, (OpenPai,), exec_body=lambda body: body.update(members))
        known = _SETTINGS.setdefault(section, made)  # all threads get the same class
    return known
