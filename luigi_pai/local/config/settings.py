"""The local server's settings, addresses and virtual clusters."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.rules import parse_faults
from luigi_pai.local.releases import RELEASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FORM = re.compile(r"([A-Za-z0-9_-]+)(?::(.*))?", re.DOTALL)
_COUNT = re.compile(r"(cpu|memory|gpu)=([0-9]{1,12})")


@dataclass(frozen=True)
class Resources:
    """CPUs, memory (in MB) and GPUs: a virtual cluster's capacity, or a task's request."""

    cpu: int = 0
    memory: int = 0
    gpu: int = 0

    @classmethod
    def from_role(cls, role: Mapping[str, Any]) -> Resources:
        """Return the resources that each of a role's tasks requests; a negative count means 0."""
        wanted = (role[key] for key in ("cpuNumber", "memoryMB", "gpuNumber"))
        return cls(*(max(0, number) for number in wanted))

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.cpu + other.cpu, self.memory + other.memory, self.gpu + other.gpu)

    def __sub__(self, other: Resources) -> Resources:
        return Resources(self.cpu - other.cpu, self.memory - other.memory, self.gpu - other.gpu)

    def beyond(self, limit: Resources) -> dict[str, int]:
        """Return the counts that exceed a limit, by field name; empty if no count exceeds it."""
        most = asdict(limit)
        return {name: count for name, count in asdict(self).items() if count > most[name]}


_DEFAULT = Resources(cpu=64, memory=256 * 1024, gpu=8)
"""A virtual cluster's default capacity, the same on every machine."""


def virtual_clusters(definitions: Iterable[str]) -> dict[str, Resources]:
    """Parse virtual clusters, ``NAME`` or ``NAME:cpu=N,memory=MB,gpu=N``; return their capacities by name.

    ``default`` always exists and comes first. If several strings have the same name, the last one applies.

    Raises:
        ConfigError: a string has neither form.
    """
    clusters = {"default": _DEFAULT}
    for definition in definitions:
        form = _FORM.fullmatch(definition)
        if form is None:
            raise ConfigError(
                f"virtual cluster {definition.partition(':')[0]!r}: a name consists of letters, digits, "
                "_ and -"
            )
        counts = {}
        for part in [] if form[2] is None else form[2].split(","):
            count = _COUNT.fullmatch(part)
            if count is None or count[1] in counts:
                raise ConfigError(
                    f"virtual cluster {definition!r}: it is not of the form NAME:cpu=N,memory=MB,gpu=N, "
                    "in which each count is a whole number and any may be left out"
                )
            counts[count[1]] = int(count[2])
        clusters[form[1]] = replace(_DEFAULT, **counts)
    return clusters


DEFAULT_API = "v2"
DEFAULT_PORT = 9186
DEFAULT_USER = "admin"
FIRST_STORAGE = "nfs1"
"""The storage in a new data folder."""

DEFAULT_PASSWORD = "admin-password"  # noqa: S105 - the documented password of a server on loopback
PASSWORD_VARIABLE = "LUIGI_PAI_LOCAL_PASSWORD"  # noqa: S105 - a name, not a password
DEFAULT_LIMITS = (600, 60, 60)
"""The limits for ``--rate-limits default``: calls per minute and address, lists per minute and user,
submissions per hour and user."""
_WEB = ("http", "https")
_FS_SCHEMES = ("hdfs", "viewfs", "webhdfs", "swebhdfs")


@dataclass(frozen=True)
class Settings:
    """The settings of a server: the arguments of `LocalPai`, and ``host``, which only the command line sets.

    Attributes:
        host: the address to listen on.
        user: the administrator's name.
        password: the administrator's password; it replaces the password in an existing data folder.
        hdfs: True for the server's own HDFS, the URL of a real HDFS, or None for the release's default.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    user: str = DEFAULT_USER
    password: str = field(default=DEFAULT_PASSWORD, repr=False)
    virtual_clusters: tuple[str, ...] = ()
    max_tasks: int = 64
    stop_grace: float = 5.0
    hdfs: Literal[True] | str | None = None
    fs_uri: str | None = None
    api: str = DEFAULT_API
    faults: Any = None
    rate_limits: str | None = None

    def check(self) -> None:
        """Raise ConfigError if the settings cannot work, or would expose this machine to other machines."""
        if not self.user.isascii() or not self.user.replace("_", "a").isalnum():
            raise ConfigError(f"user {self.user!r}: OpenPAI takes letters, digits and _ only")
        if self.api not in RELEASES:
            raise ConfigError(f"api {self.api!r}: it must be one of {', '.join(RELEASES)}")
        _check_password(self.password)
        virtual_clusters(self.virtual_clusters)
        parse_limits(self.rate_limits)
        self._check_hdfs()
        if self.faults is not None:
            parse_faults(self.faults)
        if self.api == "v1" and self.rate_limits is not None:
            raise ConfigError(
                "--rate-limits belong to the v2 API, not to v1; leave them out, or use --api v2"
            )
        if not is_loopback(self.host):
            raise ConfigError(
                f"--host {self.host} would let other machines run commands on this one with your rights: "
                "give a loopback address; `ssh -L` leads to it from another machine"
            )

    def _check_hdfs(self) -> None:
        if isinstance(self.hdfs, str) and not _has_form(self.hdfs, _WEB):
            raise ConfigError(f"--hdfs {self.hdfs} is not of the form http://HOST:PORT")
        if self.fs_uri is not None and not isinstance(self.hdfs, str):
            raise ConfigError(
                "--fs-uri is the address of the HDFS that --hdfs URL names; also set --hdfs URL"
            )
        if self.fs_uri is not None and not _has_form(self.fs_uri, _FS_SCHEMES):
            raise ConfigError(f"--fs-uri {self.fs_uri} is not of the form hdfs://HOST:PORT")


@dataclass(frozen=True)
class Address:
    """A running server's host name or address, as clients write it, and its port."""

    host: str
    port: int

    @property
    def netloc(self) -> str:
        """``HOST:PORT``, an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The base URL of the REST API and the pages, and of WebHDFS unless a real HDFS is used."""
        return f"http://{self.netloc}"


@dataclass(frozen=True)
class HdfsAddress:
    """The URL of WebHDFS, without ``/webhdfs/v1``, and the URI of HDFS; both are empty without an HDFS."""

    webhdfs_url: str = ""
    fs_uri: str = ""


def write_whereabouts(data: Path, address: Address, hdfs: HdfsAddress) -> None:
    """Write the server's process, port, URL and HDFS to ``server.json`` in the data folder."""
    new = data / "server.json.new"
    known = {"pid": os.getpid(), "port": address.port, "url": address.url, **asdict(hdfs)}
    new.write_text(json.dumps(known), "utf-8")
    new.replace(data / "server.json")


def whereabouts(data: Path) -> dict[str, Any]:
    """Return the content of ``server.json``; empty if it does not exist yet."""
    try:
        known = json.loads((data / "server.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def is_loopback(host: str) -> bool:
    """Return whether a host is localhost or a loopback address, which only this machine can reach."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def default_data_folder() -> Path:
    """Return the default data folder: luigi_pai/local in XDG_DATA_HOME or, if unset, ~/.local/share."""
    base = os.environ.get("XDG_DATA_HOME", "")
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "share"
    return root / "luigi_pai" / "local"


def parse_limits(limits: str | None) -> tuple[int, int, int] | None:
    """Parse ``default`` or ``CALLS,LISTS,SUBMISSIONS``; None stays None. Else raise ConfigError."""
    if limits is None:
        return None
    if limits == "default":
        return DEFAULT_LIMITS
    found = re.fullmatch(r"([1-9]\d{0,8}),([1-9]\d{0,8}),([1-9]\d{0,8})", limits)
    if found is None:
        raise ConfigError(
            f"--rate-limits {limits}: it must be `default` or three numbers, such as 600,60,60: calls a "
            "minute, lists a minute, submissions an hour"
        )
    return int(found[1]), int(found[2]), int(found[3])


def _has_form(url: str, schemes: tuple[str, ...]) -> bool:
    """Return whether a URL has one of the schemes and a host, but no user, space, query or fragment."""
    try:
        parts = urlsplit(url)
        port_is_right = parts.port != 0
    except ValueError:
        return False
    plain = url.split() == [url] and url.isprintable() and "@" not in parts.netloc
    short = not (parts.query or parts.fragment)
    return plain and short and port_is_right and parts.scheme in schemes and bool(parts.hostname)


def _check_password(password: str) -> None:
    """Reject a password that OpenPAI or luigi.cfg cannot store. The message never shows the password."""
    minimum = 6
    if len(password) < minimum:
        raise ConfigError(f"the password in {PASSWORD_VARIABLE} is shorter than {minimum} characters")
    if password != password.strip() or not password.isprintable() or "${" in password:
        raise ConfigError(
            f"the password in {PASSWORD_VARIABLE} has a space at its start or end, a control character or "
            "${ in it, which luigi.cfg cannot carry"
        )
