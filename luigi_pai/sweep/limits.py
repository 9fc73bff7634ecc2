"""A sweep's limits on jobs, failures and attempts, and the delay that a server's rate limit causes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.durations import duration
from luigi_pai.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.api.request_limits import Window
    from luigi_pai.sweep.point import Point

_HOUR = 3600.0
_PACKED = (2, 5, 10, 20, 50, 100, 200, 500)  # values of points_per_job that ``pace`` may suggest
_SOON = 1200.0  # seconds; ``pace`` suggests the smallest points_per_job that submits all points in this time


LIMITS: Mapping[str, tuple[int, str]] = {
    "parallel_jobs": (0, "a whole number, 0 to submit nothing more"),
    "tolerance": (0, "a share below 1, such as 0.05, or a whole number of points"),
    "max_attempts": (1, "a whole number from 1 on"),
    "points_per_job": (1, "a whole number from 1 on"),
    "max_points": (1, "a whole number from 1 on"),
}
"""Name of a sweep's limit -> its smallest valid value, and a description of its valid values."""


@dataclass
class SweepLimits:
    """A sweep's limits; ``PaiSweep`` describes them.

    Attributes:
        resource: reserved units of Luigi's ``pai`` resource, one for each job; None if none are reserved.
    """

    parallel_jobs: int
    tolerance: float
    max_attempts: int
    points_per_job: int
    max_points: int
    resource: int | None = None

    @classmethod
    def from_sweep(cls, sweep: object) -> SweepLimits:
        """Return a sweep's limits, unchecked."""
        return cls(*(getattr(sweep, name) for name in LIMITS))

    def problems(self) -> list[Problem]:
        """Return what is wrong with the values."""
        return [
            Problem(name, f"{value!r} is not {valid}")
            for name, (_, valid) in LIMITS.items()
            if not _is_valid(name, value := getattr(self, name))
        ]

    @property
    def places(self) -> int:
        """How many jobs may wait or run at once: the smaller of ``parallel_jobs`` and ``resource``."""
        return self.parallel_jobs if self.resource is None else min(self.parallel_jobs, self.resource)

    def attempts(self, point: Point) -> int:
        """Return how many times to submit a failing point: the larger ``max_attempts`` of sweep and task."""
        return max(self.max_attempts, point.max_attempts)

    def failures(self, points: int) -> int:
        """Return how many points may fail."""
        if self.tolerance >= 1:
            return int(self.tolerance)
        return math.floor(round(self.tolerance * points, 6))  # 0.29 * 100 is 28.999999999999996

    def change(self, message: str) -> str:
        """Apply a message that changes a limit, such as ``parallel_jobs = 100``, and return a response.

        Raises:
            ValueError: the message does not name a limit, or the value is invalid; no limit is changed.
        """
        name, _, written = (part.strip() for part in message.partition("="))
        if name not in LIMITS:
            names = ", ".join(LIMITS)
            raise ValueError(
                f"{message!r} is not a valid message; send: stop, status, or NAME = VALUE with one of {names}"
            )
        try:
            value = float(written)
        except ValueError:
            value = math.nan
        if value.is_integer():
            value = int(value)
        before = getattr(self, name)
        if not _is_valid(name, value):
            raise ValueError(f"{name} = {written} is not {LIMITS[name][1]}; it is still {before:g}")
        setattr(self, name, value)
        held = f"; the sweep holds {self.resource} of the resource pai"
        is_limited = name == "parallel_jobs" and self.places < self.parallel_jobs
        return f"{name} = {value:g} (before: {before:g}){held if is_limited else ''}"


def _is_valid(name: str, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    is_kind = isinstance(value, int) if name != "tolerance" else value < 1 or value == math.floor(value)
    return is_kind and value >= LIMITS[name][0]


def seconds_to_submit(window: Window | None, jobs: int) -> float:
    """Return how long until the last of this many jobs can be submitted, in seconds."""
    if window is None or jobs <= window.left:
        return 0.0
    if not window.size:
        return window.ends_in
    return window.ends_in + window.length * (math.ceil((jobs - window.left) / window.size) - 1)


def pace(window: Window | None, points: int, points_per_job: int) -> str | None:
    """Return a message about the delay that a server's submission limit causes; None if there is no delay."""
    jobs = math.ceil(points / points_per_job)
    if window is None or not window.size or jobs <= window.left:
        return None
    rate = window.size / window.length
    every = "an hour" if window.length == _HOUR else f"every {duration(window.length)}"
    message = f"{window.size:g} submissions {every}: {points:,} points take {_minutes(jobs / rate)}"
    more = [count for count in _PACKED if count > points_per_job]
    better = next((count for count in more if math.ceil(points / count) / rate <= _SOON), None)
    if better is not None:
        message += f"; points_per_job = {better} would take {_minutes(math.ceil(points / better) / rate)}"
    return message


def _minutes(seconds: float) -> str:
    """Return a duration, rounded up to minutes."""
    return duration(60 * math.ceil(seconds / 60))
