"""What the code under test keeps for the life of a process: forgotten, and its clock set.

The one place that knows how; tests use these two functions.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import luigi_pai

if TYPE_CHECKING:
    import pytest

_WITHOUT_CLUSTERS = ("run", "api.attempts", "api.client", "api.limits", "api.session", "api.watch")


def forget() -> None:
    """Forget everything that this process knows of clusters, as a new process would."""
    reset = getattr(luigi_pai, "reset_clusters", None)
    if reset is not None:
        reset()
        return
    run: Any = importlib.import_module("luigi_pai.run")
    for client in run._clients.values():
        client.close()
    for memory in (run._clients, run._flagged, run._cleared):
        memory.clear()


def install_clock(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client of the rest-server wait, and count ages, by a clock; for one test."""
    try:
        clusters = importlib.import_module("luigi_pai.api.cluster").CLUSTERS
    except ImportError:
        for module in _WITHOUT_CLUSTERS:
            monkeypatch.setattr(f"luigi_pai.{module}.time", clock)
    else:
        monkeypatch.setattr(clusters, "clock", clock)
