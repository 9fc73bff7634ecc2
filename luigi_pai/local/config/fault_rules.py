"""Rules of fault injection: which requests fail, and how.

A rule is an object of JSON; `parse_faults` names what it may say. Every rule
has a random number generator of its own, so the same rules, seed and order of
requests give the same faults.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = [
    "CONTENTS_PATH",
    "CONTROL",
    "FAULTS",
    "FAULTS_PATH",
    "Faults",
    "Rule",
    "parse_faults",
    "read_faults",
]

FAULTS = ("delay", "error", "reset", "drop", "expire", "limit", "vanish", "database")
"""What a rule can do; docs/local.md describes each."""

CONTROL = "/local/"
"""The routes that tests control the server by; they have no faults."""

FAULTS_PATH = f"{CONTROL}faults"
"""Where the rules are read and changed."""

CONTENTS_PATH = f"{CONTROL}contents"
"""Where jobs and files are deleted."""

_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
_SERVER_ERRORS = range(500, 600)
_MOST_SECONDS = 3600


@dataclass
class Rule:
    """A kind of fault, and the requests that it strikes.

    Attributes:
        fault: one of `FAULTS`.
        method: the methods it strikes; none for all.
        path: the paths it strikes, ``*`` standing for anything; ``/rest-server`` is left out of them.
        rate: how many of them, from 0 to 1.
        count: how often at most; None for no end.
        skip: how many matching requests pass first.
        seconds: how long a delay takes, or until a limit ends.
        status: what an error answers.
        seen: how many requests have matched.
        struck: how many of them went wrong.
    """

    fault: str
    method: tuple[str, ...] = ()
    path: str = "/api/*"
    rate: float = 1.0
    count: int | None = None
    skip: int = 0
    seconds: float = 1.0
    status: int = 503
    seen: int = 0
    struck: int = 0
    dice: random.Random = field(default_factory=random.Random, repr=False)

    def strikes(self, method: str, path: str) -> bool:
        """Say whether the rule strikes this request, and count it."""
        if (self.method and method not in self.method) or not fnmatchcase(path, self.path):
            return False
        self.seen += 1
        roll = self.dice.random()
        if self.seen <= self.skip or self.struck == self.count or roll >= self.rate:
            return False
        self.struck += 1
        return True

    def shown(self) -> dict[str, Any]:
        """Return the rule as the control route shows it."""
        return {name: value for name, value in vars(self).items() if name != "dice"}


class Faults:
    """The rules in force; the first one that strikes decides, but for delays, which add up."""

    def __init__(self, seed: int = 0, rules: tuple[Rule, ...] = ()) -> None:
        self.seed = seed
        self.rules = rules
        for number, rule in enumerate(rules):
            rule.dice.seed(f"{seed}:{number}")

    def replace_by(self, other: Faults) -> None:
        """Put other rules into force, with their counts and dice."""
        self.seed, self.rules = other.seed, other.rules

    def strike(self, method: str, path: str) -> tuple[float, Rule | None]:
        """Return for how many seconds a request is delayed, and the rule that strikes it then, if any."""
        wait = 0.0
        for rule in self.rules:
            if rule.strikes(method, path):
                if rule.fault != "delay":
                    return wait, rule
                wait += rule.seconds
        return wait, None

    def shown(self) -> dict[str, Any]:
        """Return the rules with their counts, as the control route shows them."""
        return {"seed": self.seed, "rules": [rule.shown() for rule in self.rules]}


def read_faults(text: str) -> Any:
    """Return the value of ``--faults``: JSON, or the JSON in a file; raises ConfigError."""
    what = "--faults"
    if not text.lstrip().startswith(("{", "[")):
        what = f"--faults {text}"
        try:
            text = Path(text).read_text("utf-8")
        except OSError as error:
            raise ConfigError(f"{what}: the file cannot be read: {error.strerror}") from None
        except ValueError:
            raise ConfigError(f"{what}: the file is no UTF-8 text") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what} is no JSON: {error}") from None


def parse_faults(value: Any) -> Faults:
    """Return the faults that a value of JSON describes: ``{"seed": N, "rules": [...]}``, or the rules alone.

    Raises:
        ConfigError: naming everything that is wrong, each with its place.
    """
    if isinstance(value, list):
        value = {"rules": value}
    if not isinstance(value, dict):
        raise ConfigError('faults: not of the form {"seed": 1, "rules": [{"fault": "error", "rate": 0.1}]}')
    problems = [
        f"{key}: there is no such key; seed and rules are" for key in value.keys() - {"seed", "rules"}
    ]
    seed, rules = value.get("seed", 0), value.get("rules", [])
    if not _is_whole(seed):
        problems.append("seed: is not a whole number")
    if not isinstance(rules, list):
        problems.append("rules: is not a list")
        rules = []
    for number, rule in enumerate(rules):
        problems += [f"rules[{number}]{problem}" for problem in _problems(rule)]
    if problems:
        raise ConfigError(f"faults: {'; '.join(sorted(problems))}")
    return Faults(seed, tuple(_rule(rule) for rule in rules))


def _rule(given: Mapping[str, Any]) -> Rule:
    method = given.get("method", ())
    return Rule(**{**given, "method": (method,) if isinstance(method, str) else tuple(method)})


def _problems(rule: Any) -> Iterator[str]:
    if not isinstance(rule, dict):
        yield ": is not an object"
        return
    if "fault" not in rule:
        yield f".fault: is missing; it is one of {', '.join(FAULTS)}"
    for key, value in rule.items():
        if key not in _KEYS:
            yield f".{key}: there is no such key; there are {', '.join(_KEYS)}"
            continue
        right, sentence = _KEYS[key]
        if not right(value):
            yield f".{key}: {sentence}"


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def _are_methods(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, list) and bool(names) and all(name in _METHODS for name in names)


_KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "fault": (lambda value: value in FAULTS, f"is not one of {', '.join(FAULTS)}"),
    "method": (_are_methods, f"is not one or a list of {', '.join(_METHODS)}"),
    "path": (
        lambda value: isinstance(value, str) and re.match(r"[/*]", value) is not None,
        "is not a path, such as /api/v2/jobs/*",
    ),
    "rate": (lambda value: _is_number(value, 1), "is not a number from 0 to 1"),
    "count": (lambda value: value is None or (_is_whole(value) and value >= 0), "is not a whole number"),
    "skip": (lambda value: _is_whole(value) and value >= 0, "is not a whole number"),
    "seconds": (
        lambda value: _is_number(value, _MOST_SECONDS),
        f"is not a number of seconds from 0 to {_MOST_SECONDS}",
    ),
    "status": (lambda value: _is_whole(value) and value in _SERVER_ERRORS, "is not a status from 500 to 599"),
}
