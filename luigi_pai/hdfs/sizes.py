"""How many bytes, for people to read."""

from __future__ import annotations

__all__ = ["readable"]

_STEP = 1024
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def readable(size: float) -> str:
    """Return a number of bytes as ``512 B``, ``12 KiB`` or ``1.5 GiB``."""
    if size < _STEP:
        return f"{size:.0f} B"
    unit = 0
    size /= _STEP
    while round(size) >= _STEP and unit + 1 < len(_UNITS):
        size /= _STEP
        unit += 1
    digits = 1 if size < 10 and size != round(size) else 0  # noqa: PLR2004 - two digits are enough
    return f"{size:.{digits}f} {_UNITS[unit]}"
