"""Checks of the values of ``[OpenPai]``."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import luigi

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from luigi_pai.config import OpenPai

_Check = tuple[Callable[[Any], bool], str]
_SHORTEST_LOGIN, _LONGEST_LOGIN = 60, 604800  # seconds; servers refuse a shorter or longer login
_NOTIFICATIONS = ("running", "succeeded", "stopped", "failed", "retried")
_OPTIONAL = ("retry_exit_codes", "tags", "notify", "queue_timeout", "run_timeout", "server_retention")
_EXIT_CODES = "exit codes and ranges of them, such as 1, 75 or 134-139"
_CODES = re.compile(r"\s*(-?\d+)\s*(?:-\s*(-?\d+)\s*)?")
_HDFS_SCHEMES = ("hdfs", "viewfs", "webhdfs", "swebhdfs")


def problems(settings: OpenPai) -> Iterator[str]:
    """Yield a text for each wrong setting: the key, valid values and, if it is no secret, the wrong value."""
    yield from _url_problems(settings)
    if not settings.username:
        yield "username is empty; write your OpenPAI user name"
    elif settings.username.split() != [settings.username]:
        yield f"username = {settings.username!r} has a blank{_layout_hint(settings.username)}"
    yield from _not_valid(settings, _CHECKS, optional=_OPTIONAL)
    if settings.poll_max < settings.poll_min:
        yield f"poll_max = {settings.poll_max} is less than poll_min = {settings.poll_min}"
    ca_file = settings.tls_verify()
    if isinstance(ca_file, str) and not os.path.exists(ca_file):  # noqa: PTH110  never raises
        yield f"verify = {ca_file!r} is not valid; use true, false or an existing file of CA certificates"


def task_problems(task: object) -> Iterator[str]:
    """Return the problems of a task's attributes that override settings. None is valid, too."""
    return _not_valid(task, _CHECKS_OF_TASKS, optional=_CHECKS_OF_TASKS)


def words_of(value: object) -> tuple[str, ...]:
    """Return the words of a setting, which is a text such as ``"a, b"`` or a list of texts."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return tuple(map(str, value)) if isinstance(value, Iterable) else ()


def _not_valid(owner: object, checks: Mapping[str, _Check], *, optional: Container[str]) -> Iterator[str]:
    """Yield a problem for each attribute whose check fails; optional attributes may be None."""
    for name, (is_valid, advice) in checks.items():
        value = getattr(owner, name)
        if not (value is None and name in optional) and not is_valid(value):
            yield f"{name} = {value!r} is not valid; use {advice}"


def _one_of(*words: str) -> _Check:
    return words.__contains__, f"{', '.join(words[:-1])} or {words[-1]}"


def _is_duration(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _are_exit_codes(value: object) -> bool:
    try:
        exit_codes(value)
    except ValueError:
        return False
    return True


def _are_words(value: object) -> bool:
    is_list = isinstance(value, Iterable) and all(isinstance(word, str) for word in value)
    return is_list and not any("," in word or not word.strip() for word in words_of(value))


def _are_notifications(value: object) -> bool:
    return _are_words(value) and set(words_of(value)).issubset(_NOTIFICATIONS)


_DURATION: _Check = (_is_duration, "a number of seconds greater than 0")
_CHECKS_OF_TASKS: dict[str, _Check] = {
    "on_forgotten": _one_of("fail", "submit"),
    "on_kill": _one_of("leave", "stop"),
    "logs": _one_of("none", "stream"),
    "keep_logs": (lambda value: isinstance(value, bool), "True or False"),
    "max_attempts": (_is_count, "a whole number from 1 on"),
    "retry_exit_codes": (_are_exit_codes, _EXIT_CODES),
    "tags": (_are_words, "texts without commas"),
    "notify": (_are_notifications, f"some of {', '.join(_NOTIFICATIONS)}"),
    "queue_timeout": _DURATION,
    "run_timeout": _DURATION,
}
"""For each setting that a task can override: the check of a value, and a description of valid values."""

_CHECKS: dict[str, _Check] = {
    "hdfs_auth": _one_of("simple", "kerberos"),
    "api_version": _one_of("auto", "v1", "v2"),
    "console": _one_of("luigi", "quiet"),
    "expiration": (
        lambda value: _SHORTEST_LOGIN <= value <= _LONGEST_LOGIN,
        f"{_SHORTEST_LOGIN} to {_LONGEST_LOGIN} (seconds)",
    ),
    "connect_timeout": _DURATION,
    "read_timeout": _DURATION,
    "poll_min": _DURATION,
    "poll_max": _DURATION,
    "poll_patience": _DURATION,
    "server_retention": _DURATION,
    **_CHECKS_OF_TASKS,
}


def _url_problems(settings: OpenPai) -> Iterator[str]:
    urls = [(name, getattr(settings, name) or "") for name in ("pai_url", "portal_url")]
    urls += [("webhdfs_url", url) for url in split_urls(settings.webhdfs_url)]
    for name, url in urls:
        if "@" in url:  # the value is not shown: it may contain a password
            yield f"{name} must not contain a user or password; use the keys username and password"
        elif url and not _is_http(url):
            text = f"{name} = {url!r} is not a valid URL; use http://HOST:PORT or https://HOST/PATH"
            yield f"{text}{_layout_hint(url)}"
    redirect = settings.webhdfs_redirect or ""
    if "@" in redirect:
        yield "webhdfs_redirect must not contain a user or password; HDFS uses neither"
    elif redirect and not _is_redirect(redirect):
        yield f"webhdfs_redirect = {redirect!r} is not valid; use http://PROXY/{{host}}:{{port}}"
    if not settings.pai_url:
        yield "pai_url is empty; write the URL of the rest-server, http://HOST:9186"
    if settings.fs_uri and not _is_hdfs(settings.fs_uri):
        yield f"fs_uri = {settings.fs_uri!r} is not valid; use hdfs://HOST:PORT"


def _is_hdfs(uri: str) -> bool:
    try:
        return urlsplit(uri).scheme in _HDFS_SCHEMES
    except ValueError:
        return False


def _layout_hint(value: str) -> str:
    """Return a hint on the layout of luigi.cfg if a value contains another line or a comment; else empty."""
    if "\n" in value:
        return ". The value includes the next line, which is indented: begin each key at the start of a line"
    return ". A comment stands on a line of its own" if re.search(r"\s[#;]", value) else ""


def tls_verify(value: object) -> bool | str:
    """Return the setting ``verify`` as requests takes it: True, False, or the path of a CA file."""
    word = str(value).strip()
    if word.lower() in ("true", "yes", "1", ""):
        return True
    if word.lower() in ("false", "no", "0"):
        return False
    return os.path.expandvars(str(Path(word).expanduser()))


def kind_of(parameter: luigi.Parameter) -> str:
    """Return the type of a key's value for an error text, such as ``a number``."""
    if isinstance(parameter, luigi.BoolParameter):
        return "true or false"
    return "a whole number" if isinstance(parameter, luigi.IntParameter) else "a number"


def split_urls(text: str | None) -> tuple[str, ...]:
    """Return the URLs in a setting that takes several."""
    return tuple(one.strip() for one in re.split("[;,]", text or "") if one.strip())


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        plain = url.split() == [url] and not parts.query and not parts.fragment
        return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_redirect(rule: str) -> bool:
    try:
        return _is_http(rule.format(host="h", port=1))
    except (LookupError, ValueError):
        return False


def exit_codes(value: object) -> tuple[range, ...]:
    """Parse exit codes and ranges of exit codes.

    Args:
        value: a text such as ``"1, 128-255"``, a code, or a list of codes, ranges and texts.

    Raises:
        ValueError: the value is not valid; the text of the error describes valid values.
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
