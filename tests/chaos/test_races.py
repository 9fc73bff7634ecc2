"""The same pipeline in two and in four processes at once, of which some are killed."""

from __future__ import annotations

import pytest
from chaos.dice import seeds
from chaos.nemeses import RACES
from chaos.rounds import drawn, judged

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("seed", seeds(4, share=0.3))
def test_pipelines_that_meet_run_each_command_once(play_round, seed):
    """Whoever is second takes over what the first has begun."""
    one = drawn(seed, RACES)
    judged(play_round(one, RACES[one.nemesis]), "tests/chaos/test_races.py")
