"""Which tests run where, and what each starts from: no luigi.cfg, no memory of earlier tests."""

from __future__ import annotations

import functools
import logging
import os
import signal
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import luigi.configuration
import pytest
from browser import CHROMIUM, MISSING, Browser
from clocks import MovableClock
from faulty_pai import FaultyPai, nfs
from guard import guard_connections, guard_home, guard_processes
from process_state import install_clock
from webhdfs_server import serving

from luigi_pai import reset_clusters
from luigi_pai.api.clock import Clock
from luigi_pai.local import LocalPai

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A server that an earlier test has left to the garbage collector logs in the middle of another test.
logging.getLogger("asyncio").propagate = False

guard_connections()
guard_processes()

# A shell's background job ignores the first, and nohup the second; processes that tests start would, too.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


HERE = Path(__file__).parent

# A process for each test.
SLOW_FIXTURES = {"chromium", "own_pai"}

# What `make test-oldest` runs: what an older library can change, each library by the tests that use it most.
OLDEST = (
    # Luigi: parameters, configuration, scheduler, workers, events, targets, sweeps
    "package/test_config.py",
    "package/test_distribution.py",
    "package/test_further_clusters.py",
    "package/test_packaging.py",
    "sweep/test_sweep.py",
    "tasks/migration",
    "tasks/options/test_class_checks.py",
    "tasks/options/test_events.py",
    "tasks/options/test_parameters.py",
    "tasks/test_luigi_page.py",
    "tasks/test_many_tasks.py",
    "tasks/test_task.py",
    # requests and urllib3
    "api/test_session.py",
    "api/test_session_errors.py",
    "api/wire/test_proxies.py",
    "api/wire/test_refusals.py",
    "api/wire/test_tls.py",
    "api/wire/test_transport.py",
    # hdfs and pathspec
    "files/test_file_system.py",
    "files/test_trees.py",
    # PyYAML and jsonschema
    "jobspec/dialects/test_pyyaml.py",
    "jobspec/test_job.py",
    "jobspec/test_protocol.py",
    # click
    "cli/test_command_line.py",
    "cli/test_status.py",
    "cli/test_submit.py",
    # tornado and psutil
    "local/rest/test_rest_v1.py",
    "local/test_app.py",
    "local/test_door.py",
    # cloudpickle and Optuna
    "sweep/test_optuna.py",
    "tasks/python/test_functions.py",
    # pytest, for the plugin
    "testing",
    # all at once
    "whole/test_end_to_end.py",
    "whole/test_protocols.py",
    "whole/test_first_example.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and what also runs with the oldest libraries."""
    for item in items:
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
        if _is_in(OLDEST, item.path):
            item.add_marker("oldest")


class _Names:
    """Names a test that fails at once, and not only at the end of the run."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            where = "FAILED" if report.when == "call" else "ERROR"
            reason = getattr(getattr(report.longrepr, "reprcrash", None), "message", str(report.longrepr))
            first = reason.strip().splitlines()[0] if reason.strip() else ""
            self._terminal.ensure_newline()
            self._terminal.write_line(f"{where} {report.nodeid} - {first:.200}")


@pytest.hookimpl(trylast=True)  # after pytest's own, which makes its reporter
def pytest_configure(config: pytest.Config) -> None:
    """Name failures at once, in the process that shows them."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Names(terminal))


@functools.cache  # thousands of tests are in hundreds of modules
def _is_in(paths: tuple[str, ...], path: Path) -> bool:
    own = path.relative_to(HERE)
    return any(own.is_relative_to(one) for one in paths)


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep out of the user's home."""
    guard_home(tmp_path_factory.getbasetemp() / "home")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run each test with no [OpenPai] section, no remembered job, and nothing else of the user's.

    That is: no proxy, no netrc, and no claims in the home folder.

    Sections that the test adds are removed: Luigi warns of keys that no task of a later test knows.
    """
    config = luigi.configuration.get_config()
    for section in config.sections():
        if section in ("hdfs", "webhdfs") or section.startswith("OpenPai"):
            config.remove_section(section)
    for name in list(os.environ):
        if name.startswith(("PAI_", "LUIGI_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path_factory.getbasetemp() / "no-netrc"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state" / uuid.uuid4().hex))
    reset_clusters()
    before = config.sections()
    yield
    for section in config.sections():
        if section not in before:
            config.remove_section(section)
    reset_clusters()


@pytest.fixture
def settings() -> Callable[..., None]:
    """Set keys of [OpenPai] for one test, as luigi.cfg would."""

    def write(**keys: object) -> None:
        for key, value in keys.items():
            luigi.configuration.get_config().set("OpenPai", key, str(value))

    return write


@pytest.fixture
def further() -> Callable[..., None]:
    """Set keys of [OpenPai:NAME] for one test; those of a local OpenPAI, if one is given."""

    def write(name: str, server: LocalPai | None = None, **keys: object) -> None:
        own = {} if server is None else {**server.luigi_section, "poll_min": 0.05, "poll_max": 0.5}
        for key, value in {**own, **keys}.items():
            luigi.configuration.get_config().set(f"OpenPai:{name}", key, str(value))

    return write


@pytest.fixture
def pai(settings: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyPai]:
    """A fault-injecting rest-server, and an [OpenPai] that points at it; both on a clock that waits move."""
    clock = MovableClock()
    server = FaultyPai(clock)
    install_clock(clock, monkeypatch)
    settings(
        pai_url=server.url,
        username="admin",
        password="admin-password",
        poll_min=0.02,
        poll_max=0.1,
        poll_patience=30,
    )
    yield server
    server.close()


@pytest.fixture
def real_time(pai: FaultyPai, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let real time pass for ``pai`` and its clients: for those in processes of their own."""
    pai.clock = time
    install_clock(Clock(), monkeypatch)


@pytest.fixture
def impatient(settings: Callable[..., None]) -> None:
    """Half a second without an answer is a timeout: for servers that hang."""
    settings(read_timeout=0.5)


@pytest.fixture
def hdfs(tmp_path: Path, settings: Callable[..., None]) -> Iterator[Path]:
    """The folder that is HDFS, configured in [OpenPai]."""
    root = tmp_path / "hdfs"
    with serving(root) as url:
        settings(webhdfs_url=url, fs_uri=url.replace("http", "hdfs"), username="admin")
        yield root


@pytest.fixture
def storage(tmp_path: Path, pai: FaultyPai, settings: Callable[..., None]) -> Path:
    """The folder that is the storage ``nfs1`` of ``pai``, a 1.8 without HDFS; configured in [OpenPai]."""
    root = tmp_path / "nfs1"
    root.mkdir()
    pai.release = "1.8.0"
    pai.storages["nfs1"] = nfs(root)
    settings(storage="nfs1")
    return root


_CLUSTERS = ["default:gpu=24", "vc1"]  # horovod_job on 3 nodes has 12


@pytest.fixture(scope="session")
def local_pai_v1() -> Iterator[LocalPai]:
    """One local OpenPAI 0.7.1 for all tests of a process; job names must differ."""
    with LocalPai(api="v1", virtual_clusters=_CLUSTERS) as server:
        yield server


@pytest.fixture(scope="session")
def local_pai_v2() -> Iterator[LocalPai]:
    """One local OpenPAI 1.8, with an HDFS beside it, for all tests of a process; job names must differ."""
    with LocalPai(hdfs=True, virtual_clusters=_CLUSTERS) as server:
        yield server


@pytest.fixture(scope="session")
def local_pai_ltp() -> Iterator[LocalPai]:
    """One local LTP 1.5, with an HDFS beside it, for all tests of a process; job names must differ."""
    with LocalPai(api="ltp", hdfs=True) as server:
        yield server


@pytest.fixture(scope="session")
def storage_pai_v2() -> Iterator[LocalPai]:
    """One local OpenPAI 1.8 with a storage and no HDFS, for all tests of a process; job names must differ."""
    with LocalPai() as server:
        yield server


@pytest.fixture(scope="session")
def storage_pai_ltp() -> Iterator[LocalPai]:
    """One local LTP 1.5 with a storage and no HDFS, for all tests of a process; job names must differ."""
    with LocalPai(api="ltp") as server:
        yield server


@pytest.fixture(params=["v2", "ltp"])
def storage_pai(request: pytest.FixtureRequest, settings: Callable[..., None]) -> LocalPai:
    """The session's local OpenPAI of either release that has a storage and no HDFS, as [OpenPai]."""
    server: LocalPai = request.getfixturevalue(f"storage_pai_{request.param}")
    settings(**{**server.luigi_section, "poll_min": 0.05, "poll_max": 0.5})
    return server


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
def cluster(local_pai_v1: LocalPai, as_settings: Callable[[LocalPai], None]) -> LocalPai:
    """The session's local OpenPAI 0.7.1, as [OpenPai] of luigi.cfg."""
    as_settings(local_pai_v1)
    return local_pai_v1


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for the tests of a module; they are skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip(MISSING)
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()
