"""Job scripts, for tests: how jobs end whose commands are not run.

A rule is an object of JSON; `parse_job_scripts` names its keys. The first rule
whose pattern the job's name matches decides, unless it has been used up.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["JOB_SCRIPTS_PATH", "JobScript", "JobScripts", "parse_job_scripts"]

JOB_SCRIPTS_PATH = "/local/job-scripts"
"""Where rules are added."""

_MAX_EXIT_CODE = 255
_MAX_SECONDS = 86_400


@dataclass
class JobScript:
    """What becomes of the jobs of some names, in place of their commands.

    Attributes:
        job: their names, ``*`` standing for anything.
        exit_code: of every task.
        stdout, stderr: what every task writes.
        after: seconds that it runs; None for as long as nobody stops it.
        waits: the job stays in the queue for as long as nobody stops it.
        times: for how many jobs; None for all.
        used: for how many it was.
    """

    job: str
    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    after: float | None = 0.0
    waits: bool = False
    times: int | None = None
    used: int = 0


class JobScripts:
    """The rules in force, and what they have decided.

    Attributes:
        rules: the rules, in the order in which they are tried.
    """

    def __init__(self) -> None:
        self.rules: list[JobScript] = []
        self._decided: dict[int, JobScript] = {}

    def decide(self, job_id: int, name: str) -> JobScript | None:
        """Return the rule for a job that was submitted now; None if its commands are to run."""
        for rule in self.rules:
            if fnmatchcase(name, rule.job) and rule.used != rule.times:
                rule.used += 1
                self._decided[job_id] = rule
                return rule
        return None

    def of(self, job_id: int) -> JobScript | None:
        """Return the rule that was decided on for a job."""
        return self._decided.get(job_id)

    def clear(self) -> None:
        """Remove the rules and what they have decided."""
        self.rules.clear()
        self._decided.clear()


def parse_job_scripts(value: Any) -> list[JobScript]:
    """Return the rules that a value of JSON describes, a list of objects.

    Raises:
        ConfigError: naming everything that is wrong.
    """
    if not isinstance(value, list):
        raise ConfigError('job scripts: not a list such as [{"job": "train-*", "exit_code": 1}]')
    problems = [f"[{number}]{text}" for number, rule in enumerate(value) for text in _problems(rule)]
    if problems:
        raise ConfigError(f"job scripts: {'; '.join(problems)}")
    return [JobScript(**rule) for rule in value]


def _problems(rule: Any) -> Iterator[str]:
    if not isinstance(rule, dict):
        yield ": is not an object"
        return
    known = [field.name for field in fields(JobScript) if field.name != "used"]
    yield from (
        f".{key}: there is no such key; there are {', '.join(known)}" for key in rule if key not in known
    )
    if "job" not in rule:
        yield ": job is missing, the names that it is for, such as 'train-*'"
    for key in ("job", "stdout", "stderr"):
        if not isinstance(rule.get(key, ""), str):
            yield f".{key}: is not text"
    if not _is_whole(rule.get("exit_code", 0), _MAX_EXIT_CODE):
        yield f".exit_code: is not a whole number from 0 to {_MAX_EXIT_CODE}"
    if rule.get("times") is not None and not _is_whole(rule["times"], _MAX_SECONDS):
        yield ".times: is not a whole number"
    if not isinstance(rule.get("waits", False), bool):
        yield ".waits: is neither true nor false"
    after = rule.get("after", 0)
    is_number = isinstance(after, int | float) and not isinstance(after, bool)
    if after is not None and not (is_number and 0 <= after <= _MAX_SECONDS):
        yield f".after: is not a number of seconds from 0 to {_MAX_SECONDS}"


def _is_whole(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
