"""Names of jobs on servers that know fewer characters."""

from __future__ import annotations

import hashlib
import re

__all__ = ["v2_name"]

_LONGEST = 255 - len("__attempt999")
_HASH = 6  # characters that tell two names apart whose replaced characters made them the same


def v2_name(name: str) -> str:
    """Return the name that a v1 job has on v2 servers.

    They take letters, digits, ``_`` and ``-``. Any other character becomes ``-``,
    and a few characters of a hash are added, so that ``a.b`` and ``a-b`` stay two
    jobs.
    """
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", name)
    if plain == name:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    return f"{plain[: _LONGEST - _HASH - 1]}-{digest}"
