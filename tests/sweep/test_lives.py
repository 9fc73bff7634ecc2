"""Sweeps whose lives are data, see tests/data/sweep."""

from __future__ import annotations

import pytest
from sweep_lives import lives


@lives("points")
def test_points(life, steps):
    life.play(steps)


@lives("messages")
def test_messages(life, steps):
    life.play(steps)


@lives("searches")
def test_searches(life, steps):
    life.play(steps)


@lives("packs")
@pytest.mark.usefixtures("v2")
def test_packs(life, steps):
    life.play(steps)
