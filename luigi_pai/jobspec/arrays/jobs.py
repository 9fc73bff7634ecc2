"""Arrays. An array is one job whose instances do the work of several single-container jobs.

An array's command contains its jobs' commands as a compressed table with one line per job. Each instance
selects its line by its index. It then sets the environment variables to the values that they would have in a
job with one instance: its job's name, index 0, a count of one instance, and its ports. If all jobs share a
command line of 1,000 characters or more, such as the line with a PaiPythonTask's payload, the longest such
line is stored only once, next to the table.
"""

from __future__ import annotations

import base64
import binascii
import copy
import gzip
import json
import re
import zlib
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.comparison import differing_fields
from luigi_pai.jobspec.dialects.shell_text import packed
from luigi_pai.jobspec.paths import list_of, mapping_of
from luigi_pai.jobspec.protocol import JobProtocol
from luigi_pai.jobspec.submission import submission_text
from luigi_pai.jobspec.templates.commands import entrypoints, role_commands
from luigi_pai.jobspec.templates.prerequisites import resolve
from luigi_pai.runtime import VARIABLES, folded, variables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_FILLED_IN = ("script", "output", "data")  # prerequisite types, and role fields; their URIs may differ
_SECRET = re.compile(r"<%[&{]?\s*\$secrets\b")
_SHOWN = 5  # an error names at most this many differing fields
_TABLE = re.compile(r"\(echo ([A-Za-z0-9+/=]+) \|")
_LONG = 1000  # characters; a longer line that all jobs share is stored once, next to the table
_MARK = "@luigi_pai@"  # placeholder for the shared line in the table
_ERREXIT = "set -o errexit\n"
_BYTES = "surrogateescape"
_ESCAPED = re.compile(r"\\([nr\\])")
_CHARACTERS = {"n": "\n", "r": "\r", "\\": "\\"}
_NO_COMMAND = "luigi_pai: no command for this instance; the image needs base64, gzip and sed"

_INDEX, _HOST, _HTTP = (VARIABLES[key].v2[0] for key in ("index", "host", "http"))
_JOB = VARIABLES["job"].v2[0]


def array_of(name: str, jobs: Sequence[JobProtocol]) -> JobProtocol:
    """Combine several jobs into one job, whose instances do their work.

    A failed instance does not end the array. Each instance starts as soon as the cluster has resources for
    it. The cluster restarts a failed instance as often as it would restart the job outside an array.

    Args:
        name: The array's name.
        jobs: The jobs, each with one task role and one instance. They may differ only in name, description,
            version, contributor, commands, parameters that only commands use, and URIs of scripts, data and
            outputs.

    Raises:
        SpecError: A job cannot be in this array, or the array is larger than servers accept.
    """
    documents = [resolve(job.to_dict()) for job in jobs]
    array = _shared_by_all(documents)
    array["name"] = name
    parameters = _common_parameters(array, documents)
    if parameters:
        array["parameters"] = parameters
    (role,) = array["taskRoles"].values()
    extras = array.setdefault("extras", {})
    retries = array.pop("jobRetryCount", 0) + 1
    if extras.get("gangAllocation") is False:
        retries *= role.get("taskRetryCount", 0) + 1
    extras["gangAllocation"] = False
    role |= {
        "instances": len(jobs),
        "taskRetryCount": retries - 1,
        "completion": {"minFailedInstances": -1, "minSucceededInstances": -1},
        "commands": _array_commands(documents),
    }
    protocol = JobProtocol.from_dict(array)
    try:
        submission_text(protocol)
    except SpecError as error:
        message = f"{error.problems[0].message}: put fewer points in a job (points_per_job)"
        raise SpecError(name, [Problem("", message)]) from None
    return protocol


def check_alike(jobs: Iterable[JobProtocol]) -> None:
    """Check that jobs are similar enough for one array; ``array_of`` also checks parameters and size.

    Raises:
        SpecError: A job cannot be in an array, or not in the same array as the first job.
    """
    _shared_by_all(resolve(job.to_dict()) for job in jobs)


def _comparable(document: dict[str, Any]) -> dict[str, Any]:
    """Return a job without the fields in which an array's jobs may differ (see ``array_of``)."""
    name = str(document["name"])
    roles = document.get("taskRoles") or {}
    if len(roles) != 1 or next(iter(roles.values())).get("instances", 1) != 1:
        message = "must be one role with one instance if points share a job; or remove points_per_job"
        raise SpecError(name, [Problem("taskRoles", message)])
    kept = copy.deepcopy(document)
    for key in ("name", "parameters", "deployments", "description", "contributor", "version"):
        kept.pop(key, None)
    if isinstance(kept.get("defaults"), dict):
        kept["defaults"].pop("deployment", None)
    (role,) = kept["taskRoles"].values()
    role.pop("commands", None)
    for field in _FILLED_IN:
        role.pop(field, None)
    listed = set(role.get("prerequisites") or ())
    kept["prerequisites"] = [
        each
        for each in kept.get("prerequisites") or ()
        if each.get("type") not in _FILLED_IN or each.get("name") in listed or each.get("callbacks")
    ]
    return kept


def _shared_by_all(documents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Check that jobs and their secrets match; return the shared fields. Errors never show secrets."""
    first: dict[str, Any] | None = None
    first_name = ""
    for document in documents:
        name, shared = str(document["name"]), _comparable(document)
        ((_, commands),) = role_commands(document).items()
        if any(_SECRET.search(command) for _, command in commands):
            message = "refer to secrets, which points that share a job cannot use; remove points_per_job"
            raise SpecError(name, [Problem("commands", message)])
        if first is None:
            first, first_name = shared, name
        elif shared != first:
            _check_equal(first, shared, name, first_name)
    if first is None:
        raise ValueError("an array needs at least one job")
    return copy.deepcopy(first)


def _check_equal(first: Mapping[str, Any], other: Mapping[str, Any], name: str, first_name: str) -> None:
    fields = list(dict.fromkeys((*differing_fields(first, other), *differing_fields(other, first))))
    if first.get("secrets") != other.get("secrets"):
        fields.append("secrets")
    if _auth(first) != _auth(other):
        fields.append("prerequisites.auth")
    if fields:
        more = ", ..." if len(fields) > _SHOWN else ""
        verb = "differs" if len(fields) == 1 else "differ"
        message = (
            f"{verb} from job {first_name!r}: points that share a job need the same image, resources and "
            "settings; make them equal, or remove points_per_job"
        )
        raise SpecError(name, [Problem(f"{', '.join(fields[:_SHOWN])}{more}", message)])


def _auth(document: Mapping[str, Any]) -> list[Any]:
    return [each.get("auth") for each in document.get("prerequisites") or ()]


def _common_parameters(array: Mapping[str, Any], documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters that are equal in all jobs. The commands already contain the other values."""
    given = [document.get("parameters") or {} for document in documents]
    common = {
        key: value
        for key, value in given[0].items()
        if all(key in other and other[key] == value for other in given)
    }
    rest = json.dumps([array.get("prerequisites"), array.get("extras")])
    different = sorted({key for parameters in given for key in parameters} - set(common))
    for key in different:
        if re.search(rf"\$parameters\.{re.escape(key)}\b", rest):
            message = "differs between the points: only commands can refer to it, not prerequisites or extras"
            raise SpecError(str(documents[0]["name"]), [Problem(f"parameters.{key}", message)])
    return common


# commands


def _array_commands(documents: Sequence[dict[str, Any]]) -> list[str]:
    """Return an array's commands. ``documents`` are its jobs, resolved, each with one task role."""
    ((label, role),) = documents[0]["taskRoles"].items()
    lines = [_table_line(document) for document in documents]
    command = '"$luigi_pai_line"'
    if shared := _longest_shared_line(lines):
        lines = [line.replace(shared, _MARK, 1) for line in lines]
        unpacked = packed(shared.encode("utf-8", "surrogatepass"))
        command = f'"${{luigi_pai_line%%{_MARK}*}}$({unpacked})${{luigi_pai_line#*{_MARK}}}"'
    return [
        _select_line(lines),
        *_single_job_exports(label, role.get("completion") or {}),
        "luigi_pai_line=${luigi_pai_line#*:}",
        f'eval "$(printf %b {command})"',
    ]


def jobs_in(array: Mapping[str, Any]) -> list[str] | None:
    """Return the names of an array's jobs in index order; None if the job is not an array.

    ``array`` is the job protocol that a server stored.
    """
    for role in mapping_of(array, "taskRoles").values():
        commands = list_of(role, "commands")
        if commands and (table := _unpack(str(commands[0]))) is not None:
            return [line.partition(":")[0] for line in table.splitlines()]
    return None


def job_in(array: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Return the job protocol for one of an array's instances: a job with one instance and its own command.

    ``array`` is the job protocol that a server stored. If it is not an array, it is returned unchanged.
    """
    names = jobs_in(array)
    if names is None or index >= len(names):
        return dict(array)
    ((label, role),) = array["taskRoles"].items()
    commands = [str(command) for command in role["commands"]]
    command = (_unpack(commands[0]) or "").splitlines()[index].partition(":")[2]
    command = command.replace(_MARK, _unpack(commands[-1]) or _MARK, 1)
    command = _ESCAPED.sub(lambda found: _CHARACTERS[found[1]], command).removeprefix(_ERREXIT)
    single = {**role, "instances": 1, "commands": [command]}
    single.pop("completion", None)  # the array's value, which lets no instance end the job
    return {**array, "name": names[index], "taskRoles": {label: single}}


def _unpack(command: str) -> str | None:
    """Return the string packed in a command; None if there is none."""
    found = _TABLE.search(command)
    try:
        return None if found is None else gzip.decompress(base64.b64decode(found[1])).decode("utf-8", _BYTES)
    except (binascii.Error, OSError, EOFError, zlib.error, UnicodeDecodeError):
        return None


def _table_line(document: dict[str, Any]) -> str:
    """Return a job's line in the table, ``NAME:COMMAND``. The command is escaped for ``printf %b``."""
    name = str(document["name"])
    (command,) = entrypoints(document).values()
    command = f"{_ERREXIT}{command}"  # 0.15 and 0.16 join commands with && instead of setting this
    return f"{name}:" + command.replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")


def _longest_shared_line(lines: Sequence[str]) -> str:
    """Return the longest command line that all jobs share; empty if it is shorter than 1,000 characters."""
    first, *others = lines
    if any(_MARK in line for line in lines):
        return ""
    parts = [part for part in first.split("\\n") if len(part) >= _LONG]
    return max((part for part in parts if all(part in line for line in others)), key=len, default="")


def _select_line(lines: Sequence[str]) -> str:
    """Return the shell command that reads the instance's line from the table."""
    table = packed("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))
    number = f"$(({_INDEX} + 1))"
    found = f'luigi_pai_line="$({table} | sed -n "{number}p")"'
    return f'{found} && [ -n "$luigi_pai_line" ] || {{ echo "{_NO_COMMAND}" >&2; exit 1; }}'


def _single_job_exports(label: str, completion: Mapping[str, Any]) -> Iterator[str]:
    """Yield commands that set an instance's variables to the values they have in a job with one instance."""
    role = folded(label)
    instance = {"role": role, "index": 0}
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
        variables("v2", "task_host", f'"${_HOST}"', **instance),
    ):
        values |= named
    # index 0 in variable names: instance 3 renames PAI_PORT_LIST_main_3_http to PAI_PORT_LIST_main_0_http
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
