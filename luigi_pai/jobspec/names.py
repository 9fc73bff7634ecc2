"""Names of jobs and their submissions.

OpenPAI never lets you reuse a job name, so a failed job is submitted again as ``NAME__attempt2``, then
``NAME__attempt3``. ``luigi_pai.runtime`` defines this suffix, because it reads names in containers.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.hints import METHOD
from luigi_pai.runtime import ATTEMPT_SUFFIX as _SUFFIX
from luigi_pai.runtime import attempt_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_LIKE_NUMBERED = re.compile(rf"(?P<base>.*){_SUFFIX}[1-9][0-9]*", re.DOTALL)
_LONGEST = 255 - len(f"{_SUFFIX}999")
_ARRAY, _ARRAY_HASH = "-array-", 12  # in array names: the string before the hash, and the hash's length
_ARRAY_NAME = re.compile(rf"(?P<prefix>.+){_ARRAY}[0-9a-f]{{{_ARRAY_HASH}}}", re.DOTALL)
_NO_PREFIX = "points"  # prefix for arrays whose jobs' names have no common start
_SHORTEST_PREFIX, _LONGEST_PREFIX = 3, 200  # characters
_HASH = 6  # length of the hash that keeps names different after v2_name replaces characters


def v2_name(name: str) -> str:
    """Return the name that a v1 job has on v2 servers.

    V2 names may contain letters, digits, ``_`` and ``-``. Any other character becomes ``-``, and part of a
    hash is added, so that ``a.b`` and ``a-b`` get different names. A later submission's suffix stays at the
    end.
    """
    base, number = attempt_of(name)
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", base)
    if plain == base:
        return name
    digest = hashlib.sha256(base.encode()).hexdigest()[:_HASH]
    return attempt_name(f"{plain[: _LONGEST - _HASH - 1]}-{digest}", number)


def attempt_name(name: str, number: int) -> str:
    """Return the job name for submission ``number``, counted from 1.

    ``NAME``, then ``NAME__attempt2``, ``NAME__attempt3``, ...
    """
    return name if number == 1 else f"{name}{_SUFFIX}{number}"


def base_name(name: str) -> str:
    """Return a job name without a later submission's suffix: ``NAME`` for ``NAME__attempt2``."""
    base, number = attempt_of(name)
    return base if number > 1 else name


def array_name(submissions: Iterable[str]) -> str:
    """Return the name of the array whose instances are these submissions, in any order.

    The name starts with the common prefix of the submissions' names or, if that is too short, with
    ``points``. ``may_hold`` uses this prefix to exclude arrays that contain only other jobs.
    """
    names = sorted(submissions)
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:_ARRAY_HASH]
    pairs = zip(names[0], names[-1], strict=False)
    prefix = "".join(letter for letter, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    prefix = prefix[:_LONGEST_PREFIX].rstrip("-_")
    return f"{prefix if len(prefix) >= _SHORTEST_PREFIX else _NO_PREFIX}{_ARRAY}{digest}"


def is_array_name(name: str) -> bool:
    """Return whether a name looks like an array's name."""
    return _ARRAY in name and _ARRAY_NAME.fullmatch(name) is not None


def may_hold(array: str, name: str) -> bool:
    """Return whether, judging by the names, an array can contain one of the submissions of ``name``."""
    found = _ARRAY_NAME.fullmatch(array)
    return found is not None and (found["prefix"] == _NO_PREFIX or name.startswith(found["prefix"]))


def latest_attempts(names: Iterable[str]) -> dict[str, int]:
    """Return name -> number of the latest submission, for every job submitted more than once.

    This number is the largest N (at least 2) for which ``names`` contains ``NAME__attemptN``.
    """
    latest: dict[str, int] = {}
    for name in names:
        base, number = attempt_of(name) if _SUFFIX in name else (name, 1)
        if number > 1:
            latest[base] = max(number, latest.get(base, 0))
    return latest


def check_name(name: Any) -> None:
    """Check that a name can be part of a URL. Any string except ``""``, ``.`` and ``..`` can.

    Raises:
        SpecError: The name is one of these three strings, or is not a string.
    """
    if inspect.isroutine(name):
        raise SpecError("", [Problem("jobName", METHOD)])
    if not isinstance(name, str) or name in ("", ".", ".."):
        from luigi_pai.jobspec.schema_problems import schema  # noqa: PLC0415  needed only after a mistake

        description = schema("job.v1")["properties"]["jobName"]["description"]
        quoted = "" if isinstance(name, str) else "; write it as a string, in quotes"
        raise SpecError(str(name), [Problem("jobName", f"{name!r} is not {description}{quoted}")])


def room_for_attempts(name: Any, path: str = "jobName") -> list[Problem]:
    """Return the problems that prevent adding a later submission's suffix to a job's name.

    The name may be too long for a suffix such as ``__attempt2``, or may already end in one.
    """
    if not isinstance(name, str):
        return []
    messages = []
    if len(name) > _LONGEST:
        messages.append(
            f"has {len(name)} characters; the limit for a task's job is {_LONGEST}, so that the names of "
            "later submissions are short enough too"
        )
    if numbered := _LIKE_NUMBERED.fullmatch(name):
        messages.append(
            f"{name!r} looks like a later submission of the job {numbered['base']!r}; "
            f"choose a name that does not end in {_SUFFIX} and a number"
        )
    return [Problem(path, message) for message in messages]
