"""The ``[OpenPai]`` section of luigi.cfg."""

from __future__ import annotations

import configparser
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import luigi
from luigi.parameter import ParameterVisibility

from luigi_pai.errors import ConfigError

__all__ = ["OpenPai"]

_SHORTEST_LOGIN, _LONGEST_LOGIN = 60, 604800  # seconds; servers refuse others


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
    fs_uri = luigi.OptionalParameter(
        default=None,
        description="what $PAI_DEFAULT_FS_URI stands for on the cluster: hdfs://HOST:PORT",
    )
    webhdfs_url = luigi.OptionalParameter(
        default=None, description="WebHDFS of that file system: http://HOST:PORT"
    )
    hdfs_user = luigi.OptionalParameter(
        default=None, description="user on HDFS; the username where not given"
    )
    portal_url = luigi.OptionalParameter(
        default=None, description="web portal, for the links to a job's page"
    )
    verify = luigi.Parameter(
        default="true", description="check TLS certificates: true, false, or a file of CA certificates"
    )
    connect_timeout = luigi.FloatParameter(default=10.0, description="seconds to wait for a connection")
    read_timeout = luigi.FloatParameter(default=30.0, description="seconds to wait for an answer")
    poll_min = luigi.FloatParameter(default=0.5, description="shortest wait between two looks at a job")
    poll_max = luigi.FloatParameter(default=30.0, description="longest wait between two looks at a job")
    poll_patience = luigi.FloatParameter(
        default=1800.0, description="how long an unreachable server is waited for while a job runs"
    )

    if TYPE_CHECKING:  # Luigi's own has no types

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    @classmethod
    def get_param_values(cls, params: Any, args: Any, kwargs: Any) -> Any:
        """Read the section; Luigi's own error for a value that it cannot read may show a password.

        Raises:
            ConfigError: naming each key that cannot be read.
        """
        family = cls.get_task_family()  # type: ignore[no-untyped-call]
        wrong = []
        for name, parameter in params:
            try:
                parameter.has_task_value(family, name)
            except configparser.Error as error:
                if type(error).__name__ == "InterpolationMissingEnvvarError":
                    wrong.append(f"{name} names an environment variable, ${{...}}, that is not set; set it")
                else:
                    wrong.append(f"{name} has a % that does not stand for anything; write it as %%")
            except ValueError:
                kind = "a whole number" if isinstance(parameter, luigi.IntParameter) else "a number"
                wrong.append(f"{name} is not {kind}")
        if wrong:
            raise ConfigError("[OpenPai] in luigi.cfg: " + "; ".join(wrong))
        return super().get_param_values(params, args, kwargs)  # type: ignore[no-untyped-call]

    def check(self) -> None:
        """Refuse values that cannot work, all at once.

        Raises:
            ConfigError: naming each key that is wrong and what to write.
        """
        addresses = {name: getattr(self, name) or "" for name in ("pai_url", "webhdfs_url", "portal_url")}
        wrong = [
            f"{name} must not carry a user or password; use username and password"
            for name, address in addresses.items()
            if "@" in address
        ]
        wrong += [
            f"{name} = {address!r} is not an http:// or https:// address"
            for name, address in addresses.items()
            if address and "@" not in address and not _is_http(address)
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
            for name in ("connect_timeout", "read_timeout", "poll_min", "poll_max", "poll_patience")
            if not 0 < getattr(self, name) < math.inf
        ]
        if self.poll_max < self.poll_min:
            wrong.append(f"poll_max = {self.poll_max} is less than poll_min = {self.poll_min}")
        ca_file = self.tls_verify()
        if isinstance(ca_file, str) and not Path(ca_file).exists():
            wrong.append(f"verify = {ca_file!r} is neither true nor false nor a file that exists")
        if wrong:
            raise ConfigError("[OpenPai] in luigi.cfg: " + "; ".join(wrong))

    def tls_verify(self) -> bool | str:
        """Return ``verify`` as requests takes it: True, False, or the path of a CA file."""
        word = str(self.verify).strip()
        if word.lower() in ("true", "yes", "1", ""):
            return True
        if word.lower() in ("false", "no", "0"):
            return False
        return os.path.expandvars(str(Path(word).expanduser()))


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        plain = url.split() == [url] and not parts.query and not parts.fragment
        return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
