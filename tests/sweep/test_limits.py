"""The limits of a sweep."""

from __future__ import annotations

import pytest

from luigi_pai.sweep.limits import SweepLimits


@pytest.mark.parametrize(
    ("tolerance", "points", "failures"),
    [(0.29, 100, 29), (0.57, 100, 57), (0.15, 6, 0), (0.17, 6, 1), (0.999, 1000, 999), (0, 7, 0), (3, 7, 3)],
)
def test_a_share_of_the_points_is_exact(tolerance, points, failures):
    """In binary, 0.29 * 100 is less than 29."""
    limits = SweepLimits(50, tolerance, 1, 1, 10_000)
    assert limits.failures(points) == failures
