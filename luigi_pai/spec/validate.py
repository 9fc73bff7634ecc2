"""Every problem of a job at once, each with its path, before anything is sent.

What is refused here: what the server refuses (JSON Schema in ``schemas/``), and
what it takes and then breaks on: roles that end up under one name, memory under
100 MB, a command of blanks.
"""

from __future__ import annotations

import difflib
import json
import re
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from luigi_pai.errors import Problem, SpecError
from luigi_pai.spec.job import PaiJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

__all__ = ["check_job", "check_name", "folded", "room_for_attempts", "validate_job"]

_INTEGER_TEXT = re.compile(r"\s*[-+]?\d{1,18}\s*", re.ASCII)
_DEFAULT_MEMORY_MB = 100  # of the server, where a role has no memoryMB
_LAST_PORT = 65535
_LONGEST_SHOWN = 80
_LARGEST_BODY = 100 * 1024  # bytes
_LONGEST_NAME = 255 - len("__attempt999")


def check_job(job: PaiJob, further: Iterable[Problem] = ()) -> None:
    """Refuse a job that cannot run.

    Args:
        job: the job.
        further: problems that were found elsewhere.

    Raises:
        SpecError: with every problem.
    """
    problems = [*validate_job(job), *further]
    if problems:
        raise SpecError(str(job.jobName), problems)


def check_name(name: Any) -> None:
    """Refuse a name that no server could be asked for: no text, empty, or a step within a URL.

    Raises:
        SpecError: saying what a name is.
    """
    if not isinstance(name, str) or name in ("", ".", ".."):
        what = _schema()["properties"]["jobName"]["description"]
        raise SpecError(str(name), [Problem("jobName", f"{name!r} is not {what}")])


def room_for_attempts(name: Any) -> list[Problem]:
    """Return what is wrong with the length of a name that ``__attempt2`` may be added to."""
    if not isinstance(name, str) or len(name) <= _LONGEST_NAME:
        return []
    return [
        Problem(
            "jobName",
            f"has {len(name)} characters; the job of a task has at most {_LONGEST_NAME}, so that the names "
            "of later attempts are short enough too",
        )
    ]


def validate_job(job: PaiJob | Mapping[str, Any]) -> list[Problem]:
    """Find every problem of a v1 job.

    Args:
        job: a PaiJob, or the document as JSON gives it.

    Returns:
        the problems in the order of the job's fields; empty when there is none.
    """
    if isinstance(job, PaiJob):
        try:
            document = job.to_dict()
        except (TypeError, ValueError) as error:
            return [Problem("", f"cannot be written as JSON: {error}")]
    else:
        document = dict(job)
    document = _numbers(document, _schema())
    problems = [problem for error in _validator().iter_errors(document) for problem in _as_problems(error)]
    problems += _relations(document)
    size = len(json.dumps(document))
    if size > _LARGEST_BODY:
        problems.append(Problem("", f"has {size:,} bytes as JSON; servers take at most {_LARGEST_BODY:,}"))
    return sorted(dict.fromkeys(problems), key=lambda problem: _position(problem.path))


def folded(role: str) -> str:
    """Return a role's name as servers of the v2 dialect show it: ``My_Role`` -> ``myrole``."""
    return re.sub(r"[^a-z0-9]", "", role.lower())


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    text = resources.files("luigi_pai.spec").joinpath("schemas/job.v1.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@lru_cache(maxsize=1)
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # noqa: PLC0415  heavy, and only needed here

    return Draft202012Validator(_schema())


def _numbers(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return the document with ``"4"`` as 4 where the schema wants an integer: servers take both."""
    kind = schema.get("type")
    if isinstance(value, str) and "integer" in (kind if isinstance(kind, list) else [kind]):
        return int(value) if _INTEGER_TEXT.fullmatch(value) else value
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        return {key: _numbers(item, properties.get(key, {})) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item, schema.get("items", {})) for item in value]
    return value


def _as_problems(error: ValidationError) -> Iterator[Problem]:
    path = list(error.absolute_path)
    schema = cast("Mapping[str, Any]", error.schema)
    known = list(schema.get("properties", {}))
    instance: Any = error.instance
    if error.validator == "required":
        for missing in [name for name in schema["required"] if name not in instance]:
            what = schema["properties"][missing]["description"]
            yield Problem(_path([*path, missing]), f"is missing; it must be {what}")
    elif error.validator == "additionalProperties":
        for unknown in [name for name in instance if name not in known]:
            near = difflib.get_close_matches(unknown, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            yield Problem(_path([*path, unknown]), f"is not a field here; {hint}")
    elif "propertyNames" in error.absolute_schema_path:
        yield Problem(_path([*path, instance]), f"{instance!r} is not {schema['description']}")
    else:
        what = schema.get("description", "valid")
        yield Problem(_path(path), f"{_shown(instance, path)} is not {what}")


def _shown(value: Any, path: list[Any]) -> str:
    """Return a value as an error may show it: short, and never that of a variable of the user's."""
    if "jobEnvs" in path:
        return f"a value of type {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _path(parts: list[Any]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")


def _relations(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems that concern more than one field."""
    roles = document.get("taskRoles")
    if not isinstance(roles, list):
        return
    seen: dict[str, tuple[int, str]] = {}
    for index, role in enumerate(roles):
        if not isinstance(role, dict):
            continue
        path = f"taskRoles[{index}]"
        name = role.get("name")
        if isinstance(name, str) and name:
            yield from _same_name(f"{path}.name", name, seen)
            seen.setdefault(folded(name), (index, name))
        yield from _role_relations(path, role)


def _same_name(path: str, name: str, seen: Mapping[str, tuple[int, str]]) -> Iterator[Problem]:
    if folded(name) not in seen:
        return
    index, other = seen[folded(name)]
    if other == name:
        yield Problem(
            path, f"{name!r} is the name of taskRoles[{index}] too; servers would drop one of them silently"
        )
    else:
        yield Problem(
            path,
            f"{name!r} and {other!r} (taskRoles[{index}]) are the same role to servers that fold names to "
            f"{folded(name)!r}; give one of them another name",
        )


def _role_relations(path: str, role: Mapping[str, Any]) -> Iterator[Problem]:
    memory = role.get("memoryMB", _DEFAULT_MEMORY_MB)
    shm = role.get("shmMB")
    if _is_int(memory) and _is_int(shm) and shm > memory:
        yield Problem(f"{path}.shmMB", f"{shm} is more than memoryMB, {memory}; shared memory is part of it")
    tasks = role.get("taskNumber", 1)
    for field in ("minFailedTaskCount", "minSucceededTaskCount"):
        count = role.get(field)
        if _is_int(count) and _is_int(tasks) and count > tasks >= 1:
            yield Problem(f"{path}.{field}", f"{count} is more than taskNumber, {tasks}")
    ports = role.get("portList")
    labels: dict[str, int] = {}
    for index, port in enumerate(ports if isinstance(ports, list) else []):
        label = port.get("label") if isinstance(port, dict) else None
        if not isinstance(label, str):
            continue
        if label in labels:
            yield Problem(
                f"{path}.portList[{index}].label",
                f"{label!r} is the label of portList[{labels[label]}] too; "
                "servers would drop one of them silently",
            )
        labels.setdefault(label, index)
        begin, count = port.get("beginAt", 0), port.get("portNumber", 1)
        if _is_int(begin) and _is_int(count) and 0 < begin <= _LAST_PORT < begin + count - 1:
            yield Problem(
                f"{path}.portList[{index}].portNumber",
                f"{count} ports from {begin} go beyond port {_LAST_PORT}",
            )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _position(path: str) -> tuple[Any, ...]:
    """Return where a path stands in the order of the schema, for sorting."""
    order: list[tuple[int, int, str]] = []
    schema: Mapping[str, Any] = _schema()
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        if index:
            order.append((0, int(index), ""))
            schema = schema.get("items", {})
        else:
            names = list(schema.get("properties", {}))
            order.append((1, names.index(name) if name in names else len(names), name))
            schema = schema.get("properties", {}).get(name, {})
    return tuple(order)
