"""Lists of points."""

from __future__ import annotations

import pytest
from sweep_tasks import Train

from luigi_pai import grid, sample, zipped


def values(points):
    return [(point.rate, point.batch) for point in points]


def test_a_grid_has_every_combination():
    """The last name varies fastest; other parameters have their defaults."""
    assert values(grid(Train, rate=[0.1, 0.2], batch=(1, 2))) == [(0.1, 1), (0.1, 2), (0.2, 1), (0.2, 2)]
    assert values(grid(Train, batch=range(2))) == [(0.1, 0), (0.1, 1)]
    assert values(grid(Train)) == [(0.1, 16)]
    assert grid(Train, rate=[]) == []


def test_zipped_takes_values_side_by_side():
    assert values(zipped(Train, rate=[0.1, 0.2], batch=[1, 2])) == [(0.1, 1), (0.2, 2)]
    with pytest.raises(ValueError, match="needs lists of equal length, but rate has 2, batch has 1"):
        zipped(Train, rate=[0.1, 0.2], batch=[1])


def test_any_function_makes_points():
    assert grid(lambda rate: Train(rate=rate, batch=7), rate=[0.1])[0].batch == 7


@pytest.mark.parametrize("given", [0.1, "abc", {"a": 1}])
def test_values_that_are_no_list_are_an_error(given):
    """A text is one value, not its letters."""
    with pytest.raises(TypeError, match=r"rate = .* is not a list of values; write rate="):
        grid(Train, rate=given)
    with pytest.raises(TypeError, match=r"rate = .* is not a list of values"):
        sample(Train, 1, seed=1, rate=given)


def test_a_sample_is_reproducible_and_has_no_point_twice():
    """For the same seed the same points; of a whole grid each point, in another order."""
    space = {"rate": [0.1, 0.2, 0.3], "batch": [1, 2, 3, 4]}
    drawn = sample(Train, 5, seed=1, **space)
    assert values(drawn) == values(sample(Train, 5, seed=1, **space))
    assert values(drawn) != values(sample(Train, 5, seed=2, **space))
    assert len(set(values(drawn))) == 5
    assert sorted(values(sample(Train, 12, seed=3, **space))) == sorted(values(grid(Train, **space)))
    with pytest.raises(ValueError, match="found only 12 different points of 13; ask for fewer"):
        sample(Train, 13, seed=1, **space)


def test_a_sample_draws_from_functions_too():
    """Of a generator of random numbers that only the seed decides on."""
    space = {"rate": lambda random: 10 ** random.uniform(-4, -1), "batch": [1, 2]}
    drawn = sample(Train, 20, seed=1, **space)
    assert values(drawn) == values(sample(Train, 20, seed=1, **space))
    assert all(1e-4 <= point.rate <= 0.1 for point in drawn)
    with pytest.raises(ValueError, match="found only 2 different points of 3; ask for fewer"):
        sample(Train, 3, seed=1, rate=lambda random: 0.1, batch=[1, 2])  # noqa: ARG005  as users write it
