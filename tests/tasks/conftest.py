"""Clusters of both APIs, for the tests of tasks."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture
def clock(pai):
    """The clock of ``pai`` and of its clients."""
    return pai.clock


@pytest.fixture(params=["v1", "v2"])
def either_cluster(request, as_settings, settings):
    """The session's local OpenPAI of either API."""
    server = request.getfixturevalue(f"local_pai_{request.param}")
    as_settings(server)
    settings(api_version=request.param)
    return server


@pytest.fixture
def v2_cluster(local_pai_v2, as_settings):
    """The session's local OpenPAI 1.8 as [OpenPai]."""
    as_settings(local_pai_v2)
    return local_pai_v2


@pytest.fixture
def quick_logs(monkeypatch):
    """Logs that are followed are read 20 times as often."""
    monkeypatch.setattr("luigi_pai.api.logs.reader.LogReader.per_log", 0.025)
    monkeypatch.setattr("luigi_pai.api.logs.reader._SHORTEST", 0.05)
    monkeypatch.setattr("luigi_pai.api.logs.reader._LONGEST", 0.5)


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Import a module from its source or its file, so that its classes have their source."""

    def load(source, name="pipeline"):
        file = source if isinstance(source, Path) else tmp_path / f"{name}.py"
        if file is not source:
            file.write_text(source)
        spec = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load
