"""The configured request limits."""

from __future__ import annotations

import re

from luigi_pai.errors import ConfigError

__all__ = ["DEFAULT_LIMITS", "parse_limits"]

DEFAULT_LIMITS = (600, 60, 60)
"""Calls a minute and address, lists a minute and user, submissions an hour and user."""


def parse_limits(text: str | None) -> tuple[int, int, int] | None:
    """Parse request limits: ``default`` or ``CALLS,LISTS,SUBMISSIONS``; None for None.

    Raises:
        ConfigError: it is neither.
    """
    if text is None:
        return None
    if text == "default":
        return DEFAULT_LIMITS
    found = re.fullmatch(r"([1-9]\d{0,8}),([1-9]\d{0,8}),([1-9]\d{0,8})", text)
    if found is None:
        raise ConfigError(
            f"--rate-limits {text}: it is `default` or three numbers, such as 600,60,60: calls a minute, "
            "lists a minute, submissions an hour"
        )
    return int(found[1]), int(found[2]), int(found[3])
