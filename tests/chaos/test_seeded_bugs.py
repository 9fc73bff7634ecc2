"""Each seeded bug is found: the checker is no rubber stamp, and each safeguard is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chaos.checker import LOST, TWICE, WRONG
from chaos.nemeses import KILLS, RACES
from chaos.rounds import Round
from chaos.seeded_bugs import BUGS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_MOST = 40  # rounds; two processes must meet in one of them
SIGNS = {
    "claims-without-exclusiveness": ("overlapping-arrays", "two-at-once", {TWICE}),
    "no-lookup-after-a-lost-reply": ("chain", "lost-replies", {WRONG}),
    "claims-after-the-post": ("overlapping-arrays", "two-at-once", {TWICE}),
    "no-replay-of-a-search": ("search", "kill-at-request", {TWICE, LOST}),
}


def test_each_bug_has_its_signs():
    assert set(SIGNS) == set(BUGS)


@pytest.mark.parametrize("bug", SIGNS)
def test_a_seeded_bug_is_found(play_round, bug):
    """Within some rounds; the same rounds without it find nothing, see test_kills.py and test_races.py."""
    workload, nemesis, verdicts = SIGNS[bug]
    one = Round(0, workload, "v2", "hdfs", nemesis=nemesis, bug=bug)
    harm = {**KILLS, **RACES}[nemesis]
    for seed in range(_MOST):
        found = {finding.verdict for finding in play_round(replace(one, seed=seed), harm).findings}
        if found & verdicts:
            return
    pytest.fail(f"{_MOST} rounds have not found it")
