"""Names of jobs and roles: what they must be, and what servers make of them."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from luigi_pai.errors import Problem, SpecError

__all__ = ["check_name", "folded", "room_for_attempts", "v2_name"]

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


def check_name(name: Any) -> None:
    """Refuse a name that no server could be asked for: no text, empty, or a step within a URL.

    Raises:
        SpecError: saying what a name is.
    """
    if not isinstance(name, str) or name in ("", ".", ".."):
        from luigi_pai.spec.schema_problems import schema  # noqa: PLC0415  only a mistake needs it

        what = schema("job.v1")["properties"]["jobName"]["description"]
        raise SpecError(str(name), [Problem("jobName", f"{name!r} is not {what}")])


def room_for_attempts(name: Any, path: str = "jobName") -> list[Problem]:
    """Return what is wrong with the length of a name, at a path, that ``__attempt2`` may be added to."""
    if not isinstance(name, str) or len(name) <= _LONGEST:
        return []
    return [
        Problem(
            path,
            f"has {len(name)} characters; the job of a task has at most {_LONGEST}, so that the names "
            "of later attempts are short enough too",
        )
    ]


def folded(role: str) -> str:
    """Return a role's name as servers of the v2 dialect show it: ``My_Role`` -> ``myrole``."""
    return re.sub(r"[^a-z0-9]", "", role.lower())
