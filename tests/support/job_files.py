"""Job files of tests/data/jobs, and those of a further folder, each with the verdicts of servers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from places import DATA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["FURTHER", "NOT_READ", "VARIABLE", "JobFile", "all_files"]
__all__ += ["files", "further_files", "own_files", "parameters"]

VARIABLE = "LUIGI_PAI_JOB_FILES"
"""Names a folder like tests/data/jobs: v1/*.json, v2/*.yaml, and verdicts.json with "v1/NAME" as keys."""

NOT_READ = ("indented_by_tabs.yaml", "item_left_out.yaml", "octal_key.yaml", "words_and_numbers.yaml")
"""Files whose YAML servers read and we refuse; tests/jobspec/dialects/test_yaml_text.py says why."""

_OWN = DATA / "jobs"
FURTHER = Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


@dataclass(frozen=True)
class JobFile:
    """A job file and what servers make of it.

    Attributes:
        path: the file, in a folder ``v1`` or ``v2``.
        verdicts: release, such as ``v1.8.0`` -> ``{"accept": bool}`` with ``entrypoints`` or ``error(s)``.
    """

    path: Path
    verdicts: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def text(self) -> str:
        """The text with the line ends that the file has."""
        return self.path.read_bytes().decode("utf-8")

    def accepted(self, release: str) -> bool:
        """Return whether the server of a release, such as ``v1.8.0``, takes the file."""
        return bool(self.verdicts[release]["accept"])


def files(folder: Path, version: str) -> list[JobFile]:
    """Return the job files of one API version, ``v1`` or ``v2``, in a folder, by name.

    Raises:
        ValueError: a file has no verdict, or a verdict no file.
    """
    verdicts = json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))
    found = {f"{version}/{path.name}": path for path in sorted((folder / version).iterdir())}
    judged = {name for name in verdicts if name.startswith(f"{version}/")}
    if set(found) != judged:
        names = ", ".join(sorted(set(found) ^ judged))
        raise ValueError(f"{folder}: not both a file and a verdict: {names}")
    return [JobFile(path, verdicts[name]) for name, path in found.items()]


def own_files(version: str) -> list[JobFile]:
    """Return the job files of tests/data/jobs."""
    return files(_OWN, version)


def further_files(version: str) -> list[JobFile]:
    """Return the job files of the folder that the environment names; none if it names none."""
    return files(FURTHER, version) if FURTHER else []


def all_files(version: str) -> list[JobFile]:
    """Return our own job files, and the further ones after them."""
    return [*own_files(version), *further_files(version)]


def parameters(version: str, wanted: Callable[[JobFile], bool] = lambda _: True) -> list[Any]:
    """Return a test's parameters: every wanted job file, of ours and of the further folder."""
    found = [pytest.param(file, id=file.name) for file in own_files(version) if wanted(file)]
    further = filter(wanted, further_files(version))
    return [*found, *(pytest.param(file, id=f"further-{file.name}") for file in further)]
