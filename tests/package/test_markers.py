"""The folders and modules that tests/conftest.py marks are there."""

from __future__ import annotations

import importlib.util

import pytest
from places import ROOT


@pytest.mark.parametrize("table", ["SLOW", "NEWEST_ONLY"])
def test_each_path_of_the_tables_has_tests(table: str) -> None:
    """A module that was moved loses its mark; this says so."""
    spec = importlib.util.spec_from_file_location("marking", ROOT / "tests" / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    marking = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(marking)
    assert [path for path in getattr(marking, table) if not (ROOT / "tests" / path).exists()] == []
