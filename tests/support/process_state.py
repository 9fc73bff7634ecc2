"""What the code under test keeps for the life of a process: forgotten, and its clock set.

The one place that knows how; tests use these two functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai import reset_clusters
from luigi_pai.api.registry import CLUSTERS

if TYPE_CHECKING:
    import pytest

    from luigi_pai.api.clock import Clock


def forget() -> None:
    """Forget everything that this process knows of clusters, as a new process would."""
    reset_clusters()


def install_clock(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client of the rest-server wait, and count ages, by a clock; for one test."""
    monkeypatch.setattr(CLUSTERS, "clock", clock)
