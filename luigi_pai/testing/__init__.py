"""The pytest plugin: fixtures for tests of pipelines, see docs/testing.md.

pytest always loads this module when it starts, so slow imports are in the fixtures.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.testing.mock import PaiMock
    from luigi_pai.testing.pai import Pai
    from luigi_pai.testing.servers import Servers

__all__ = ["pai", "pai_mock", "pai_server"]

_FIXTURE = pytest.StashKey[str]()
_PAI = pytest.StashKey["Pai | PaiMock"]()
_APIS = ("v1", "v2", "ltp")
_MARKER = (
    "pai(api, hdfs): the OpenPAI of this test: 'v2' (1.8), the default, 'v1' (0.7.1) or 'ltp' (LTP 1.5); "
    "hdfs=True adds an HDFS to v2 and ltp"
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the ``pai`` marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_runtest_setup() -> None:
    """Reset all clusters, so that a test does not see an earlier test's mocks."""
    registry = sys.modules.get("luigi_pai.api.registry")
    if registry is not None:
        registry.reset_clusters()


@pytest.fixture(scope="session")
def _pai_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """This session's servers; each is started on first use."""
    from luigi_pai.testing.servers import Servers  # noqa: PLC0415  pytest's start would take longer

    servers = Servers(tmp_path_factory)
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def pai_server(_pai_servers: Servers) -> str:
    """The URL of the session's OpenPAI v2, for programs in other languages. Tests with ``pai`` clear it."""
    return _pai_servers.url


@pytest.fixture
def pai(request: pytest.FixtureRequest, _pai_servers: Servers) -> Iterator[Pai]:
    """An empty OpenPAI on this machine, which Luigi's configuration points to during the test."""
    _check_alone(request, "pai")
    with _pai_servers.use(**_asked(request.node)) as server:
        request.node.stash[_PAI] = server
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that left a script or fault unused; if it already failed, extend its report."""
    pai = item.stash.get(_PAI, None)
    try:
        yield
    except (Exception, pytest.fail.Exception):
        if pai is not None and (message := pai.unmatched()):
            item.add_report_section("call", "pai", message)
        raise
    if pai is not None and (message := pai.unmatched()):
        pytest.fail(message, pytrace=False)


def _asked(test: pytest.Item) -> dict[str, Any]:
    """Return the arguments of a test's ``pai`` marker by name; empty if there is no marker."""
    marker = test.get_closest_marker("pai")
    if marker is None:
        return {}
    asked = {**dict(zip(["api"], marker.args, strict=False)), **marker.kwargs}
    valid = {"api": _APIS, "hdfs": (False, True)}
    is_valid = all(key in valid and value in valid[key] for key, value in asked.items())
    if not is_valid or not asked or len(asked) != len(marker.args) + len(marker.kwargs):
        given = [*map(repr, marker.args), *(f"{key}={value!r}" for key, value in marker.kwargs.items())]
        raise pytest.UsageError(
            f"{test.nodeid}: pai({', '.join(given)}): use api='v1', 'v2' or 'ltp', and hdfs=True for an HDFS"
        )
    return asked


def _check_alone(request: pytest.FixtureRequest, fixture: str) -> None:
    if request.node.stash.setdefault(_FIXTURE, fixture) != fixture:
        raise pytest.UsageError(
            f"{request.node.nodeid}: uses pai and pai_mock; use only one, because both replace [OpenPai]"
        )


@pytest.fixture
def pai_mock(request: pytest.FixtureRequest) -> Iterator[PaiMock]:
    """The REST routes that a PaiTask needs, mocked with ``responses``; uses no server and no network."""
    _check_alone(request, "pai_mock")
    try:
        from luigi_pai.testing.mock import mocked  # noqa: PLC0415  as above
    except ModuleNotFoundError as error:
        if error.name != "responses":
            raise
        raise pytest.UsageError("the fixture pai_mock needs responses: pip install responses") from None
    with mocked() as mock:
        request.node.stash[_PAI] = mock
        yield mock
