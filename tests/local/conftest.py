"""Servers for the tests of the local server."""

from __future__ import annotations

import pytest
from local_client import LocalClient
from protocol_client import ProtocolClient

from luigi_pai.local import LocalPai


@pytest.fixture(scope="session")
def client(local_pai):
    """The administrator of the session's server."""
    return LocalClient(local_pai)


@pytest.fixture(scope="session")
def v2(local_pai):
    """The administrator of the session's server, on its v2 API."""
    return ProtocolClient(local_pai)


@pytest.fixture
def own_pai(tmp_path):
    """A server that a test may stop and kill."""
    with LocalPai(tmp_path / "data") as server:
        yield server
