"""The cases of tests/data/local/cases.yaml."""

from __future__ import annotations

import functools

import yaml
from places import DATA


@functools.cache
def _all():
    return yaml.safe_load((DATA / "local" / "cases.yaml").read_text("utf-8"))


def cases(test):
    """Return the cases of a test: for each, its arguments or, if there is one argument only, its value."""
    return _all()[test]
