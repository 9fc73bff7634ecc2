"""Names of jobs, their submissions and task roles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_cases import cases

from luigi_pai.errors import SpecError
from luigi_pai.jobspec import names
from luigi_pai.jobspec.names import (
    array_name,
    attempt_name,
    base_name,
    check_name,
    is_array_name,
    latest_attempts,
    may_hold,
    room_for_attempts,
    v2_name,
)

CASES = cases("names")
RETURNS = [(name, *case) for name, table in CASES["returns"].items() for case in table]


@pytest.mark.parametrize(("function", "arguments", "expected"), RETURNS)
def test_names_by_rule(function, arguments, expected):
    """The first attempt has the job's own name; the latest one is found in a list."""
    assert getattr(names, function)(*arguments) == expected


@pytest.mark.parametrize("name", [*CASES["no_attempts"], f"a__attempt{'9' * 5000}"])
def test_other_names_are_no_attempts(name):
    """Lists are those of servers, and hold what others have named."""
    assert latest_attempts([name]) == {}
    assert base_name(name) == name


@given(st.text(min_size=1), st.integers(2, 10**6))
def test_what_one_makes_the_other_finds(name, number):
    assert latest_attempts([attempt_name(name, number)]) == {name: number}
    assert base_name(attempt_name(name, number)) == name


@pytest.mark.parametrize(("name", "base"), CASES["like_attempts"])
def test_a_tasks_own_name_does_not_end_like_that_of_an_attempt(name, base):
    """It would be taken for the other task's job, and that task for complete."""
    assert all(room_for_attempts(other) == [] for other in CASES["of_tasks"])
    (problem,) = room_for_attempts(name, "name")
    assert str(problem) == (
        f"name: {name!r} looks like a later submission of the job {base!r}; "
        "choose a name that does not end in __attempt and a number"
    )


def test_a_name_may_be_too_long_and_end_like_that():
    """Both are told."""
    long, numbered = room_for_attempts("x" * 240 + "__attempt2")
    assert str(long).startswith("jobName: has 250 characters; the limit for a task's job is 243")
    assert "choose a name that does not end in __attempt and a number" in numbered.message


def test_a_name_that_is_a_method():
    """A property of a task whose decorator was forgotten."""
    with pytest.raises(SpecError, match=r"jobName: is a method; put @property above it$"):
        check_name("".upper)


def test_an_array_is_named_after_the_submissions_in_it():
    """In any order; a name that v2 takes, with room for the hash."""
    name = array_name(["train-b", "train-a__attempt2"])
    assert name == array_name(["train-a__attempt2", "train-b"])
    assert name != array_name(["train-a", "train-b"])
    assert v2_name(name) == name
    assert is_array_name(name)
    assert may_hold(name, "train-a")
    assert may_hold(name, "train-b")
    assert not may_hold(name, "other")
    assert may_hold(array_name(["train-a", "other"]), "train-a")
    assert len(array_name(["s" * 300])) < 240
    assert may_hold(array_name(["s" * 300]), "s" * 300)
