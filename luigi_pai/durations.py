"""Formats counts, durations and times for people."""

from __future__ import annotations

import time
from datetime import datetime, timezone

_MINUTE, _HOUR, _DAY = 60, 3600, 86400  # seconds


def counted(number: int, noun: str) -> str:
    """Format a number with a noun: ``1 point``, ``2,000 points``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Format a duration: ``45 s``, ``12 min``, ``3 h 20 min``, ``2 d 4 h``."""
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    minutes, hours, days = whole // _MINUTE, whole // _HOUR, whole // _DAY
    if hours < 1:
        return f"{minutes} min"
    if days < 1:
        return f"{hours} h {minutes % 60} min"
    return f"{days} d {hours % 24} h"


def moment(milliseconds: int | None) -> str:
    """Format ms since 1970 as local time, followed by how long ago that was; '' for None."""
    if milliseconds is None:
        return ""
    local = datetime.fromtimestamp(milliseconds / 1000, timezone.utc).astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S} ({duration(time.time() - milliseconds / 1000)} ago)"
