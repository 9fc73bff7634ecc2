"""Each test of sweeps has a folder, and a machine, of its own."""

from __future__ import annotations

import luigi
import pytest
from sweep_lives import Life


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Results and claims go to the folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    luigi.task_register.Register.clear_instance_cache()


@pytest.fixture
def v2(pai, settings):
    """A server of OpenPAI 1.8 that shows how each instance has ended."""
    pai.release = "1.8.0"
    pai.plan = {"task_codes": {}}
    settings(api_version="v2")
    return pai


@pytest.fixture
def life(pai, settings, caplog):
    """Play the steps of a case of tests/data/sweep."""
    return Life(pai, settings, caplog)
