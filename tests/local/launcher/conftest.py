"""A launcher without a server."""

from __future__ import annotations

import pytest
from launcher_bench import bench_runner


@pytest.fixture
def bench(tmp_path):
    """Runs a scenario, a coroutine function, with a launcher: ``bench(scenario, "default:cpu=2")``."""
    return bench_runner(tmp_path)
