"""SweepLimits: how many jobs at once, failures and attempts a sweep may have; changed while it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LIMITS", "SweepLimits"]


@dataclass(frozen=True)
class _Limit:
    """What a limit may be.

    Attributes:
        least: its smallest value.
        text: what it may be, for people.
        whole: it is a whole number.
    """

    least: float
    text: str
    whole: bool = True


LIMITS: Mapping[str, _Limit] = {
    "parallel_jobs": _Limit(0, "a whole number, 0 to submit nothing more"),
    "tolerance": _Limit(0, "a share below 1, such as 0.05, or a whole number of points", whole=False),
    "max_attempts": _Limit(1, "a whole number from 1 on"),
    "points_per_job": _Limit(1, "a whole number from 1 on"),
    "max_points": _Limit(1, "a whole number from 1 on"),
}
"""The limits of a sweep by name."""


@dataclass
class SweepLimits:
    """The limits of a sweep.

    Attributes:
        parallel_jobs: jobs that wait or run at once.
        tolerance: share (below 1) or number of points that may fail.
        max_attempts: how often a run of the sweep submits a point that fails.
        points_per_job: points that share a job.
        max_points: the most points that a sweep may have.
        resource: of Luigi's resource ``pai``, what the sweep holds; None where it holds none.
    """

    parallel_jobs: int
    tolerance: float
    max_attempts: int
    points_per_job: int
    max_points: int
    resource: int | None = None

    @classmethod
    def of(cls, sweep: object) -> SweepLimits:
        """Return those of a sweep, unchecked."""
        return cls(*(getattr(sweep, name) for name in LIMITS))

    def problems(self) -> list[Problem]:
        """Return what is wrong with them."""
        return [
            Problem(name, f"{value!r} is not {limit.text}")
            for name, limit in LIMITS.items()
            if not _is_valid(value := getattr(self, name), limit)
        ]

    @property
    def places(self) -> int:
        """How many jobs may wait or run at once: ``parallel_jobs``, within the resource."""
        return self.parallel_jobs if self.resource is None else min(self.parallel_jobs, self.resource)

    def failures(self, points: int) -> int:
        """Return how many of a number of points may fail."""
        if self.tolerance >= 1:
            return int(self.tolerance)
        return math.floor(round(self.tolerance * points, 6))  # 0.29 * 100 is 28.999999999999996

    def change(self, message: str) -> str:
        """Change a limit as a message says, ``parallel_jobs = 100``, and return what was done.

        Raises:
            ValueError: the message names no limit, or no valid value; the limits are as before.
        """
        name, _, text = (part.strip() for part in message.partition("="))
        if name not in LIMITS:
            names = ", ".join(LIMITS)
            raise ValueError(
                f"{message!r} is not a valid message; send: stop, status, or NAME = VALUE with one of {names}"
            )
        limit = LIMITS[name]
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if limit.whole and value == math.floor(value if math.isfinite(value) else 0.5):
            value = int(value)
        if not _is_valid(value, limit):
            raise ValueError(f"{name} = {text} is not {limit.text}; it is still {getattr(self, name):g}")
        before = getattr(self, name)
        setattr(self, name, value)
        held = f"; the sweep holds {self.resource} of the resource pai" if name == "parallel_jobs" else ""
        return f"{name} = {value:g} (before: {before:g}){held if self.places < self.parallel_jobs else ''}"


def _is_valid(value: Any, limit: _Limit) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    if limit.whole:
        return isinstance(value, int) and value >= limit.least
    return value >= limit.least and (value < 1 or value == math.floor(value))
