"""Checks of the values of settings, and functions that parse them."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from luigi_pai.redaction import layout_hint, with_hint

_SHORTEST_LOGIN, _LONGEST_LOGIN = 60, 604800  # seconds; servers refuse a shorter or longer login
_EXIT_CODES = "exit codes and ranges of them, such as 1, 75 or 134-139"
_CODES = re.compile(r"\s*(-?\d+)\s*(?:-\s*(-?\d+)\s*)?")
_HDFS = re.compile(r"(s?webhdfs|hdfs|viewfs)://[^/?#]*/?", re.IGNORECASE)


@dataclass(frozen=True)
class Check:
    """The check of a value.

    Attributes:
        is_valid: whether a value is valid; it may raise ValueError or LookupError for an invalid one.
        advice: a description of valid values.
        fault: what an invalid value is or has.
        login: what to use instead of a URL with a login, which is invalid and never shown; empty if the value
            is not a URL.
        parts: returns the parts of a value, which are checked one at a time.
    """

    is_valid: Callable[[Any], bool]
    advice: str
    fault: str = "is not valid"
    login: str = ""
    parts: Callable[[Any], Iterable[Any]] = lambda value: (value,)

    def problems(self, key: str, value: object) -> list[str]:
        """Return a problem for each invalid part of a value: the key, the part, and valid values."""
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
    """Return the check that a value is one of some words."""
    return Check(words.__contains__, f"{', '.join(words[:-1])} or {words[-1]}")


def some_of(*words: str) -> Check:
    """Return the check that a value has no other words, in a string such as ``"a, b"`` or in a list."""
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
    """Return the setting ``verify`` as requests takes it: True, False, or the path of a CA file."""
    word = str(value).strip()
    if word.lower() in ("true", "yes", "1", ""):
        return True
    if word.lower() in ("false", "no", "0"):
        return False
    return os.path.expandvars(str(Path(word).expanduser()))


def split_urls(value: str | None) -> tuple[str, ...]:
    """Return the URLs in a setting that takes several."""
    return tuple(one.strip() for one in re.split("[;,]", value or "") if one.strip())


def words_of(value: object) -> tuple[str, ...]:
    """Return the words of a setting, which is a string such as ``"a, b"`` or a list of strings."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return tuple(map(str, value)) if isinstance(value, Iterable) else ()


def exit_codes(value: object) -> tuple[range, ...]:
    """Parse exit codes and ranges of exit codes.

    Args:
        value: a string such as ``"1, 128-255"``, a code, or a list of codes, ranges and strings.

    Raises:
        ValueError: the value is not valid; the message describes valid values.
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
    "the name of a storage of the cluster, such as nfs1; storage_path is its folder on this machine",
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
WORDS = Check(_are_words, "texts without commas")
