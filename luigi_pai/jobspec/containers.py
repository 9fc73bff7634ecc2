"""Adds two environment variables and ``pai_runtime.py`` to the containers of a task's job."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai import runtime
from luigi_pai.jobspec.dialects.shell_text import packed, strict
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.runtime import VARIABLES, attempt_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.jobspec.protocol import JobProtocol, Role

RUNTIME_FILE = Path(runtime.__file__)
"""The source file of ``luigi_pai.runtime``, which is copied to containers."""

RUNTIME_NAME = "pai_runtime.py"
"""The name of the copy in containers."""

_ATTEMPT = VARIABLES["attempt"].v1[0]
_CHECKPOINTS = VARIABLES["checkpoint_dir"].v1[0]
_OUTPUT = VARIABLES["output_dir"].v1[0]
_SETTING = re.compile(r"(?:set|export) [^;&|`()\n]*")


def for_containers(job: PaiJob | JobProtocol, name: str, *, with_runtime: bool) -> PaiJob | JobProtocol:
    """Return a copy of a job to submit, with this name and with additions to its containers.

    If a role's commands mention LUIGI_PAI_ATTEMPT or LUIGI_PAI_CHECKPOINT_DIR, the role first exports both
    variables. If ``with_runtime`` is true, every role exports both, and a protocol's roles also write
    ``pai_runtime.py``. For a v1 job, the task uploads this file to the job's code folder instead.
    """
    if isinstance(job, PaiJob):

        def exporting(command: Any) -> Any:
            return f"{_export(name)}; {command}" if with_runtime or _names_variables(command) else command

        changed = _with_commands(job, exporting)
        changed.jobName = name
        return changed
    protocol = job.renamed(name)
    for protocol_role in protocol.taskRoles.values():
        _prepare(protocol_role, name, with_runtime=with_runtime)
    return protocol


def with_strict_shell(job: PaiJob) -> PaiJob:
    """Return a copy of a job whose commands run under ``set -e -o pipefail``."""

    def as_strict(command: Any) -> Any:
        return strict(command) if isinstance(command, str) and command.strip() else command

    return _with_commands(job, as_strict)


def _with_commands(job: PaiJob, change: Callable[[Any], Any]) -> PaiJob:
    """Return a copy of a v1 job with changed commands. A role is a TaskRole or a mapping of its fields."""

    def with_command(role: Any) -> Any:
        if isinstance(role, Mapping):
            return {key: change(value) if key == "command" else value for key, value in role.items()}
        role = copy.copy(role)
        role.command = change(role.command)
        return role

    changed = copy.copy(job)
    changed.taskRoles = [with_command(role) for role in job.taskRoles]
    return changed


def _prepare(role: Role, name: str, *, with_runtime: bool) -> None:
    first = [_unpacking()] if with_runtime else []
    if with_runtime or any(map(_names_variables, role.commands)):
        index = _after_output_folder(role.commands)
        role.commands = [*role.commands[:index], _export(name), *first, *role.commands[index:]]


def _after_output_folder(commands: list[str]) -> int:
    """Return the index of the command after the one that exports the output folder in a converted job.

    Return 0 if a command other than ``set`` and ``export`` comes first, because that command might need the
    additions.
    """
    for index, command in enumerate(commands):
        if not isinstance(command, str) or not _SETTING.fullmatch(command):
            break
        if f" {_OUTPUT}=" in command:
            return index + 1
    return 0


def _names_variables(command: object) -> bool:
    return isinstance(command, str) and (_ATTEMPT in command or _CHECKPOINTS in command)


def _export(name: str) -> str:
    """Return a command that exports attempt and checkpoint folder (``""`` without an output folder)."""
    folder = f"${{{_OUTPUT}:+${_OUTPUT}/_checkpoint}}"
    return f'export {_ATTEMPT}={attempt_of(name)[1]} {_CHECKPOINTS}="{folder}"'


def _unpacking() -> str:
    """Return the command that writes ``pai_runtime.py`` and adds its folder to PYTHONPATH.

    The folder is the working folder or, if the command cannot write there (as in images whose user is not
    root), a new temporary folder.
    """
    return (
        f'_pai=$PWD; (: >"$_pai/{RUNTIME_NAME}") 2>/dev/null || _pai=$(mktemp -d); '
        f'{packed(RUNTIME_FILE.read_bytes())} >"$_pai/{RUNTIME_NAME}" && '
        'export PYTHONPATH="$_pai${PYTHONPATH:+:$PYTHONPATH}"'
    )
