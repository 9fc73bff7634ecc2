"""Job scripts, the rules with which tests decide how jobs with certain names end.

A rule is a JSON object with the fields of `_JobScript`. The first rule that is not used up and whose pattern
matches the job's name applies. The server runs none of that job's commands, code and plugins.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from luigi_pai.local.config.fault_rules import check_rules
from luigi_pai.local.container.environment import base_variables

if TYPE_CHECKING:
    from luigi_pai.local.container.task_files import Preparation, TaskStart
    from luigi_pai.local.store.records import Job

JOB_SCRIPTS_PATH = "/local/job-scripts"
"""The URL path to which rules are posted."""

_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            **{key: {"type": "string"} for key in ("job", "stdout", "stderr")},
            "exit_code": {"type": "integer", "minimum": 0, "maximum": 255},
            "after": {"type": ["number", "null"], "minimum": 0, "maximum": 86_400},
            **{key: {"type": "boolean"} for key in ("waits", "completing")},
            "times": {"type": ["integer", "null"], "minimum": 0},
        },
        "required": ["job"],
        "additionalProperties": False,
    },
}


@dataclass
class _JobScript:
    """A rule that says how jobs with certain names end. The server does not run the commands of these jobs.

    Attributes:
        job: pattern of the jobs' names; ``*`` stands for anything.
        exit_code: exit code of every task.
        stdout, stderr: what every task writes.
        after: seconds that every task runs; if it is None, tasks run until the job is stopped.
        waits: whether the job stays in the queue, without running, until it is stopped.
        completing: v1: whether the API reports meanwhile, as 0.10 to 0.14 do, that all tasks have ended.
        times: largest number of jobs that the rule applies to; None for no limit.
        used: number of jobs that the rule was applied to so far.
    """

    job: str
    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    after: float | None = 0.0
    waits: bool = False
    completing: bool = False
    times: int | None = None
    used: int = 0


class JobScripts:
    """The rules, and the rule that was chosen for each job.

    Attributes:
        rules: the rules, in the order in which they are tried.
    """

    def __init__(self) -> None:
        self.rules: list[_JobScript] = []
        self._decided: dict[int, _JobScript] = {}

    def decide(self, job: Job) -> _JobScript | None:
        """Choose and return the rule for a new job; None if the job's commands are to run."""
        for rule in self.rules:
            if fnmatchcase(job.task_name, rule.job) and rule.used != rule.times:
                rule.used += 1
                self._decided[job.id] = rule
                return rule
        return None

    def of(self, job_id: int) -> _JobScript | None:
        """Return the rule that was chosen for a job; None if there is none."""
        return self._decided.get(job_id)

    def clear(self) -> None:
        """Remove all rules, and forget which rule was chosen for which job."""
        self.rules.clear()
        self._decided.clear()


def parse_job_scripts(value: Any) -> list[_JobScript]:
    """Return the rules in a JSON value; raises ConfigError with all problems."""
    check_rules("job scripts", value, _SCHEMA)
    return [_JobScript(**rule) for rule in value]


def prepare_scripted(start: TaskStart, script: _JobScript) -> Preparation:
    """Return the `Preparation` of a task whose process only waits, writes and exits, as its rule says."""
    lines = [] if script.after == 0 else [f"sleep {'infinity' if script.after is None else script.after}"]
    lines += [f"printf %s {shlex.quote(script.stdout)}", f"printf %s {shlex.quote(script.stderr)} >&2"]
    command = "".join(f"{line}\n" for line in [*lines, f"exit {script.exit_code}"])
    return partial(start.files.make, {"command.sh": command}, ()), base_variables(start)
