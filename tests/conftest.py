"""What every test starts from: no luigi.cfg, no memory of earlier tests."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import luigi.configuration
import pytest
from faulty_pai import FaultyPai

from luigi_pai import reset_clusters
from luigi_pai.local import LocalPai

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a shell's background job
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run each test with no [OpenPai] section, no remembered job, and no proxy or netrc of the user's."""
    config = luigi.configuration.get_config()
    for section in ("OpenPai", "hdfs", "webhdfs"):
        if config.has_section(section):
            config.remove_section(section)
    for name in list(os.environ):
        if name.startswith(("PAI_", "LUIGI_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path_factory.getbasetemp() / "no-netrc"))
    reset_clusters()
    yield
    reset_clusters()


@pytest.fixture
def settings() -> Callable[..., None]:
    """Set keys of [OpenPai] for one test, as luigi.cfg would."""

    def write(**keys: object) -> None:
        for key, value in keys.items():
            luigi.configuration.get_config().set("OpenPai", key, str(value))

    return write


@pytest.fixture
def pai(settings: Callable[..., None]) -> Iterator[FaultyPai]:
    """A fault-injecting rest-server, and an [OpenPai] that points at it and polls fast."""
    server = FaultyPai()
    settings(
        pai_url=server.url,
        username="admin",
        password="admin-password",
        poll_min=0.02,
        poll_max=0.1,
        connect_timeout=2,
        read_timeout=0.5,
        poll_patience=30,
    )
    yield server
    server.close()


@pytest.fixture(scope="session")
def local_pai_v2() -> Iterator[LocalPai]:
    """One local OpenPAI 1.8, which knows no v1 jobs, for all tests of a process; job names must differ."""
    with LocalPai(api="v2") as server:
        yield server


@pytest.fixture(scope="session")
def local_pai_ltp() -> Iterator[LocalPai]:
    """One local LTP 1.5 for all tests of a process; job names must differ."""
    with LocalPai(api="ltp") as server:
        yield server


@pytest.fixture(scope="session")
def local_pai() -> Iterator[LocalPai]:
    """One local OpenPAI for all tests of a process; job names must differ."""
    with LocalPai(virtual_clusters=["default:gpu=24", "vc1"]) as server:  # horovod_job on 3 nodes has 12
        yield server


@pytest.fixture
def as_settings(settings: Callable[..., None]) -> Callable[[LocalPai], None]:
    """Make a local OpenPAI the [OpenPai] of luigi.cfg."""

    def use(server: LocalPai) -> None:
        settings(
            pai_url=server.url,
            username=server.username,
            password=server.password,
            fs_uri=server.fs_uri,
            webhdfs_url=server.webhdfs_url,
            portal_url=server.url,
            poll_min=0.05,
            poll_max=0.5,
        )

    return use


@pytest.fixture
def cluster(local_pai: LocalPai, as_settings: Callable[[LocalPai], None]) -> LocalPai:
    """The session's local OpenPAI, as [OpenPai] of luigi.cfg."""
    as_settings(local_pai)
    return local_pai
