"""Each request of a pipeline's life as its last: killed just before it, and just after its reply.

A change of a file on a storage is a request here.

``make chaos`` follows each of these lives to its last request; ``make test`` takes one request of each.
"""

from __future__ import annotations

import itertools
import random

import pytest
from chaos.dice import CRASH_POINTS, SEED
from chaos.nemeses import crash_at
from chaos.rounds import Round, judged

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

LIVES = [
    ("chain", "v1", "hdfs"),
    ("failing", "v2", "hdfs"),
    ("sweep", "ltp", "none"),
    ("arrays", "v2", "hdfs"),
    ("arrays", "ltp", "none"),
    ("search", "v1", "hdfs"),
    ("failing", "v2", "storage"),
    ("arrays", "ltp", "storage"),
    ("search", "ltp", "storage"),
    ("files", "v2", "storage"),
]
LANES = 4  # tests of a life, so that several workers of pytest may share it


@pytest.mark.parametrize("lane", range(LANES if CRASH_POINTS == "all" else 1))
@pytest.mark.parametrize(("workload", "api", "place"), LIVES)
def test_a_pipeline_that_is_killed_at_a_request_is_ended_by_the_next_run(
    play_round, workload, api, place, lane
):
    """Whatever was sent and not answered, or answered and not read, is found again."""
    if CRASH_POINTS == "all":
        numbers = itertools.count(lane + 1, LANES)
    else:
        drawn = random.Random(f"{SEED} {workload} {api} {place}").randint(1, 60)
        numbers = iter([int(CRASH_POINTS or drawn)])
    for number in numbers:
        for sign in (1, -1) if CRASH_POINTS else (random.choice((1, -1)),):
            one = Round(number, workload, api, place, "before-request" if sign > 0 else "after-request")
            played, is_killed = crash_at(play_round, one, sign * number)
            judged(played, "tests/chaos/test_crash_points.py", crash_point=number)
        if not is_killed:
            break
