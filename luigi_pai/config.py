"""The ``[OpenPai]`` section of luigi.cfg."""

from __future__ import annotations

import configparser
import logging
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import luigi
import luigi.configuration
from luigi.parameter import ParameterVisibility

from luigi_pai.config_file import misspelled_sections, source, unknown_keys, unset_variables
from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.registry import Clusters

__all__ = ["HdfsAccount", "OpenPai"]

_SHORTEST_LOGIN, _LONGEST_LOGIN = 60, 604800  # seconds; servers refuse others
_DURATIONS = ("connect_timeout", "read_timeout", "poll_min", "poll_max", "poll_patience")
_OPTIONAL_DURATIONS = ("queue_timeout", "run_timeout", "server_retention")
_LUIGIS_PORT = 50070  # of its [webhdfs]

logger = logging.getLogger("luigi-interface")


@dataclass(frozen=True)
class HdfsAccount:
    """Where HDFS is, and as whom to go there.

    Attributes:
        urls: of the WebHDFS of each NameNode, as configured; at least one.
        user: the user on HDFS.
        auth: ``simple`` or ``kerberos``.
    """

    urls: tuple[str, ...]
    user: str
    auth: str


class _Everything(set[str]):
    """A set that has every text in it."""

    def __contains__(self, _: object) -> bool:
        return True


@dataclass(frozen=True)
class _Current:
    """The settings in force, what they were read from, and their cluster."""

    source: tuple[Any, ...]
    settings: OpenPai
    cluster: Cluster


class OpenPai(luigi.Config):
    """Where the cluster is, who the user is, how patient to be.

    Every name is a key of ``[OpenPai]`` in luigi.cfg. The first four are those
    of ``luigi.contrib.pai``. Durations are in seconds.
    """

    pai_url = luigi.Parameter(
        default="http://127.0.0.1:9186",
        description="rest-server of the cluster, with its path if it has one",
    )
    username = luigi.Parameter(default="admin", description="your username")
    password = luigi.OptionalParameter(
        default=None,
        significant=False,
        visibility=ParameterVisibility.PRIVATE,
        description="your password",
    )
    expiration = luigi.IntParameter(
        default=3600, description="life of a login in seconds, 60 to 604800; renewed when it ends"
    )
    token = luigi.OptionalParameter(
        default=None,
        significant=False,
        visibility=ParameterVisibility.PRIVATE,
        description="application token, used in place of the password",
    )
    api_version = luigi.Parameter(
        default="auto",
        description="dialect of the cluster: v1 (OpenPAI 0.7 to 0.14), v2 (0.15 to 1.8), auto to learn it",
    )
    fs_uri = luigi.OptionalParameter(
        default=None,
        description="what $PAI_DEFAULT_FS_URI stands for on the cluster: hdfs://HOST:PORT",
    )
    webhdfs_url = luigi.OptionalParameter(
        default=None,
        description="WebHDFS of that file system: http://HOST:PORT; of several NameNodes URL;URL",
    )
    webhdfs_redirect = luigi.OptionalParameter(
        default=None,
        description="how DataNodes are reached, where it is not as the NameNode says: http://PROXY/{host}:{port}",
    )
    hdfs_user = luigi.OptionalParameter(
        default=None, description="user on HDFS; the username where not given"
    )
    hdfs_auth = luigi.Parameter(
        default="simple", description="how HDFS knows the user: simple, or kerberos (its ticket)"
    )
    portal_url = luigi.OptionalParameter(
        default=None, description="web portal, for the links to a job's page"
    )
    verify = luigi.Parameter(
        default="true", description="check TLS certificates: true, false, or a file of CA certificates"
    )
    connect_timeout = luigi.FloatParameter(default=10.0, description="seconds to wait for a connection")
    read_timeout = luigi.FloatParameter(default=30.0, description="seconds to wait for an answer")
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
        description="what a run does if a job was submitted, and the server no longer knows how it ended: "
        "fail, or submit it anew",
    )
    on_kill = luigi.Parameter(
        default="leave",
        description="what becomes of a job when the process that watches it is ended: leave it to the "
        "next run, or stop it",
    )
    console = luigi.Parameter(
        default="luigi",
        description="what a terminal shows: all that luigi logs, or quiet, a line for each change of a job",
    )
    server_retention = luigi.OptionalFloatParameter(
        default=None,
        description="how long after its end the server knows a job; by release where not given",
    )

    _unconsumed_params = _Everything()  # Luigi's warning of an unknown key shows its value; ours does not

    if TYPE_CHECKING:  # Luigi's own has no types

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    @classmethod
    def get_param_values(cls, params: Any, args: Any, kwargs: Any) -> Any:
        """Read the section; Luigi's own error and warning for what it cannot read may show a password.

        Raises:
            ConfigError: naming each key that cannot be read.
        """
        try:
            return super().get_param_values(params, args, kwargs)  # type: ignore[no-untyped-call]
        except (configparser.Error, ValueError):
            wrong = cls._unreadable(params)
            if not wrong:
                raise
        raise ConfigError(
            "[OpenPai] in luigi.cfg: " + "; ".join(wrong)
        )  # here, so that no value is its context

    @classmethod
    def _unreadable(cls, params: Any) -> list[str]:
        """Say of each key that cannot be read what is wrong with it."""
        family = cls.get_task_family()  # type: ignore[no-untyped-call]
        wrong = []
        for name, parameter in params:
            try:
                parameter.has_task_value(family, name)
            except configparser.Error as error:
                if type(error).__name__ == "InterpolationMissingEnvvarError":
                    wrong.append(f"{name} names {unset_variables(family, name)}; set it, or write the value")
                else:
                    wrong.append(f"{name} has a % that does not stand for anything; write it as %%")
            except ValueError:
                kind = "a whole number" if isinstance(parameter, luigi.IntParameter) else "a number"
                wrong.append(f"{name} is not {kind}")
        return wrong

    @classmethod
    def current(cls) -> OpenPai:
        """Return the settings, checked, and read anew only when the configuration has changed.

        Raises:
            ConfigError: as ``check``.
        """
        cache = _registry().cache
        written = source()
        known: _Current | None = cache.get(cls)
        if known is None or known.source != written:
            settings = cls()
            if settings.console == "quiet":
                from luigi_pai.console import install  # noqa: PLC0415  as in _registry

                install()
            known = _Current(written, settings, settings.cluster())
            cache.put(cls, known)
        return known.settings

    def cluster(self) -> Cluster:
        """Return the cluster of these settings; the same one each time, until ``reset_clusters()``.

        Raises:
            ConfigError: a setting is wrong.
        """
        from luigi_pai.api.watcher import Polling  # noqa: PLC0415  as in _registry

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
        )

    def check(self) -> None:
        """Refuse values that cannot work, all at once.

        A key that does not exist is a warning in the log, once a process.

        Raises:
            ConfigError: naming each key that is wrong and what to write.
        """
        wrong = misspelled_sections()
        self._warn_of_unknown_keys()
        addresses = [(name, getattr(self, name) or "") for name in ("pai_url", "portal_url")]
        addresses += [("webhdfs_url", url) for url in _several(self.webhdfs_url)]
        wrong += [
            f"{name} must not carry a user or password; use username and password"
            for name, address in addresses
            if "@" in address
        ]
        wrong += [
            f"{name} = {address!r} is not an http:// or https:// address"
            for name, address in addresses
            if address and "@" not in address and not _is_http(address)
        ]
        if self.webhdfs_redirect and not _is_redirect(self.webhdfs_redirect):
            wrong.append(
                f"webhdfs_redirect = {self.webhdfs_redirect!r} is not of the form http://PROXY/{{host}}:{{port}}"
            )
        wrong += [
            f"{name} = {getattr(self, name)!r} is {none_of}"
            for name, words, none_of in (
                ("hdfs_auth", ("simple", "kerberos"), "neither simple nor kerberos"),
                ("api_version", ("auto", "v1", "v2"), "none of auto, v1 and v2"),
                ("on_forgotten", ("fail", "submit"), "neither fail nor submit"),
                ("on_kill", ("leave", "stop"), "neither leave nor stop"),
                ("console", ("luigi", "quiet"), "neither luigi nor quiet"),
            )
            if getattr(self, name) not in words
        ]
        if not self.pai_url:
            wrong.append("pai_url is empty; write the address of the rest-server, http://HOST:9186")
        if not self.username:
            wrong.append("username is empty; write your OpenPAI user name")
        if self.fs_uri and urlsplit(self.fs_uri).scheme not in ("hdfs", "viewfs", "webhdfs", "swebhdfs"):
            wrong.append(f"fs_uri = {self.fs_uri!r} is not of the form hdfs://HOST:PORT")
        if not _SHORTEST_LOGIN <= self.expiration <= _LONGEST_LOGIN:
            wrong.append(
                f"expiration = {self.expiration} is not from {_SHORTEST_LOGIN} to {_LONGEST_LOGIN} (seconds)"
            )
        wrong += [
            f"{name} = {getattr(self, name)} must be a number of seconds greater than 0"
            for name in (*_DURATIONS, *_OPTIONAL_DURATIONS)
            if not (getattr(self, name) is None and name in _OPTIONAL_DURATIONS)
            and not 0 < getattr(self, name) < math.inf
        ]
        if self.poll_max < self.poll_min:
            wrong.append(f"poll_max = {self.poll_max} is less than poll_min = {self.poll_min}")
        ca_file = self.tls_verify()
        if isinstance(ca_file, str) and not Path(ca_file).exists():
            wrong.append(f"verify = {ca_file!r} is neither true nor false nor a file that exists")
        if wrong:
            raise ConfigError("[OpenPai] in luigi.cfg: " + "; ".join(wrong))

    def _warn_of_unknown_keys(self) -> None:
        known = [name for name, _ in self.get_params()]  # type: ignore[no-untyped-call]
        cache = _registry().cache
        for key, advice in unknown_keys(known).items():
            if not cache.get(("unknown key", key)):
                cache.put(("unknown key", key), value=True)
                logger.warning("[OpenPai] in luigi.cfg: there is no key %r; %s", key, advice)

    def hdfs_account(self) -> HdfsAccount | None:
        """Return where HDFS is; the one place that knows whether there is one.

        That is ``webhdfs_url``; where it is not set, what Luigi's own client would
        take: ``namenode_host`` of ``[hdfs]``, and ``port``, ``user`` and
        ``client_type`` of ``[webhdfs]``. None where neither names one.
        """
        urls = _several(self.webhdfs_url)
        if urls:
            return HdfsAccount(urls, self.hdfs_user or self.username, self.hdfs_auth)
        luigis = luigi.configuration.get_config()
        hosts = _several(str(luigis.get("hdfs", "namenode_host", "")))
        port = luigis.get("webhdfs", "port", _LUIGIS_PORT)
        urls = tuple(f"http://{host}:{port}" for host in hosts)
        if not urls:
            return None
        user = luigis.get("webhdfs", "user", "") or luigis.get("hdfs", "user", "")
        auth = "kerberos" if luigis.get("webhdfs", "client_type", "") == "kerberos" else self.hdfs_auth
        return HdfsAccount(urls, self.hdfs_user or user or self.username, auth)

    def tls_verify(self) -> bool | str:
        """Return ``verify`` as requests takes it: True, False, or the path of a CA file."""
        word = str(self.verify).strip()
        if word.lower() in ("true", "yes", "1", ""):
            return True
        if word.lower() in ("false", "no", "0"):
            return False
        return os.path.expandvars(str(Path(word).expanduser()))


def _registry() -> Clusters:
    """Return the clusters of this process; they cost what only a run needs."""
    from luigi_pai.api.registry import CLUSTERS  # noqa: PLC0415

    return CLUSTERS


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        plain = url.split() == [url] and not parts.query and not parts.fragment
        return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _several(text: str | None) -> tuple[str, ...]:
    """Return what is in a setting that may hold several addresses."""
    return tuple(one.strip() for one in re.split("[;,]", text or "") if one.strip())


def _is_redirect(rule: str) -> bool:
    try:
        return _is_http(rule.format(host="h", port=1))
    except (LookupError, ValueError):
        return False
