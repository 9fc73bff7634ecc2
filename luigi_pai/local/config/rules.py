"""The rules that tests use to control the server: which requests fail, and how jobs with certain names end.

A rule is a JSON object with the fields of `Rule` or `JobScript`. Each fault rule has its own random number
generator, so the same rules, seed and order of requests produce the same faults.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.local.store.records import Job

CONTROL = "/local/"
"""The prefix of the routes that tests use to control the server; no faults are injected into them."""

FAULTS_PATH = f"{CONTROL}faults"
"""The path for reading and changing the rules."""

CONTENTS_PATH = f"{CONTROL}contents"
"""The path for listing jobs, and deleting jobs and files."""

JOB_SCRIPTS_PATH = f"{CONTROL}job-scripts"
"""The path for posting job scripts."""


@dataclass
class Rule:
    """A kind of fault, and the requests that it affects.

    Attributes:
        fault: the kind of fault; docs/local.md describes each.
        method: HTTP methods to match; empty for all methods.
        path: request path to match, without ``/rest-server``; ``*`` matches any string.
        rate: probability, from 0 to 1, that a matching request is affected.
        count: maximum number of affected requests; None for no limit.
        skip: number of matching requests to let through first.
        seconds: duration of a delay or a race, or time until a rate limit's window ends.
        status: HTTP status of an error.
        executed: whether the server executes a request before it responds with the error.
        seen: number of matching requests so far.
        struck: number of affected requests so far.
    """

    fault: str
    method: tuple[str, ...] = ()
    path: str = "/api/*"
    rate: float = 1.0
    count: int | None = None
    skip: int = 0
    seconds: float = 1.0
    status: int = 503
    executed: bool = False
    seen: int = 0
    struck: int = 0
    dice: random.Random = field(default_factory=random.Random, repr=False)

    def strikes(self, method: str, path: str) -> bool:
        """Return whether the rule affects a request, and count the request if it matches."""
        if (self.method and method not in self.method) or not fnmatchcase(path, self.path):
            return False
        self.seen += 1
        roll = self.dice.random()
        if self.seen <= self.skip or self.struck == self.count or roll >= self.rate:
            return False
        self.struck += 1
        return True

    def shown(self) -> dict[str, Any]:
        """Return the rule as the control route responds with it."""
        return {name: value for name, value in vars(self).items() if name != "dice"}


class Faults:
    """The active rules, in order. A request's delays add up until a rule causes another kind of fault."""

    def __init__(self, seed: int = 0, rules: tuple[Rule, ...] = ()) -> None:
        self.seed = seed
        self.rules = rules
        for number, rule in enumerate(rules):
            rule.dice.seed(f"{seed}:{number}")

    def strike(self, method: str, path: str) -> tuple[float, Rule | None]:
        """Return a request's delay in seconds, and the rule for the fault after it (None: no fault)."""
        wait = 0.0
        for rule in self.rules:
            if rule.strikes(method, path):
                if rule.fault != "delay":
                    return wait, rule
                wait += rule.seconds
        return wait, None

    def shown(self) -> dict[str, Any]:
        """Return the seed and the rules with their counts, as the control route responds with them."""
        return {"seed": self.seed, "rules": [rule.shown() for rule in self.rules]}


def read_faults(option: str) -> Any:
    """Parse ``--faults`` as JSON. Raise ConfigError if it is not JSON."""
    try:
        return json.loads(option)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--faults is not JSON: {error}") from None


def parse_faults(value: Any) -> Faults:
    """Build faults from a JSON value: either ``{"seed": N, "rules": [...]}`` or just the list of rules.

    Raises:
        ConfigError: the value is not valid; the error lists every problem and where it is.
    """
    if isinstance(value, list):
        value = {"rules": value}
    _check("faults", value)
    return Faults(value.get("seed", 0), tuple(_rule(rule) for rule in value.get("rules", [])))


def _check(subject: str, value: Any) -> None:
    """Check ``faults`` or ``job scripts`` against their schema; raise ConfigError with all problems."""
    if value in ([], {}, {"rules": []}):
        return
    from jsonschema import Draft7Validator  # noqa: PLC0415  slow to import, and most servers have no rules

    schema = json.loads(
        Path(__file__).with_name(f"{subject.replace(' ', '_')}.schema.json").read_text("utf-8")
    )
    problems = []
    for error in Draft7Validator(schema).iter_errors(value):
        place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in error.absolute_path)
        problems.append(f"{place.removeprefix('.')}: {error.message}".removeprefix(": "))
    if problems:
        raise ConfigError(f"{subject}: {'; '.join(sorted(problems))}")


def _rule(given: Mapping[str, Any]) -> Rule:
    method = given.get("method", ())
    return Rule(**{**given, "method": (method,) if isinstance(method, str) else tuple(method)})


@dataclass
class JobScript:
    """A rule that defines how jobs with certain names end. The server does not run these jobs' commands.

    Attributes:
        job: pattern for job names; ``*`` matches any string.
        exit_code: exit code of every task.
        stdout, stderr: output of every task.
        after: how long every task runs, in seconds; None: until the job is stopped.
        waits: whether the job stays in the queue, without running, until it is stopped.
        completing: v1 only: whether the API, like 0.10 to 0.14, reports running tasks as ended.
        times: maximum number of jobs the rule applies to; None for no limit.
        used: number of jobs the rule has applied to so far.
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
    """The rules, and the rule chosen for each job.

    Attributes:
        rules: the rules, in the order they are tried.
    """

    def __init__(self) -> None:
        self.rules: list[JobScript] = []
        self._decided: dict[int, JobScript] = {}

    def decide(self, job: Job) -> JobScript | None:
        """Choose and return the rule for a new job; None if the job should run its own commands."""
        for rule in self.rules:
            if fnmatchcase(job.task_name, rule.job) and rule.used != rule.times:
                rule.used += 1
                self._decided[job.id] = rule
                return rule
        return None

    def of(self, job_id: int) -> JobScript | None:
        """Return the rule chosen for a job, or None."""
        return self._decided.get(job_id)

    def clear(self) -> None:
        """Remove all rules, and forget which rule was chosen for which job."""
        self.rules.clear()
        self._decided.clear()


def parse_job_scripts(value: Any) -> list[JobScript]:
    """Return the rules in a JSON value. Raise ConfigError with all problems if the value is not valid."""
    _check("job scripts", value)
    return [JobScript(**rule) for rule in value]
