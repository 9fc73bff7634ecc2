"""The parameters of a task class, which are kept between Luigi's questions, and values that are refused."""

from __future__ import annotations

import luigi
from lives import Life, lives

from luigi_pai import PaiTask, TaskRole


class Base(PaiTask):
    rate = luigi.FloatParameter()
    image = "python:3"
    tasks = (TaskRole("main", "true"),)
    name = "parameters"


def names(kind: type[luigi.Task]) -> list[str]:
    return [name for name, _ in kind.get_params()]


@lives("wrong_settings")
def test_a_wrong_value_is_refused(pai, settings, caplog, steps):
    """Before anything is sent, with valid ones."""
    Life(pai, settings, caplog).play(steps)


def test_they_are_those_that_luigi_finds_in_its_order():
    class Derived(Base):
        size = luigi.IntParameter(default=3)

    for kind in (Base, Derived, Derived, Base):
        assert kind.get_params() == luigi.Task.get_params.__func__(kind)
    assert names(Derived) == ["rate", "size"]
    assert Derived(rate=0.5).param_kwargs == {"rate": 0.5, "size": 3}


def test_a_parameter_that_comes_later_is_one_also_of_derived_classes():
    class Mixin:
        pass

    class Later(Mixin, Base):
        pass

    class Derived(Later):
        pass

    assert names(Derived) == ["rate"]
    Mixin.seed = luigi.IntParameter(default=1)
    assert names(Later) == names(Derived) == ["rate", "seed"]
    Later.rate = luigi.Parameter(default="x")
    assert names(Later) == ["seed", "rate"]
    Later.rate = 0.1
    assert names(Later) == names(Derived) == ["seed"]


def test_the_list_is_the_callers_own():
    Base.get_params().clear()
    assert names(Base) == ["rate"]
