"""What a server's limit of submissions means for a sweep."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from luigi_pai.api.request_limits import Window

__all__ = ["duration", "pace", "seconds_to_submit"]

_HOUR = 3600.0
_PACKED = (2, 5, 10, 20, 50, 100, 200, 500)  # points in a job
_SOON = 1200.0  # seconds that a good packing takes at most


def seconds_to_submit(window: Window | None, jobs: int) -> float:
    """Return the seconds until the last of a number of jobs can be submitted."""
    if window is None or jobs <= window.left:
        return 0.0
    if not window.size:
        return window.ends_in
    return window.ends_in + window.length * (math.ceil((jobs - window.left) / window.size) - 1)


def pace(window: Window | None, points: int, points_per_job: int, *, packs: bool) -> str | None:
    """Return how long a server's limit of submissions makes a sweep take; None if it is not felt.

    Args:
        window: of submissions, where one is known.
        points: that are still to be submitted.
        points_per_job: that share a job.
        packs: whether points can share jobs on this cluster.
    """
    jobs = math.ceil(points / points_per_job)
    if window is None or not window.size or jobs <= window.left:
        return None
    rate = window.size / window.length
    every = "an hour" if window.length == _HOUR else f"every {duration(window.length)}"
    text = f"{window.size:g} submissions {every}: {points:,} points take {duration(jobs / rate)}"
    more = [count for count in _PACKED if count > points_per_job]
    better = next((count for count in more if math.ceil(points / count) / rate <= _SOON), None)
    if packs and better is not None:
        text += f"; points_per_job = {better} would take {duration(math.ceil(points / better) / rate)}"
    return text


def duration(seconds: float) -> str:
    """Return a time for people: ``16 h 40 min``, ``20 min``, ``40 s``."""
    minutes = math.ceil(seconds / 60)
    if seconds < 60:  # noqa: PLR2004
        return f"{math.ceil(seconds)} s"
    hours, rest = divmod(minutes, 60)
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{rest} min"] if rest or not hours else [])])
