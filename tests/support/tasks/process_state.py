"""What the code under test keeps for the life of a process: forgotten, and its clock set.

The one place that knows how; tests use these functions.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import urllib3.util.retry

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


def install_clock_of_retries(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client of HDFS, and urllib3, wait by a clock between their retries; for one test."""
    for name, module in list(sys.modules.items()):
        is_files = name.startswith(("luigi_pai.files.", "luigi_pai.api.wire.repeats"))
        if is_files and getattr(module, "time", None) is time:
            monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(urllib3.util.retry, "time", clock)
