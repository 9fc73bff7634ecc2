"""Compares jobs: computes a job's digest, and finds the fields in which two jobs differ.

The digest and the comparison ignore the job's name, because a task's submissions have
different names. They also ignore secrets, the description and the contributor.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import SpecError
from luigi_pai.jobspec.dialects.javascript_text import javascript_text
from luigi_pai.jobspec.job import FS_URI, PaiJob
from luigi_pai.jobspec.paths import path_text
from luigi_pai.jobspec.templates.prerequisites import resolve
from luigi_pai.jobspec.templates.secrets import masked
from luigi_pai.redaction import MASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from luigi_pai.jobspec.paths import Path
    from luigi_pai.jobspec.protocol import JobProtocol

_DIGITS = 16
_STORAGES = ("extras", "storages")
_LEFT_OUT = frozenset(
    {"jobName", "name", "description", "contributor"}
)  # ignored only at the top level; in parts of the job, such as roles, these fields are compared


def job_digest(job: PaiJob | JobProtocol) -> str:
    """Return a job's digest: the first 16 hexadecimal digits of a SHA-256.

    The digest does not depend on key order, the YAML's layout, the job's name, description and
    contributor, or the values of secrets.

    Raises:
        TypeError, ValueError: A field of a PaiJob has a value that JSON does not support.
        SpecError: A field of a JobProtocol has such a value.
    """
    document = job.to_dict() if isinstance(job, PaiJob) else masked(job.to_dict())
    content = json.dumps(_compared(document), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGITS]


def differing_fields(mine: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Return the paths of the fields in which a job differs from the job stored on a server.

    Differences that the submission itself causes are left out: a server fills in defaults and may store
    numbers as strings, ``require`` is resolved, secrets are stored as ``******``, ``$PAI_DEFAULT_FS_URI`` is
    stored as ``hdfs://HOST:PORT``, and only a storage's name and mount path are stored. Fields that only the
    stored job has are also left out, because they may be the server's defaults. As a result, a field that you
    removed from ``mine`` after the submission is not reported.

    Args:
        mine: A v1 job config or a job protocol, with JSON types.
        stored: The stored job, with the same API version.

    Returns:
        Paths such as ``taskRoles[0].command``, without values, in the order of ``mine``'s fields. If two
        lists differ in length, the result contains the list's path instead of its items' paths.
    """
    if "protocolVersion" in mine:
        with contextlib.suppress(SpecError):  # if ``resolve`` fails, both jobs are compared unresolved
            mine, stored = resolve(mine), resolve(stored)
        mine, stored = masked(mine), masked(stored)
    return [path_text(path) for path in _differing(_compared(mine), _compared(stored), ())]


def _compared(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in _LEFT_OUT}


def _differing(mine: Any, stored: Any, path: Path) -> Iterator[Path]:
    if isinstance(mine, dict) and isinstance(stored, dict):
        is_storage = path[:2] == _STORAGES and {*stored} <= {"name", "mountPath"}
        for key, value in mine.items():
            if is_storage and key not in stored and key in ("readOnly", "share"):
                continue
            if value not in ("", [], {}):  # servers treat these values as a missing field
                yield from _differing(value, stored.get(key), (*path, key))
    elif isinstance(mine, list) and isinstance(stored, list) and len(mine) == len(stored):
        for index, (item, other) in enumerate(zip(mine, stored, strict=True)):
            yield from _differing(item, other, (*path, index))
    elif MASK not in (mine, stored) and not _same(mine, stored):
        yield path


def _same(mine: Any, stored: Any) -> bool:
    """Return whether values are equal as strings. ``$PAI_DEFAULT_FS_URI`` in ``mine`` matches any HDFS."""
    expected, other = javascript_text(mine), javascript_text(stored)
    pattern = re.escape(expected).replace(re.escape(FS_URI), r"hdfs://[^/\s,]+")
    return expected == other or (FS_URI in expected and re.fullmatch(pattern, other) is not None)
