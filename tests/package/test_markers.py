"""The folders and modules that tests/conftest.py marks are there."""

from __future__ import annotations

import importlib.util

from places import ROOT


def test_each_path_of_the_table_has_tests() -> None:
    """A module that was moved loses its mark; this says so."""
    spec = importlib.util.spec_from_file_location("marking", ROOT / "tests" / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    marking = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(marking)
    assert [path for path in marking.OLDEST if not (ROOT / "tests" / path).exists()] == []
