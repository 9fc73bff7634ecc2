"""Processes and servers that are killed at random: the promise holds, and the next runs end the work."""

from __future__ import annotations

import pytest
from chaos.dice import seeds
from chaos.nemeses import KILLS
from chaos.rounds import drawn, judged

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("seed", seeds(8))
def test_a_killed_pipeline_is_ended_by_its_next_runs(play_round, seed):
    """Each command runs as often as it should, and all that is said of it is so."""
    one = drawn(seed, KILLS)
    judged(play_round(one, KILLS[one.nemesis]), "tests/chaos/test_kills.py")
