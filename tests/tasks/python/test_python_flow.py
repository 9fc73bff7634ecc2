"""Which attributes a function reads from the task: by the object, not by the name of the attribute."""

from __future__ import annotations

import textwrap

import pytest
import yaml
from places import ROOT

from luigi_pai.payload.flow import flow_of, receiver


class Kind:
    """A class of the task."""


def helper(task, n=1):
    return task.rate * n


def by_keyword(*, task):
    return task.rate


CASES = yaml.safe_load((ROOT / "tests" / "data" / "tasks" / "python_flow.yaml").read_text("utf-8"))


def flow(source):
    space = {"Kind": Kind, "helper": helper, "by_keyword": by_keyword}
    exec(textwrap.dedent(source), space)
    return flow_of(space["f"], receiver(space["f"]), [Kind])


@pytest.mark.parametrize("source", CASES["followed"])
def test_the_task_is_followed(source):
    found = flow(source)
    assert " ".join(sorted(found.names)) == CASES["followed"][source]
    assert not found.escapes


@pytest.mark.parametrize("source", CASES["escapes"])
def test_the_task_escapes_to_where_any_object_may_be_it(source):
    assert flow(source).escapes


def test_a_function_gets_the_task_as_one_of_its_parameters():
    found = flow("def f(self): return helper(self.a, n=self), by_keyword(task=self)")
    assert found.passed == {(helper, "n"), (by_keyword, "task")}
    assert set(flow_of(helper, {"task"}, []).names) == {"rate"}
