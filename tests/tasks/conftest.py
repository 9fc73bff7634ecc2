"""Clusters of both APIs, for the tests of tasks."""

from __future__ import annotations

import pytest
from clocks import MovableClock
from process_state import install_clock


@pytest.fixture
def no_waits(pai, monkeypatch):
    """Let the client wait on a clock that it sets forward itself, and the server go by that clock."""
    clock = MovableClock(limit=600)
    pai.clock = clock
    install_clock(clock, monkeypatch)


@pytest.fixture(params=["v1", "v2"])
def either_cluster(request, as_settings, settings):
    """The session's local OpenPAI of either API."""
    server = request.getfixturevalue("local_pai_v1" if request.param == "v1" else "local_pai_v2")
    as_settings(server)
    settings(api_version=request.param)
    return server


@pytest.fixture
def quick_logs(monkeypatch):
    """Logs that are followed are read 20 times as often."""
    monkeypatch.setattr("luigi_pai.api.logs.reader.LogReader.per_log", 0.025)
    monkeypatch.setattr("luigi_pai.api.logs.reader._SHORTEST", 0.05)
    monkeypatch.setattr("luigi_pai.api.logs.reader._LONGEST", 0.5)
