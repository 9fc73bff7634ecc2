"""The commands of an array: a packed table of those of its jobs, of which each instance runs its own.

An instance takes its line by its index. It sees the variables of its job, as it would alone: the job's name,
index 0 of one instance, its own ports.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import re
import zlib
from typing import TYPE_CHECKING, Any

from luigi_pai.runtime import VARIABLES, variables
from luigi_pai.spec.names import folded
from luigi_pai.spec.templates.commands import entrypoints

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["array_commands", "jobs_in"]

_TABLE = re.compile(r"\(echo ([A-Za-z0-9+/=]+) \|")
_NO_COMMAND = "luigi_pai: no command for this instance; the image needs base64, gzip and sed"

_INDEX, _HOST, _HTTP = (VARIABLES[key].v2[0] for key in ("index", "host", "http"))
_JOB = VARIABLES["job"].v2[0]


def array_commands(documents: Sequence[dict[str, Any]]) -> list[str]:
    """Return the commands of an array.

    Args:
        documents: its jobs, resolved, each with one task role.
    """
    ((label, role),) = documents[0]["taskRoles"].items()
    return [
        _own_line([_line(document) for document in documents]),
        *_as_alone(label, role.get("completion") or {}),
        'eval "$(printf %b "${luigi_pai_line#*:}")"',
    ]


def jobs_in(array: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the jobs of an array by index, from the job as a server stores it.

    None if it is no array.
    """
    roles = array.get("taskRoles")
    for role in roles.values() if isinstance(roles, dict) else ():
        commands = role.get("commands") if isinstance(role, dict) else None
        found = _TABLE.search(str(commands[0])) if isinstance(commands, list) and commands else None
        if found:
            try:
                table = gzip.decompress(base64.b64decode(found[1])).decode("utf-8", "surrogateescape")
            except (binascii.Error, OSError, EOFError, zlib.error, UnicodeDecodeError):
                return None
            return [line.partition(":")[0] for line in table.splitlines()]
    return None


def _line(document: dict[str, Any]) -> str:
    """Return the line of a job in the table: its name and its command, in the escapes of ``printf %b``."""
    name = str(document["name"])
    (text,) = entrypoints(document).values()
    text = f"set -o errexit\n{text}"  # the server of 0.15 and 0.16 joins commands by && in place of it
    return f"{name}:" + text.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")


def _own_line(lines: Sequence[str]) -> str:
    """Return the command that takes the instance's own line from the table."""
    table = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
    packed = base64.b64encode(gzip.compress(table, mtime=0)).decode("ascii")
    number = f"$(({_INDEX} + 1))"
    found = f'luigi_pai_line="$(echo {packed} | base64 -d | gzip -d | sed -n "{number}p")"'
    return f'{found} && [ -n "$luigi_pai_line" ] || {{ echo "{_NO_COMMAND}" >&2; exit 1; }}'


def _as_alone(label: str, completion: Mapping[str, Any]) -> Iterator[str]:
    """Yield commands that set the variables that tell an array from a job of one instance."""
    role = folded(label)
    place = {"role": role, "index": 0}
    own_name = f'"${{{_JOB}%%~*}}~${{luigi_pai_line%%:*}}"'
    values: dict[str, str] = {}
    for named in (
        variables("v2", "job", own_name),
        variables("v2", "index", 0),
        variables("v2", "tasks", 1),
        variables("v2", "count", 1, role=label),
        variables("v2", "instances", f"{role}:0"),
        variables("v2", "min_failed", completion.get("minFailedInstances") or 1, role=label),
        variables("v2", "min_succeeded", completion.get("minSucceededInstances") or 1, role=label),
        variables("v2", "hosts", f'"${_HOST}:${_HTTP}"', role=role),
        variables("v2", "task_host", f'"${_HOST}"', **place),
    ):
        values |= named
    # of all instances, PAI_PORT_LIST_main_3_http and the like: those of this one become those of 0
    before, after = rf"PAI_(PORT_LIST_|HOST_IP_)?{role}_", "(_[A-Za-z0-9_]+)?"
    pairs = f"env | sed -En 's/^({before})[0-9]+({after})=.*/\\1:\\3/p' | sort -u"
    names = f"env | sed -En 's/^({before}[0-9]+{after})=.*/\\1/p'"
    yield (
        f"luigi_pai_own=; for luigi_pai_name in $({pairs}); do "
        "luigi_pai_old=${luigi_pai_name%%:*}${" + _INDEX + "}${luigi_pai_name#*:}; "
        'luigi_pai_own="$luigi_pai_own ${luigi_pai_name%%:*}0${luigi_pai_name#*:}=${!luigi_pai_old:-}"; done'
    )
    yield f"unset luigi_pai_name luigi_pai_old $({names})"
    yield "export $luigi_pai_own " + " ".join(f"{name}={value}" for name, value in values.items())
