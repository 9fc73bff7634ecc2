"""Checks of the values of ``[OpenPai]``."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.config import OpenPai

__all__ = ["problems", "split_urls", "task_problems", "tls_verify"]

_SHORTEST_LOGIN, _LONGEST_LOGIN = 60, 604800  # seconds; servers refuse others
_WORDS = {
    "hdfs_auth": ("simple", "kerberos"),
    "api_version": ("auto", "v1", "v2"),
    "on_forgotten": ("fail", "submit"),
    "on_kill": ("leave", "stop"),
    "console": ("luigi", "quiet"),
}
_DURATIONS = ("connect_timeout", "read_timeout", "poll_min", "poll_max", "poll_patience")
_OPTIONAL_DURATIONS = ("queue_timeout", "run_timeout", "server_retention")
_HDFS_SCHEMES = ("hdfs", "viewfs", "webhdfs", "swebhdfs")


def problems(settings: OpenPai) -> Iterator[str]:
    """Yield what is wrong with settings: the key, its value, and what to write."""
    yield from _url_problems(settings)
    for name in _WORDS:
        yield from _word_problems(name, getattr(settings, name))
    if not settings.username:
        yield "username is empty; write your OpenPAI user name"
    if not _SHORTEST_LOGIN <= settings.expiration <= _LONGEST_LOGIN:
        limits = f"{_SHORTEST_LOGIN} to {_LONGEST_LOGIN} (seconds)"
        yield f"expiration = {settings.expiration} is not valid; use {limits}"
    yield from _duration_problems(settings)
    ca_file = settings.tls_verify()
    if isinstance(ca_file, str) and not Path(ca_file).exists():
        yield f"verify = {ca_file!r} is not valid; use true, false or an existing file of CA certificates"


def task_problems(task: object) -> Iterator[str]:
    """Yield what is wrong with the settings that a task has of its own; None is that of [OpenPai]."""
    for name in ("on_forgotten", "on_kill"):
        value = getattr(task, name)
        if value is not None:
            yield from _word_problems(name, value)
    for name in ("queue_timeout", "run_timeout"):
        value = getattr(task, name)
        if value is not None:
            yield from _seconds_problems(name, value)


def _word_problems(name: str, value: object) -> Iterator[str]:
    words = _WORDS[name]
    if value not in words:
        yield f"{name} = {value!r} is not valid; use {', '.join(words[:-1])} or {words[-1]}"


def _seconds_problems(name: str, value: object) -> Iterator[str]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:  # type: ignore[operator]  # it is a number
        yield f"{name} = {value!r} is not valid; use a number of seconds greater than 0"


def _url_problems(settings: OpenPai) -> Iterator[str]:
    urls = [(name, getattr(settings, name) or "") for name in ("pai_url", "portal_url")]
    urls += [("webhdfs_url", url) for url in split_urls(settings.webhdfs_url)]
    for name, url in urls:
        if "@" in url:  # the value is not repeated: it may contain a password
            yield f"{name} must not contain a user or password; use the keys username and password"
        elif url and not _is_http(url):
            yield f"{name} = {url!r} is not a valid URL; use http://HOST:PORT or https://HOST/PATH"
    redirect = settings.webhdfs_redirect or ""
    if "@" in redirect:
        yield "webhdfs_redirect must not contain a user or password; HDFS uses neither"
    elif redirect and not _is_redirect(redirect):
        yield f"webhdfs_redirect = {redirect!r} is not valid; use http://PROXY/{{host}}:{{port}}"
    if not settings.pai_url:
        yield "pai_url is empty; write the URL of the rest-server, http://HOST:9186"
    if settings.fs_uri and urlsplit(settings.fs_uri).scheme not in _HDFS_SCHEMES:
        yield f"fs_uri = {settings.fs_uri!r} is not valid; use hdfs://HOST:PORT"


def _duration_problems(settings: OpenPai) -> Iterator[str]:
    for name in (*_DURATIONS, *_OPTIONAL_DURATIONS):
        value = getattr(settings, name)
        if value is None and name in _OPTIONAL_DURATIONS:
            continue
        yield from _seconds_problems(name, value)
    if settings.poll_max < settings.poll_min:
        yield f"poll_max = {settings.poll_max} is less than poll_min = {settings.poll_min}"


def tls_verify(value: object) -> bool | str:
    """Return the setting ``verify`` as requests takes it: True, False, or the path of a CA file."""
    word = str(value).strip()
    if word.lower() in ("true", "yes", "1", ""):
        return True
    if word.lower() in ("false", "no", "0"):
        return False
    return os.path.expandvars(str(Path(word).expanduser()))


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
