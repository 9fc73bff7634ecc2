"""A job in a file: a v1 job config in JSON, or a v2 job protocol in YAML."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from luigi_pai.errors import Problem, SpecError
from luigi_pai.spec.schema_problems import release_number
from luigi_pai.spec.validate import validate_job
from luigi_pai.spec.validate_protocol import validate_protocol
from luigi_pai.spec.yaml_text import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["JobFile", "read_job_file"]

_FIRST_V2, _FIRST_WITHOUT_V1 = (0, 15), (1, 1)
_V1_FIELDS = frozenset({"jobName", "image", "codeDir", "dataDir", "outputDir"})


@dataclass(frozen=True)
class JobFile:
    """A job as a file says it.

    Attributes:
        path: of the file.
        dialect: ``v1``, a job config in JSON, or ``v2``, a job protocol in YAML.
        document: as plain dicts, lists and values.
        text: of the file.
        lines: where in the file each part is (v2 only).
        warnings: what the server reads otherwise than it is written, some of it stricter than a warning
            (v2 only).
    """

    path: Path
    dialect: Literal["v1", "v2"]
    document: Any = field(repr=False)
    text: str = field(repr=False)
    lines: Mapping[tuple[str | int, ...], int] = field(repr=False, default_factory=dict)
    warnings: tuple[Problem, ...] = field(repr=False, default=())

    def problems(self, release: str | None = None) -> list[Problem]:
        """Return every problem of the job.

        Args:
            release: of the OpenPAI that is to run it, ``0.7.1``; any of the
                dialect's that takes it where not given.
        """
        number = (0,) if release is None else release_number(release)
        if self.dialect == "v2" and release is not None and number < _FIRST_V2:
            return [Problem("", f"is a job protocol; OpenPAI {release} runs v1 job configs only")]
        if self.dialect == "v1" and number >= _FIRST_WITHOUT_V1:
            return [
                Problem(
                    "", f"is a v1 job config, which OpenPAI {release} does not run; see luigi-pai convert"
                )
            ]
        if self.dialect == "v2":
            found = validate_protocol(self.document, lines=self.lines, text=self.text, release=release)
            return [*self.warnings, *found]
        if not isinstance(self.document, dict):
            kind = type(self.document).__name__
            return [
                Problem("", f"is {kind} in place of an object; it must be a job config or a job protocol")
            ]
        return validate_job(self.document, release=release)


def read_job_file(path: Path) -> JobFile:
    """Read a job from a file.

    Raises:
        SpecError: it is neither JSON nor YAML, with the line.
        OSError: it cannot be read.
    """
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise SpecError(str(path), [Problem("", "is not UTF-8; save it as UTF-8", line=line)]) from None
    if path.suffix.lower() == ".json" or text.lstrip().startswith("{"):
        try:
            document = json.loads(text)
        except (RecursionError, ValueError) as error:
            if path.suffix.lower() == ".json":
                raise SpecError(str(path), [_no_json(error)]) from None
        else:
            if not (isinstance(document, dict) and "protocolVersion" in document):
                return JobFile(path, "v1", document, text)
    read = read_yaml(text, str(path), lenient=True)
    value = read.value
    is_v1 = isinstance(value, dict) and "protocolVersion" not in value and not _V1_FIELDS.isdisjoint(value)
    return JobFile(path, "v1" if is_v1 else "v2", value, text, read.lines, (*read.warnings, *read.problems))


def _no_json(error: Exception) -> Problem:
    if isinstance(error, json.JSONDecodeError):
        return Problem("", f"is no JSON: {error.msg}, column {error.colno}", line=error.lineno)
    # what else Python's reader gives up on, with words of its own
    return Problem("", "is nested too deep, or has a number that is too long")
