"""Servers for the tests of the local server."""

from __future__ import annotations

import pytest
from browser import CHROMIUM, MISSING, Browser
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


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """A browser for the tests of a module; they are skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip(MISSING)
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()
