"""Sessions and clusters that are closed again, a movable clock, small real servers, recorded replies."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import math
import os
import signal
import socket
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import responses
from clocks import MovableClock
from fault_server import FaultServer, Reply, Request
from faulty_pai import FaultyPai
from mocked_rest import URL
from places import DATA

from luigi_pai.api.cluster import Cluster
from luigi_pai.api.session import Session
from luigi_pai.api.shared import SharedDocument
from luigi_pai.api.wire.transport import Account

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.api.clock import Clock
    from luigi_pai.api.watched import Update
    from luigi_pai.api.watching import Watcher


@functools.cache
def _observed(server: str) -> dict[str, dict[str, Any]]:
    steps = json.loads((DATA / f"observed_{server}.json").read_text(encoding="utf-8"))
    return {step["step"]: step for step in steps}


@pytest.fixture
def recorded_by() -> Callable[[str], dict[str, dict[str, Any]]]:
    """Return the responses of a real rest-server, by probe step."""
    return _observed


@pytest.fixture
def play(rest: responses.RequestsMock) -> Callable[[dict[str, Any]], None]:
    """Let the mock respond as a real server did in a step of the probe."""

    def reply(record: dict[str, Any]) -> None:
        method, target = record["req"].split(" ", 1)
        rest.add(
            method,
            URL + target.partition("?")[0],
            body=record["text"] if record["json"] is None else json.dumps(record["json"]),
            status=record["status"],
            content_type=record["ctype"],
        )

    return reply


@pytest.fixture
def say(request: pytest.FixtureRequest, play: Callable[[dict[str, Any]], None]) -> Callable[[str], None]:
    """Play a step of the server that a test module names as SERVER."""
    return lambda step: play(_observed(request.module.SERVER)[step])


@pytest.fixture
def make_token() -> Callable[..., str]:
    """Make a token as servers do: a JSON Web Token that lives for so many seconds."""

    def make(life: float = 3600, serial: int = 0, **claims: Any) -> str:
        now = int(time.time())
        payload = json.dumps({"username": "admin", "iat": now, "exp": now + life, "n": serial} | claims)
        return f"e30.{base64.urlsafe_b64encode(payload.encode()).decode().rstrip('=')}.sig"

    return make


@pytest.fixture
def clock() -> MovableClock:
    """Return a clock that only the test moves."""
    return MovableClock()


@pytest.fixture
def follow(clock: MovableClock) -> Callable[..., list[Update]]:
    """Step until nothing is watched any more, or for some seconds, and return the updates."""

    def run(watcher: Watcher, seconds: float = math.inf) -> list[Update]:
        updates: list[Update] = []
        start = clock.monotonic()
        while len(watcher) and clock.monotonic() + watcher.idle() < start + seconds:
            assert clock.monotonic() < start + 100_000, f"still watching: {updates}"
            clock.sleep(watcher.idle())
            updates += watcher.step()
        return updates

    return run


@pytest.fixture
def faulty(clock: MovableClock) -> Iterator[FaultyPai]:
    """Return a fault-injecting rest-server on the same clock."""
    server = FaultyPai(clock)
    yield server
    server.close()


@pytest.fixture
def in_forks() -> Iterator[Callable[..., None]]:
    """Do something in real forks at once, given the number of each, and wait until all have done it well."""
    started: list[int] = []

    def start(
        do: Callable[[int], object], count: int = 1, meanwhile: Callable[[], object] | None = None
    ) -> None:
        children = [_forked(do, number) for number in range(count)]
        started.extend(children)
        if meanwhile is not None:
            meanwhile()
        for child in children:
            _child, status = os.waitpid(child, 0)
            started.remove(child)
            assert os.waitstatus_to_exitcode(status) == 0, "a fork failed; its traceback is on stderr"

    yield start
    for child in started:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _forked(do: Callable[[int], object], number: int) -> int:
    child = os.fork()
    if child == 0:  # pragma: no cover  in the child
        code = 1
        try:
            do(number)
            code = 0
        except BaseException:  # noqa: BLE001  the parent fails, and this says why
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


@pytest.fixture
def new_session() -> Iterator[Callable[..., Session]]:
    """Make sessions of user admin; all are closed after the test."""
    with contextlib.ExitStack() as made:

        def make(
            url: str = URL, clock: Clock | None = None, shared: SharedDocument | None = None, **about: Any
        ) -> Session:
            account = Account(url, **{"username": "admin", "password": "admin-password"} | about)
            session = Session(account, shared or SharedDocument(), clock)
            return made.enter_context(contextlib.closing(session))

        yield make


@pytest.fixture
def new_cluster() -> Iterator[Callable[..., Cluster]]:
    """Make clusters of user admin; all are closed after the test."""
    with contextlib.ExitStack() as made:

        def make(url: str = URL, **about: Any) -> Cluster:
            cluster = Cluster(url, **{"username": "admin", "password": "admin-password"} | about)
            return made.enter_context(contextlib.closing(cluster))

        yield make


@pytest.fixture
def known_cluster(
    faulty: FaultyPai, new_cluster: Callable[..., Cluster], clock: MovableClock
) -> Callable[..., Cluster]:
    """Make a cluster of the faulty server, on its clock, that need not find out its API version."""
    return lambda **about: new_cluster(
        faulty.url, clock=clock, api_version="v1" if faulty.release == "0.7.1" else "v2", **about
    )


@pytest.fixture
def slow_lists(
    faulty: FaultyPai, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> Callable[[float], None]:
    """Make each list of the faulty server take some seconds of the clock."""
    answer = faulty.answer

    def take(seconds: float) -> None:
        def slow(request: Any) -> Any:
            if "jobs?" in request.path:
                clock.advance(seconds)
            return answer(request)

        monkeypatch.setattr(faulty, "answer", slow)

    return take


class Server(FaultServer):
    """A server that answers by a function of the request: status, headers, body.

    Attributes:
        asked: The requests.
        given: The tokens, where the function gives some out.
    """

    def __init__(self, by: Callable[[Request], tuple[int, dict[str, str], str]]) -> None:
        self.asked: list[Request] = []
        self.given: list[str] = []
        self._by = by
        super().__init__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, request: Request) -> Reply:
        self.asked.append(request)
        status, headers, body = self._by(request)
        return Reply(status, body.encode(), headers)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Start real servers on 127.0.0.1, each with a function that answers its requests."""
    with contextlib.ExitStack() as running:

        def start(by: Callable[[Request], tuple[int, dict[str, str], str]]) -> Server:
            return running.enter_context(contextlib.closing(Server(by)))

        yield start


@pytest.fixture
def rest() -> Iterator[responses.RequestsMock]:
    """Return a mocked rest-server; routes need not all be requested."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


@pytest.fixture
def sockets():
    """Start servers that hand each connection to a function of its socket; returns their port."""
    opened = []
    pool = ThreadPoolExecutor(16)

    def start(handle):
        listener = socket.create_server(("127.0.0.1", 0))
        opened.append(listener)

        def serve_one(connection):
            with connection, contextlib.suppress(OSError):
                handle(connection)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):  # or what was not read would reset the connection
                    pass

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    opened.append(listener.accept()[0])
                    pool.submit(serve_one, opened[-1])

        pool.submit(accept)
        return listener.getsockname()[1]

    yield start
    for one in opened:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
    pool.shutdown()
    for one in opened:
        one.close()
