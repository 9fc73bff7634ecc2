"""Reads a job from a file: a v1 job config (in JSON or YAML) or a v2 job protocol (in YAML)."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.dialects.json_text import read_json
from luigi_pai.jobspec.dialects.yaml_text import decoded, read_yaml
from luigi_pai.jobspec.releases import has_js_yaml_4, release_number, release_title
from luigi_pai.jobspec.validate import validate_job
from luigi_pai.jobspec.validate_protocol import validate_protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FIRST_V2, _FIRST_WITHOUT_V1 = (0, 15), (1, 1)
_WANTED = "give a job config (JSON) or a job protocol (YAML)"
_ITS_JOB = "not a job file; write a job whose command runs it"
_OTHERS = (
    (
        r"\A.*\.py$|^#!.*python|^(?:from|import) \w",
        f"a Python script, {_ITS_JOB}, or run its tasks with luigi-pai run MODULE TASK",
    ),
    (r"\A.*\.(?:ba)?sh$|^#!", f"a shell script, {_ITS_JOB}"),
    (r"\A.*\.ipynb$", f"a notebook, {_ITS_JOB}"),
    (
        r"\ADockerfile|^FROM \S",
        "a Dockerfile, not a job file; push the image that it builds, and use the image in a job",
    ),
    (
        r"^\[[A-Za-z][^][{}\"']*\]\n(?:[\w.-]+\s*[=:]|\[[A-Za-z][^][{}\"']*\]$)",
        f"a configuration file like luigi.cfg, not a job; {_WANTED}",
    ),
)
"""Pattern for a file's name and its first lines, and a description of such files."""

_V1_FIELDS = frozenset({"jobName", "image", "codeDir", "dataDir", "outputDir"})


@dataclass(frozen=True)
class JobFile:
    """A job that was read from a file.

    Attributes:
        path: The file.
        api_version: ``v1`` for a job config, ``v2`` for a job protocol.
        document: The job as dicts, lists and plain values.
        text: The file's content.
        lines: Path of each value -> its line in the file.
        warnings: Problems with scalars and keys in a YAML file that a server reads in a surprising way, or
            that servers read differently. Some have a stricter level than ``Level.WARNING``.
    """

    path: Path
    api_version: Literal["v1", "v2"]
    document: Any = field(repr=False)
    text: str = field(repr=False)
    lines: Mapping[tuple[str | int, ...], int] = field(repr=False, default_factory=dict)
    warnings: tuple[Problem, ...] = field(repr=False, default=())

    def problems(self, release: str | None = None) -> list[Problem]:
        """Return all the job's problems.

        Args:
            release: The server's release, such as ``0.7.1`` or ``ltp-1.5``. If None, it is enough that some
                release of the API version accepts the job.
        """
        number = (0,) if release is None else release_number(release)
        if self.api_version == "v2" and release is not None and number < _FIRST_V2:
            return [Problem("", f"is a job protocol, but {release_title(release)} runs only v1 job configs")]
        if isinstance(self.document, str):
            return [Problem("", f"is a string, not a job; {_WANTED}")]
        if self.api_version == "v1" and release is not None and number >= _FIRST_WITHOUT_V1:
            title = release_title(release)
            return [Problem("", f"is a v1 job config, which {title} does not run; use luigi-pai convert")]
        if self.api_version == "v2":
            document, warnings = self.document, self.warnings
            if release is not None:
                read = read_yaml(self.text, lenient=True, js_yaml_4=has_js_yaml_4(number))
                document, warnings = read.value, (*read.warnings, *read.problems)
            found = validate_protocol(document, lines=self.lines, text=self.text, release=release)
            return [*warnings, *found]
        if not isinstance(self.document, dict):
            kind = type(self.document).__name__
            return [Problem("", f"must be an object (a job config or a job protocol), not {kind}")]
        return [*self.warnings, *validate_job(self.document, release=release, lines=self.lines)]


def read_job_file(path: Path, content: bytes | None = None) -> JobFile:
    """Read a job from a file. If you have already read the file, pass its ``content``.

    Raises:
        SpecError: The content is not UTF-8, is neither JSON nor YAML, or is obviously not a job.
        OSError: The file cannot be read.
    """
    content = path.read_bytes() if content is None else content
    text = decoded(content, str(path)).removeprefix("\ufeff")
    if reason := _no_job(path.name, text):
        raise SpecError(str(path), [Problem("", reason)])
    if path.suffix.lower() == ".json" or text.lstrip().startswith("{"):
        try:
            document = read_json(text, str(path))
        except SpecError:
            if path.suffix.lower() == ".json" or not _lines(text):
                raise
        else:
            if not (isinstance(document, dict) and "protocolVersion" in document):
                return JobFile(path, "v1", document, text, _lines(text))
    read = read_yaml(text, str(path), lenient=True)
    value = read.value
    is_v1 = isinstance(value, dict) and "protocolVersion" not in value and not _V1_FIELDS.isdisjoint(value)
    warnings = (*read.warnings, *read.problems)
    return JobFile(path, "v1" if is_v1 else "v2", value, text, read.lines, warnings)


def _lines(text: str) -> Mapping[tuple[str | int, ...], int]:
    """Return path -> line for JSON, by reading it as YAML; empty if it is not valid YAML."""
    with contextlib.suppress(SpecError):
        return read_yaml(text, lenient=True).lines
    return {}


def _no_job(name: str, text: str) -> str | None:
    """Return why a file with this name and content is obviously not a job, or None."""
    lines = [line.strip() for line in text.splitlines()]
    content = [line for line in lines if line and not line.startswith(("#", ";"))]
    if not content:
        return f"is empty; {_WANTED}"
    start = "\n".join([name, lines[0], *content[:2]])
    found = (kind for pattern, kind in _OTHERS if re.search(pattern, start, re.MULTILINE))
    return next((f"is {kind}" for kind in found), None)
