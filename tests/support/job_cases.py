"""Cases of the tests of job descriptions, which are data, small jobs, and the scripts of releases."""

from __future__ import annotations

import copy
import re
import subprocess
from typing import Any

import yaml
from places import DATA

from luigi_pai.errors import Level
from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.validate import validate_job

__all__ = ["ABSENT", "AS_ON_V2", "JAVASCRIPT_TEXTS", "appended", "bash"]
__all__ += ["cases", "changed", "evaluated", "exit_code", "protocol", "warnings"]

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


# ---------------------------------------------------------------- scripts

AS_ON_V2 = ("-o", "errexit", "-o", "nounset", "-o", "pipefail")
"""The options with which the runtime of v2 runs commands."""

_AFTER = '\nprintf "\\n%s %s\\n\\n" "[INFO]" "END"\n\nexit 0'
_SPECIAL = re.compile(r"[ !\"#$&'()*,;<>?\[\\\]^`{|}~]")
_CONTROL = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def appended(command):
    """Return the script of 0.7 and 0.8, around the command."""
    return f"{command} || exit $?{_AFTER}"


def evaluated(command):
    """Return the script of 0.9 to 0.14: specials get a backslash, a line break becomes a backslash and n."""
    escaped = _SPECIAL.sub(r"\\\g<0>", command)
    escaped = re.sub(r"[\n\t\r]", lambda found: _CONTROL[found[0]], escaped)
    return f"eval {escaped} || exit $?{_AFTER}"


def exit_code(script, folder):
    """Return bash's exit code for a script in a file, as in a container."""
    file = folder / "script.sh"
    file.write_bytes(script.encode())
    return subprocess.run(["bash", file], cwd=folder, capture_output=True, check=False).returncode


def bash(command, *options, **about):
    """Return bash's exit code for a command, with what it prints."""
    words = ["bash", *options, "-c", command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=30, **about)


def warnings(command, release=None):
    """Return the warnings about a command in a job file of v1, without its place."""
    document = PaiJob("train", "python:3", [TaskRole("main", "true")]).to_dict()
    document["taskRoles"][0]["command"] = command
    found = validate_job(document, release=release)
    assert all(problem.level is Level.WARNING for problem in found)
    return [problem.message for problem in found]
