"""Releases of OpenPAI (``1.8.0``) and of its successor LTP (``ltp-1.5``), and their order."""

from __future__ import annotations

import re

_RELEASE = re.compile(r"(?P<ltp>ltp-)?v?(?P<number>\d+(?:\.\d+)+)", re.ASCII)
_BEGUN_FROM = (1, 8, 1)
"""The OpenPAI release that LTP continues. LTP's releases sort after it and before later OpenPAI releases."""


def release_number(release: str) -> tuple[int, ...]:
    """Convert a release to a tuple of numbers. The tuples sort in release order.

    ``"1.5.0"`` -> ``(1, 5, 0)``, ``"v0.17"`` -> ``(0, 17)``, ``"ltp-1.5"`` -> ``(1, 8, 1, 1, 5)``.

    Raises:
        ValueError: ``release`` is not valid.
    """
    found = _RELEASE.match(release)
    if found is None:
        raise ValueError(f"{release!r} is not a release of OpenPAI, such as 1.8.0, or LTP, such as ltp-1.5")
    number = tuple(int(part) for part in found["number"].split("."))
    return (*_BEGUN_FROM, *number) if found["ltp"] else number


def release_title(release: str) -> str:
    """Format a release for messages: ``OpenPAI 1.8.0``, ``LTP 1.5``."""
    is_of_ltp = is_ltp(release_number(release))
    return f"LTP {release.removeprefix('ltp-')}" if is_of_ltp else f"OpenPAI {release}"


def is_ltp(number: tuple[int, ...]) -> bool:
    """Return whether a result of ``release_number`` is an LTP release."""
    return len(number) > len(_BEGUN_FROM) and number[: len(_BEGUN_FROM)] == _BEGUN_FROM


def has_js_yaml_4(number: tuple[int, ...]) -> bool:
    """Return whether a release reads job protocols with js-yaml 4 instead of js-yaml 3."""
    return is_ltp(number) and number >= release_number("ltp-1.1")
