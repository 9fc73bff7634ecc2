"""Folders of this project that tests read."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DATA", "PROGRAMS", "ROOT"]

ROOT = Path(__file__).parents[2]
"""The project."""

DATA = ROOT / "tests" / "data"
"""Job files, recordings and verdicts."""

PROGRAMS = DATA / "tasks" / "programs"
"""Pipelines and scripts that tests run in other processes."""
