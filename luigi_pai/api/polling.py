"""Polling: the settings and the schedule for looking up a job."""

from __future__ import annotations

import random
from dataclasses import dataclass

_JITTER = 0.1
_LONGEST_QUEUED = 10.0


@dataclass(frozen=True)
class Polling:
    """The polling settings of ``[OpenPai]``, in seconds.

    Attributes:
        shortest, longest: The bounds of the wait between two lookups (``poll_min``, ``poll_max``).
        patience: How long to retry after transient errors (``poll_patience``).
    """

    shortest: float = 0.1
    longest: float = 30.0
    patience: float = 1800.0


def next_wait(age: float, polling: Polling, *, queued: bool) -> float:
    """Return how many seconds to wait before looking up a job again.

    While the job is queued, the wait is a quarter of the time in the queue, but at most 10 s. While it runs,
    the wait is an eighth of the run time. The bounds are ``polling.shortest`` and ``polling.longest``. To
    spread the load, the wait varies by up to 10 %, but not beyond the longest. With the defaults, 0.1 s and
    30 s:

    ========  =====  ====  ====  =====  =====  ======  ======
    queued    0.4 s  1 s   4 s   10 s   20 s   40 s    1 h
    wait      0.1 s  0.25  1.0   2.5    5.0    10 s    10 s
    running   0.8 s  4 s   8 s   20 s   1 min  2 min   4 min and more
    wait      0.1 s  0.5   1.0   2.5    7.5    15 s    30 s
    ========  =====  ====  ====  =====  =====  ======  ======

    The next table shows means of 1,000 simulated jobs (1 s to 10 h, log-uniform; queued for up to 2 h): the
    delay until the end is noticed, in seconds and as a share of the run, and the number of requests. The last
    column shows the number of requests for a job of 1 h without a queue. See ``benchmarks/polling.py``.

    ==============================  =========  ==========  ========  ===========
    schedule                        mean late  of the run  requests  1 h, no queue
    ==============================  =========  ==========  ========  ===========
    luigi.contrib.pai: every 5 s    2.6 s      24 %        1450      724
    1/10 of time since submission   14.8 s     149 %       285       168
    this schedule                   8.4 s      27 %        541       176
    the square root of the run      8.2 s      29 %        525       161
    ==============================  =========  ==========  ========  ===========

    The square root needs fewer requests than this schedule. However, for jobs shorter than a minute, the
    average delay is 20 % of the run with the square root, and 6 % with this schedule.

    Args:
        age: Seconds since the job was first seen running or, while it is queued, since its submission.
        polling: The bounds.
        queued: Whether the job is queued.
    """
    longest = max(polling.shortest, min(polling.longest, _LONGEST_QUEUED)) if queued else polling.longest
    wait = min(max(age / (4 if queued else 8), polling.shortest), longest)
    return min(wait * random.uniform(1 - _JITTER, 1 + _JITTER), longest)  # noqa: S311  spreads load, guards nothing
