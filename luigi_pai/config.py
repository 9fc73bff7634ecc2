"""The sections ``[OpenPai]`` and ``[OpenPai:NAME]`` of luigi.cfg."""

from __future__ import annotations

import configparser
import logging
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import luigi
import luigi.configuration

from luigi_pai.config_checks import kind_of, problems, split_urls, tls_verify
from luigi_pai.config_file import (
    SECTION,
    PickledSettings,
    SecretParameter,
    chosen_section,
    has_key,
    is_given_to_luigi,
    misspelled_sections,
    raw_settings,
    unknown_keys,
    unreadable_files,
    unset_variables,
)
from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.registry import Clusters

__all__ = ["HdfsAccount", "OpenPai"]

_LUIGIS_PORT = 50070  # Luigi's default for port in [webhdfs]
_REQUIRED = {  # keys that [OpenPai:NAME] must have, because their defaults are for [OpenPai] only
    "pai_url": "write pai_url = http://HOST:9186, the URL of its rest-server",
    "username": "write username = ..., your user name there",
}
_SHARED = (  # keys that [OpenPai:NAME] takes from [OpenPai] if it lacks them
    "connect_timeout",
    "read_timeout",
    "poll_min",
    "poll_max",
    "poll_patience",
    "queue_timeout",
    "run_timeout",
    "on_forgotten",
    "on_kill",
    "logs",
    "keep_logs",
    "max_attempts",
    "retry_exit_codes",
    "tags",
    "notify",
    "console",
)

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


@dataclass(frozen=True)
class _Current:
    """The current settings, what they were read from (to notice changes), and their cluster."""

    source: tuple[Any, ...]
    settings: OpenPai
    cluster: Cluster


class OpenPai(PickledSettings, luigi.Config):
    """The settings. Each of them has the name of a key of ``[OpenPai]`` in luigi.cfg.

    ``luigi.contrib.pai`` has the first four keys, too. Durations are in seconds.

    A further cluster has a section ``[OpenPai:NAME]`` with the same keys; ``current("NAME")`` returns its
    settings. The section must have ``pai_url`` and ``username``. If it lacks keys for timeouts, polling,
    ``console`` or the defaults of tasks (``on_kill``, ``logs``, ...), the values in ``[OpenPai]`` apply.

    Attributes:
        section: the section of luigi.cfg, ``OpenPai`` or ``OpenPai:NAME``.
    """

    section = SECTION

    pai_url = luigi.Parameter(
        default="http://127.0.0.1:9186",
        description="rest-server of the cluster, with its path if it has one",
    )
    username = luigi.Parameter(default="admin", description="your username")
    password = SecretParameter(description="your password")
    expiration = luigi.IntParameter(
        default=3600, description="lifetime of a login in seconds, 60 to 604800; renewed automatically"
    )
    token = SecretParameter(description="application token, used in place of the password")
    api_version = luigi.Parameter(
        default="auto",
        description="API of the cluster: v1 (OpenPAI 0.7 to 0.14), v2 (0.15 to 1.8, LTP), auto to detect it",
    )
    fs_uri = luigi.OptionalParameter(
        default=None,
        description="value of $PAI_DEFAULT_FS_URI on the cluster: hdfs://HOST:PORT",
    )
    webhdfs_url = luigi.OptionalParameter(
        default=None,
        description="WebHDFS of that file system: http://HOST:PORT; with several NameNodes URL;URL",
    )
    webhdfs_redirect = luigi.OptionalParameter(
        default=None,
        description="URL of DataNodes, if not the one that the NameNode sends: http://PROXY/{host}:{port}",
    )
    hdfs_user = luigi.OptionalParameter(default=None, description="user on HDFS; default: username")
    hdfs_auth = luigi.Parameter(
        default="simple", description="authentication on HDFS: simple, or kerberos (needs a ticket)"
    )
    portal_url = luigi.OptionalParameter(
        default=None, description="web portal, for the links to a job's page"
    )
    verify = luigi.Parameter(
        default="true", description="check TLS certificates: true, false, or a file of CA certificates"
    )
    connect_timeout = luigi.FloatParameter(default=10.0, description="seconds to wait for a connection")
    read_timeout = luigi.FloatParameter(default=30.0, description="seconds to wait for a reply")
    poll_min = luigi.FloatParameter(default=0.1, description="shortest wait between two lookups of a job")
    poll_max = luigi.FloatParameter(default=30.0, description="longest wait between two lookups of a job")
    poll_patience = luigi.FloatParameter(
        default=1800.0, description="how long transient errors are retried while a job runs"
    )
    queue_timeout = luigi.OptionalFloatParameter(
        default=None, description="how long a job may wait in the queue before it is stopped"
    )
    run_timeout = luigi.OptionalFloatParameter(
        default=None, description="how long a job may run before it is stopped"
    )
    on_forgotten = luigi.Parameter(
        default="fail",
        description="what a run does if the job was submitted and the server no longer has its result: "
        "fail, or submit it again",
    )
    on_kill = luigi.Parameter(
        default="leave",
        description="what becomes of a job when the process that watches it is ended: leave it to the "
        "next run, or stop it",
    )
    logs = luigi.Parameter(
        default="none",
        description="what Luigi's log shows of the containers' output while a job runs: none of it, or "
        "stream (all lines)",
    )
    keep_logs = luigi.BoolParameter(
        default=False, description="keep the logs of ended jobs on HDFS, in OUTPUT_DIR/_logs"
    )
    max_attempts = luigi.IntParameter(
        default=1, description="how often one run submits a job that fails, the first time included"
    )
    retry_exit_codes = luigi.OptionalParameter(
        default=None,
        description="exit codes after which the same run submits the job again, such as 75, 134-139; "
        "default: all",
    )
    tags = luigi.OptionalParameter(
        default=None, description="further tags of jobs, separated by commas (OpenPAI 1.3 and later)"
    )
    notify = luigi.OptionalParameter(
        default=None,
        description="of what the cluster notifies you: some of running, succeeded, stopped, failed, retried "
        "(OpenPAI 1.5 and later)",
    )
    console = luigi.Parameter(
        default="luigi",
        description="what a terminal shows: all that luigi logs, or quiet, a line for each change of a job",
    )
    server_retention = luigi.OptionalFloatParameter(
        default=None,
        description="how long the server keeps an ended job; default: that of the release",
    )

    _unconsumed_params = _Everything()  # prevents Luigi's warning of unknown keys, which shows values

    if TYPE_CHECKING:  # Luigi's __init__ has no types

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

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
        raise ConfigError(
            f"[{cls.section}] in luigi.cfg: " + "; ".join(wrong)
        )  # raised outside of the except block, so that it has no __context__ with a value

    @classmethod
    def _source(cls, key: str) -> str:
        """Return the section from which a key is read."""
        if cls.section == SECTION or key not in _SHARED:
            return cls.section
        return cls.section if has_key(cls.section, key) and not is_given_to_luigi(key) else SECTION

    @classmethod
    def _of(cls, key: str) -> str:
        """Return "of [SECTION]" for an error text about a key; empty if the key is read from this section."""
        return "" if cls._source(key) == cls.section else f" of [{cls._source(key)}]"

    @classmethod
    def _unreadable(cls, params: Any) -> list[str]:
        """Return the problems of the keys that cannot be read."""
        wrong = []
        for name, parameter in params:
            source, key = cls._source(name), f"{name}{cls._of(name)}"
            try:
                parameter.has_task_value(source, name)
            except configparser.Error as error:
                if type(error).__name__ == "InterpolationMissingEnvvarError":
                    wrong.append(f"{key} needs {unset_variables(source, name)}; set it, or write the value")
                else:
                    wrong.append(f"{key} contains a single %; write %%")
            except ValueError:
                wrong.append(f"{key} is not {kind_of(parameter)}")
        return wrong

    @classmethod
    def current(cls, cluster: str | None = None) -> OpenPai:
        """Return the checked settings; they are read again only if their sources have changed meanwhile.

        Args:
            cluster: the NAME of ``[OpenPai:NAME]``. If None or empty, the environment variable
                ``LUIGI_PAI_CLUSTER`` gives the NAME; if the variable is not set, ``[OpenPai]`` is read.

        Raises:
            ConfigError: there is no such section, or a setting is wrong.
        """
        section = chosen_section(cluster)
        kind = cls if section == SECTION else _settings_of(section)
        cache = _registry().cache
        source = raw_settings(section)
        known: _Current | None = cache.get(kind)
        if known is None or known.source != source:
            settings = kind()
            if settings.console == "quiet":
                from luigi_pai.console import install  # noqa: PLC0415  as in _registry

                install()
            known = _Current(source, settings, settings.cluster())
            cache.put(kind, known)
        return known.settings

    def cluster(self) -> Cluster:
        """Return the Cluster of these settings; all calls return the same object until ``reset_clusters()``.

        Raises:
            ConfigError: a setting is wrong.
        """
        from luigi_pai.api.polling import Polling  # noqa: PLC0415  as in _registry

        registry = _registry()
        known: _Current | None = registry.cache.get(type(self))
        if known is not None and known.settings is self:
            return known.cluster
        self.check()
        return registry.get(
            url=self.pai_url,
            username=self.username,
            password=self.password,
            token=self.token,
            api_version=self.api_version,
            portal_url=self.portal_url,
            fs_uri=self.fs_uri,
            expiration=self.expiration,
            verify=self.tls_verify(),
            connect_timeout=self.connect_timeout,
            read_timeout=self.read_timeout,
            polling=Polling(self.poll_min, self.poll_max, self.poll_patience),
            retention=self.server_retention,
            section=self.section,
        )

    def check(self) -> None:
        """Check all values at once. An unknown key is logged as a warning, once per process.

        Raises:
            ConfigError: values are wrong; the text names each key and valid values.
        """
        self._warn_of_unknown_keys()
        wrong = [*unreadable_files(self.section), *self._missing(), *misspelled_sections()]
        if wrong := [*wrong, *map(self._sourced, problems(self))]:
            raise ConfigError(f"[{self.section}] in luigi.cfg: " + "; ".join(wrong))

    def _missing(self) -> Iterator[str]:
        config = luigi.configuration.get_config()
        for key, advice in _REQUIRED.items() if self.section != SECTION else ():
            if not config.has_option(self.section, key):
                yield f"{key} is not set; {advice}"

    def _sourced(self, problem: str) -> str:
        """Return a problem. If its key is read from another section, that section is added after the key."""
        key, blank, text = problem.partition(" ")
        return f"{key}{self._of(key)}{blank}{text}"

    def _warn_of_unknown_keys(self) -> None:
        known = [name for name, _ in self.get_params()]  # type: ignore[no-untyped-call]
        cache = _registry().cache
        for key, advice in unknown_keys(self.section, known).items():
            said = ("unknown key", self.section, key)
            if not cache.get(said):
                cache.put(said, value=True)
                logger.warning("[%s] in luigi.cfg: unknown key %r; %s", self.section, key, advice)

    def hdfs_account(self) -> HdfsAccount | None:
        """Return the URLs, user and authentication of HDFS; None if no HDFS is configured.

        The URLs are in ``webhdfs_url``. If it is not set, the cluster of ``[OpenPai]`` uses Luigi's own keys:
        ``namenode_host`` and ``user`` of ``[hdfs]``; ``port``, ``user`` and ``client_type`` of ``[webhdfs]``.
        """
        urls = split_urls(self.webhdfs_url)
        if urls:
            return HdfsAccount(urls, self.hdfs_user or self.username, self.hdfs_auth)
        if self.section != SECTION:
            return None
        luigis = luigi.configuration.get_config()
        hosts = split_urls(str(luigis.get("hdfs", "namenode_host", "")))
        port = luigis.get("webhdfs", "port", _LUIGIS_PORT)
        urls = tuple(f"http://{host}:{port}" for host in hosts)
        if not urls:
            return None
        user = luigis.get("webhdfs", "user", "") or luigis.get("hdfs", "user", "")
        auth = "kerberos" if luigis.get("webhdfs", "client_type", "") == "kerberos" else self.hdfs_auth
        return HdfsAccount(urls, self.hdfs_user or user or self.username, auth)

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


def _registry() -> Clusters:
    """Return the registry of clusters. It is imported here, because only a run needs ``luigi_pai.api``."""
    from luigi_pai.api.registry import CLUSTERS  # noqa: PLC0415

    return CLUSTERS
