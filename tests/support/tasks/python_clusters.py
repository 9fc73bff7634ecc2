"""The clusters that Python methods run on in tests: each API, with HDFS and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from luigi_pai.local import LocalPai

__all__ = ["CLUSTERS", "Cluster", "label", "on"]

CLUSTERS = [(api, has_hdfs) for api in ("v1", "v2", "ltp") for has_hdfs in (True, False)]


@dataclass
class Cluster:
    """A local OpenPAI as a test uses it; ``section`` is its [OpenPai]."""

    server: LocalPai
    api: str
    has_hdfs: bool
    section: dict[str, Any]


def label(cluster):
    """Return the name of one in the names of tests."""
    api, has_hdfs = cluster
    return f"{api}-{'hdfs' if has_hdfs else 'bare'}"


def on(*clusters):
    """Run a test on these clusters, which is slow."""

    def decorate(test):
        parametrized = pytest.mark.parametrize("any_cluster", clusters, indirect=True, ids=label)(test)
        return pytest.mark.slow(pytest.mark.usefixtures("any_cluster")(parametrized))

    return decorate
