"""PyYAML is one whose scanner the YAML reader was tested with."""

from __future__ import annotations

import inspect
import re

import pytest
import yaml
from places import ROOT

from luigi_pai.jobspec.dialects import yaml_syntax

OVERRIDDEN = {
    "__init__": ["self", "stream"],
    "compose_node": ["self", "parent", "index"],
    "compose_scalar_node": ["self", "anchor"],
    "resolve": ["self", "kind", "value", "implicit"],
    "scan_to_next_token": ["self"],
    "scan_plain_spaces": ["self", "indent", "start_mark"],
    "scan_flow_scalar_spaces": ["self", "double", "start_mark"],
}
"""Methods of PyYAML's composer and scanner, with their parameters."""

CALLED = {
    "peek": ["self", "index"],
    "prefix": ["self", "length"],
    "forward": ["self", "length"],
    "peek_event": ["self"],
    "get_single_node": ["self"],
}
"""Methods of PyYAML's loader that are called, the same."""


def numbers(version):
    return tuple(int(part) for part in version.split(".")[:3])


@pytest.mark.tree
def test_the_version_is_within_the_bounds_of_pyproject():
    """The upper bound is there because methods without documentation are overridden."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    bounds = re.search(r'"PyYAML>=([0-9.]+),<([0-9.]+)"', text)
    assert bounds, "pyproject.toml bounds PyYAML on both sides"
    assert numbers(bounds[1]) <= numbers(yaml.__version__) < numbers(bounds[2])


@pytest.mark.parametrize(("name", "parameters"), (OVERRIDDEN | CALLED).items())
def test_the_methods_in_use_are_there(name, parameters):
    assert list(inspect.signature(getattr(yaml.SafeLoader, name)).parameters) == parameters


def test_no_other_method_is_overridden():
    """A further one belongs into the list above."""
    (loader,) = (
        each
        for each in vars(yaml_syntax).values()
        if isinstance(each, type) and issubclass(each, yaml.SafeLoader)
    )
    own = {name for name, of in vars(loader).items() if callable(of)}
    assert {name for name in own if hasattr(yaml.SafeLoader, name)} == set(OVERRIDDEN)


def test_the_attributes_in_use_are_there():
    """In the words of PyYAML: where its reader is, and whether that is within brackets."""
    loader = yaml.SafeLoader("[a, b")
    assert loader.check_event(yaml.StreamStartEvent)
    for _ in range(4):
        loader.get_event()
    assert (loader.line, loader.column, loader.flow_level) == (0, loader.pointer, 1)
    assert loader.buffer.startswith("[a, b")
