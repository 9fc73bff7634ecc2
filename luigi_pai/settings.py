"""Declares the keys of ``[OpenPai]`` and how their values are checked. Luigi is not imported."""

from __future__ import annotations

import enum
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from luigi_pai.redaction import layout_hint, with_hint

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHORTEST_LOGIN, _LONGEST_LOGIN = 60, 604800  # seconds; servers reject shorter or longer lifetimes
_EXIT_CODES = "exit codes or ranges, such as 1, 75 or 134-139"
_CODES = re.compile(r"\s*(-?\d+)\s*(?:-\s*(-?\d+)\s*)?")
_HDFS = re.compile(r"(s?webhdfs|hdfs|viewfs)://[^/?#]*/?", re.IGNORECASE)


@dataclass(frozen=True)
class Check:
    """How to check a value.

    Attributes:
        is_valid: Returns whether a value is valid. May raise ValueError or LookupError for invalid values.
        advice: A description of valid values.
        fault: What is wrong with an invalid value, such as ``is not a valid URL``.
        login: The advice for a URL with a login, which is invalid and never shown; empty if the value is not
            a URL.
        parts: Splits a value into the parts to check one at a time.
    """

    is_valid: Callable[[Any], bool]
    advice: str
    fault: str = "is not valid"
    login: str = ""
    parts: Callable[[Any], Iterable[Any]] = lambda value: (value,)

    def problems(self, key: str, value: object) -> list[str]:
        """Return a message for each invalid part of a value, with the key, the part and valid values."""
        found = []
        for part in self.parts(value):
            hint, shown = "", part
            if isinstance(part, str):
                hint, shown = layout_hint(part), part.partition("\n")[0]  # the next line may be the password
            try:
                is_valid = self.is_valid(part)
            except (LookupError, ValueError) as error:
                is_valid = False
                hint = hint or ("the highest port is 65535" if "0-65535" in str(error) else "")
            if self.login and "@" in str(part):
                found.append(f"{key} must not contain a user or password; {self.login}")
            elif not is_valid:
                found.append(with_hint(f"{key} = {shown!r} {self.fault}; use {self.advice}", hint))
        return found


def one_of(*words: str) -> Check:
    """Return a check that a value is one of these words."""
    return Check(words.__contains__, f"{', '.join(words[:-1])} or {words[-1]}")


def some_of(*words: str) -> Check:
    """Return a check that a string such as ``"a, b"``, or a list, contains only these words."""
    return Check(
        lambda value: _are_words(value) and {*words_of(value)} <= {*words}, f"some of {', '.join(words)}"
    )


def _is_duration(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _are_words(value: object) -> bool:
    is_list = isinstance(value, Iterable) and all(isinstance(word, str) for word in value)
    return is_list and not any("," in word or not word.strip() for word in words_of(value))


def _is_url(url: str) -> bool:
    parts = urlsplit(url)
    plain = url.split() == [url] and not parts.query and not parts.fragment and "$" not in url
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0


def _is_tls_verify(word: str) -> bool:
    value = tls_verify(word)
    return isinstance(value, bool) or os.path.exists(value)  # noqa: PTH110  never raises


def tls_verify(value: object) -> bool | str:
    """Return the ``verify`` setting as requests expects it: True, False, or the path of a CA file."""
    word = str(value).strip()
    if word.lower() in ("true", "yes", "1", ""):
        return True
    if word.lower() in ("false", "no", "0"):
        return False
    return os.path.expandvars(str(Path(word).expanduser()))


def split_urls(value: str | None) -> tuple[str, ...]:
    """Return the URLs in a setting that accepts several."""
    return tuple(url.strip() for url in re.split("[;,]", value or "") if url.strip())


def words_of(value: object) -> tuple[str, ...]:
    """Return the words in a setting, which is a string such as ``"a, b"`` or a list of strings."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return tuple(map(str, value)) if isinstance(value, Iterable) else ()


def exit_codes(value: object) -> tuple[range, ...]:
    """Parse exit codes and ranges of exit codes.

    Args:
        value: A string such as ``"1, 128-255"``, a single code, or a list of codes, ranges and strings.

    Raises:
        ValueError: The value is not valid; the message describes valid values.
    """
    if isinstance(value, str):
        parts: list[object] = [*value.split(",")]
    elif isinstance(value, Iterable) and not isinstance(value, range):
        parts = [*value]
    else:
        parts = [value]
    found = tuple(_codes(part) for part in parts)
    if not all(found):
        raise ValueError(_EXIT_CODES)
    return found


def _codes(part: object) -> range:
    if isinstance(part, range):
        return part
    if isinstance(part, int) and not isinstance(part, bool):
        return range(part, part + 1)
    written = _CODES.fullmatch(part) if isinstance(part, str) else None
    if written is None:
        raise ValueError(_EXIT_CODES)
    first = int(written[1])
    return range(first, int(written[2] or first) + 1)


BOOL = Check(lambda value: isinstance(value, bool), "True or False")
COUNT = Check(_is_count, "a whole number from 1 on")
EXIT_CODES = Check(lambda value: exit_codes(value) is not None, _EXIT_CODES)
FOLDER = Check(
    lambda path: not path or (path.startswith(("/", "~", "$")) and path.strip("/") != ""),
    "an absolute path, such as /mnt/nfs1",
)
HDFS_URI = Check(lambda uri: not uri or _HDFS.fullmatch(uri) is not None, "hdfs://HOST:PORT")
LIFETIME = Check(lambda value: _SHORTEST_LOGIN <= value <= _LONGEST_LOGIN, "60 to 604800 (seconds)")
REDIRECT = Check(
    lambda rule: not rule or _is_url(rule.format(host="h", port=1)),
    "http://PROXY/{host}:{port}",
    login="HDFS uses neither",
)
SECONDS = Check(_is_duration, "a number of seconds greater than 0")
STORAGE = Check(
    lambda name: not name or re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) is not None,
    "the name of one of the cluster's storages, such as nfs1; storage_path is its folder on this machine",
)
TLS_VERIFY = Check(_is_tls_verify, "true, false or an existing file of CA certificates")
URL = Check(
    lambda url: not url or _is_url(url),
    "http://HOST:PORT or https://HOST/PATH",
    fault="is not a valid URL",
    login="use the keys username and password",
)
URLS = Check(_is_url, URL.advice, URL.fault, URL.login, split_urls)
USER = Check(
    lambda name: not name or not re.search(r"[\s\"'$]", name), "a name without blanks, quotation marks and $"
)
WORDS = Check(_are_words, "strings without commas")


class Scope(enum.Enum):
    """Where you can set a setting, besides ``[OpenPai]``."""

    CLUSTER = "each ``[OpenPai:NAME]`` has its own value, or the default"
    USER = "``[OpenPai:NAME]`` takes it from ``[OpenPai]`` unless it has the key"
    TASK = "like USER; an attribute of a task with the same name overrides it for the task's job"


@dataclass(frozen=True)
class Kind:
    """The type of a setting.

    Attributes:
        parameter: The name of Luigi's parameter class for this type.
        parse: Parses an entry in luigi.cfg like that class does, or raises ValueError.
        noun: The valid values, for the message about an entry that cannot be parsed.
    """

    parameter: str
    parse: Callable[[Any], Any]
    noun: str = ""


@dataclass(frozen=True)
class Setting:
    """The declaration of a setting.

    Attributes:
        kind: Its type.
        default: Its default; None if it is not set.
        check: How to check its values; None if all values are valid.
        scope: Where you can set it, besides ``[OpenPai]``.
        summary: Its description, in lower case and without a full stop.
        required: How to set it, if its section must have it; otherwise empty.
    """

    kind: Kind
    default: Any
    check: Check | None
    scope: Scope
    summary: str
    required: str = ""

    @property
    def description(self) -> str:
        """Its description as a sentence."""
        return f"{self.summary[0].upper()}{self.summary[1:]}."

    @property
    def is_secret(self) -> bool:
        """Whether its value is never shown."""
        return self.kind is _SECRET


def _parse_bool(value: object) -> bool:
    word = str(value).lower()
    if word not in ("true", "false"):
        raise ValueError(word)
    return word == "true"


def _optional(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    """Return a function that parses a string; '' becomes None, and non-strings (luigi.toml) are kept."""
    return lambda value: (parse(value) if value else None) if isinstance(value, str) else value


_TEXT, _OPTIONAL = Kind("Parameter", lambda value: value), Kind("OptionalParameter", _optional(str))
_SECRET = Kind("SecretParameter", _OPTIONAL.parse)
_INT, _FLOAT = Kind("IntParameter", int, "a whole number"), Kind("FloatParameter", float, "a number")
_OPTIONAL_FLOAT = Kind("OptionalFloatParameter", _optional(float), "a number")
_BOOL = Kind("BoolParameter", _parse_bool, "true or false")
_CLUSTER, _USER, _TASK = Scope.CLUSTER, Scope.USER, Scope.TASK


_key: Any = Setting  # instances have values in place of the declarations, so declare the values' type


# A table: kind, default, check, scope; then the description.
# fmt: off
class Settings:
    """The keys of ``[OpenPai]``, in the order of their documentation."""

    pai_url: str = _key(_TEXT, "http://127.0.0.1:9186", URL, _CLUSTER,
        "URL of the cluster's rest-server, including its path, if any: http://HOST:9186, or "
        "https://HOST/rest-server", required="pai_url = http://HOST:9186, the URL of its rest-server")
    username: str = _key(_TEXT, "admin", USER, _CLUSTER,
        "your name on the cluster", required="username = ..., your user name there")
    password: str | None = _key(_SECRET, None, None, _CLUSTER, "your password")
    expiration: int = _key(_INT, 3600, LIFETIME, _CLUSTER,
        "lifetime of a login in seconds, 60 to 604800; renewed automatically")
    token: str | None = _key(_SECRET, None, None, _CLUSTER, "application token, used instead of the password")
    api_version: str = _key(_TEXT, "auto", one_of("auto", "v1", "v2"), _CLUSTER,
        "the cluster's API: v1 (OpenPAI 0.7 to 0.14), v2 (0.15 to 1.8, LTP), or auto to detect it")
    fs_uri: str | None = _key(_OPTIONAL, None, HDFS_URI, _CLUSTER,
        "value of $PAI_DEFAULT_FS_URI on the cluster: hdfs://HOST:PORT")
    webhdfs_url: str | None = _key(_OPTIONAL, None, URLS, _CLUSTER,
        "WebHDFS URL of that file system: http://HOST:PORT; with several NameNodes, URL;URL")
    webhdfs_redirect: str | None = _key(_OPTIONAL, None, REDIRECT, _CLUSTER,
        "URL of the DataNodes, if it differs from the one the NameNode sends: http://PROXY/{host}:{port}")
    hdfs_user: str | None = _key(_OPTIONAL, None, USER, _CLUSTER, "user on HDFS; default: username")
    hdfs_auth: str = _key(_TEXT, "simple", one_of("simple", "kerberos"), _CLUSTER,
        "authentication on HDFS: simple, or kerberos (needs a ticket)")
    storage: str | None = _key(_OPTIONAL, None, STORAGE, _CLUSTER,
        "the cluster's storage that holds your jobs' files, such as nfs1 (OpenPAI 0.16 and later)")
    storage_path: str | None = _key(_OPTIONAL, None, FOLDER, _CLUSTER,
        "the storage's folder on this machine, if luigi_pai cannot find it among the mounts")
    storage_mount: str | None = _key(_OPTIONAL, None, FOLDER, _CLUSTER,
        "where containers mount the storage; default: /mnt/NAME (0.16, 0.17: as the cluster says)")
    portal_url: str | None = _key(_OPTIONAL, None, URL, _CLUSTER, "web portal, for the links to a job's page")
    verify: str = _key(_TEXT, "true", TLS_VERIFY, _CLUSTER,
        "check TLS certificates: true, false, or a file of CA certificates")
    connect_timeout: float = _key(_FLOAT, 10.0, SECONDS, _USER, "seconds to wait for a connection")
    read_timeout: float = _key(_FLOAT, 30.0, SECONDS, _USER, "seconds to wait for a response")
    poll_min: float = _key(_FLOAT, 0.1, SECONDS, _USER, "shortest wait between two lookups of a job")
    poll_max: float = _key(_FLOAT, 30.0, SECONDS, _USER, "longest wait between two lookups of a job")
    poll_patience: float = _key(_FLOAT, 1800.0, SECONDS, _USER,
        "how long to retry after transient errors while a job runs, in seconds")
    queue_timeout: float | None = _key(_OPTIONAL_FLOAT, None, SECONDS, _TASK,
        "seconds a job may wait in the queue before it is stopped")
    run_timeout: float | None = _key(_OPTIONAL_FLOAT, None, SECONDS, _TASK,
        "seconds a job may run before it is stopped")
    on_forgotten: str = _key(_TEXT, "fail", one_of("fail", "submit"), _TASK,
        "what to do if a job was submitted but the server no longer has its result: fail, or submit it again")
    on_kill: str = _key(_TEXT, "leave", one_of("leave", "stop"), _TASK,
        "what to do with a job when the process watching it is ended: leave it to the next run, or stop it")
    logs: str = _key(_TEXT, "none", one_of("none", "stream"), _TASK,
        "container output in Luigi's log while a job runs: none, or stream (all lines from all tasks)")
    keep_logs: bool = _key(_BOOL, False, BOOL, _TASK,  # noqa: FBT003
        "keep the logs of finished jobs in OUTPUT_DIR/_logs, on the cluster's file system")
    max_attempts: int = _key(_INT, 1, COUNT, _TASK,
        "how many times one run submits a job that fails, including the first time; a job that was stopped, "
        "by a user or a timeout, is not submitted again")
    retry_exit_codes: str | None = _key(_OPTIONAL, None, EXIT_CODES, _TASK,
        "exit codes of the job or its command after which the same run submits the job again, such as "
        "75, 134-139; default: all")
    tags: str | None = _key(_OPTIONAL, None, WORDS, _TASK,
        "tags for jobs besides luigi and luigi:FAMILY, separated by commas (OpenPAI 1.3 and later)")
    notify: str | None = _key(
        _OPTIONAL, None, some_of("running", "succeeded", "stopped", "failed", "retried"), _TASK,
        "job events that the cluster notifies you of: any of running, succeeded, stopped, failed, retried "
        "(OpenPAI 1.5 and later)")
    console: str = _key(_TEXT, "luigi", one_of("luigi", "quiet"), _USER,
        "output on a terminal: luigi (everything that Luigi logs), or quiet (one line each time a job "
        "changes)")
    server_retention: float | None = _key(_OPTIONAL_FLOAT, None, SECONDS, _CLUSTER,
        "seconds for which the server keeps a finished job; default: depends on its OpenPAI release")
# fmt: on


SETTINGS: Mapping[str, Setting] = {
    key: setting for key, setting in vars(Settings).items() if isinstance(setting, Setting)
}
"""All settings by their keys."""

OF_TASKS = {key: known.check for key, known in SETTINGS.items() if known.scope is Scope.TASK and known.check}
"""The keys that attributes of tasks override, with the checks of their values."""
