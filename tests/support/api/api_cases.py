"""Cases of tests in ``tests/api`` as data: ``tests/data/api/cases.yaml``, by the names of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from places import DATA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["cases"]

_CASES = yaml.safe_load((DATA / "api" / "cases.yaml").read_text("utf-8"))


def cases(names: str, more: Iterable[Any] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each of its cases and ``more``; ``names`` are its arguments, separated by blanks."""
    arguments = names.split() if " " in names else names
    return lambda test: pytest.mark.parametrize(arguments, [*_CASES[test.__name__], *more])(test)
