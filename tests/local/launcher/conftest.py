"""A launcher without a server."""

from __future__ import annotations

import pytest
from launcher_bench import Bench


@pytest.fixture
def bench(tmp_path, request):
    """A launcher, of the test's ``kind`` of jobs, or as the test has it `on`."""
    kind = request.node.callspec.params.get("kind", "v1") if hasattr(request.node, "callspec") else "v1"
    return Bench(tmp_path / "data", **{"kind": kind, **getattr(request.function, "bench", {})})
