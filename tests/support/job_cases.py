"""Cases of the tests of job descriptions, which are data, and the small jobs that they change."""

from __future__ import annotations

import copy
import re
from typing import Any

import yaml
from places import DATA

__all__ = ["ABSENT", "JAVASCRIPT_TEXTS", "cases", "changed", "protocol"]

ABSENT = object()
"""In place of a value, also in the data files: the field is left out."""

_STEP = re.compile(r'\["(.+?)"\]|\[(\d+)\]|([^.\["\]]+)')


class _Loader(yaml.SafeLoader):
    """YAML with ABSENT."""


_Loader.add_implicit_resolver("!absent", re.compile("^ABSENT$"), ["A"])
_Loader.add_constructor("!absent", lambda *_: ABSENT)


def cases(name: str) -> dict[str, Any]:
    """Return the tables of ``tests/data/jobspec/NAME.yaml``, with its ``words`` in place of ``{WORD}``."""
    text = (DATA / "jobspec" / f"{name}.yaml").read_text(encoding="utf-8")
    tables = yaml.load(text, _Loader)
    words = tables.pop("words", {})
    return {key: _filled(table, words) for key, table in tables.items()}


def _filled(value: Any, words: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_filled(item, words) for item in value]
    if isinstance(value, dict):
        return {_filled(key, words): _filled(item, words) for key, item in value.items()}
    if isinstance(value, str) and "{" in value:
        return re.sub(r"\{([A-Z_]+)\}", lambda found: words.get(found[1], found[0]), value)
    return value


def changed(document: Any, changes: dict[str, Any]) -> Any:
    """Return a copy of a document with other values at paths as messages write them: ``taskRoles.w.data[0]``.

    The index after the last one appends to a list.
    """
    made = copy.deepcopy(document)
    for path, value in changes.items():
        *above, last = [name or quoted or int(index or 0) for quoted, index, name in _STEP.findall(path)]
        place = made
        for step in above:
            place = place[step]
        if value is ABSENT:
            del place[last]
        elif isinstance(place, list) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    return made


def protocol(*commands: Any, **more: Any) -> dict[str, Any]:
    """Return a valid protocol of one role, ``main``, with the image ``img``."""
    return {
        "protocolVersion": 2,
        "name": "train",
        "type": "job",
        "prerequisites": [{"name": "img", "type": "dockerimage", "uri": "python:3"}],
        "taskRoles": {
            "main": {
                "instances": 1,
                "dockerImage": "img",
                "resourcePerInstance": {"cpu": 1, "memoryMB": 200, "gpu": 0},
                "commands": list(commands or ("true",)),
            }
        },
        **more,
    }


JAVASCRIPT_TEXTS = [
    *cases("javascript_text")["values"],
    [10**400, "Infinity"],
    [-(10**400), "-Infinity"],
]
"""Values, and the text that JavaScript makes of each."""
