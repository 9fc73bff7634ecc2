"""Sessions and clusters that are closed again, a movable clock, small real servers, recorded replies."""

from __future__ import annotations

import base64
import functools
import json
import os
import signal
import socket
import threading
import time
import traceback
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pytest
import responses
from clocks import MovableClock
from ending_server import EndingServer
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
    made: list[Session] = []

    def make(
        url: str = URL, clock: Clock | None = None, shared: SharedDocument | None = None, **about: Any
    ) -> Session:
        account = Account(url, **{"username": "admin", "password": "admin-password"} | about)
        made.append(Session(account, shared or SharedDocument(), clock))
        return made[-1]

    yield make
    for session in made:
        session.close()


@pytest.fixture
def new_cluster() -> Iterator[Callable[..., Cluster]]:
    """Make clusters of user admin; all are closed after the test."""
    made: list[Cluster] = []

    def make(url: str = URL, **about: Any) -> Cluster:
        made.append(Cluster(url, **{"username": "admin", "password": "admin-password"} | about))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


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


@dataclass
class Asked:
    """A request as a server received it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    port: int  # of the client: one for each connection


@dataclass
class Server:
    """A server that answers by a function of the request: status, headers, body."""

    answer: Callable[[Asked], tuple[int, dict[str, str], str]]
    asked: list[Asked] = field(default_factory=list)
    given: list[str] = field(default_factory=list)  # tokens, where the function gives some out
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def count(self, method: str, path: str) -> int:
        return sum(1 for one in self.asked if (one.method, one.path) == (method, path))


class _Handler(BaseHTTPRequestHandler):
    """Hands each request to the function of its server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for an acknowledgement

    def _any(self) -> None:
        owner: Server = self.server.owner  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = Asked(self.command, self.path, dict(self.headers), body, self.client_address[1])
        owner.asked.append(asked)
        status, headers, text = owner.answer(asked)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_POST = do_PUT = do_DELETE = _any

    def log_message(self, *_: Any) -> None:
        pass


class _Server(EndingServer):
    def handle_error(self, *_: Any) -> None:
        pass  # a client that went away


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Start real servers on 127.0.0.1, each with a function that answers its requests."""
    running: list[_Server] = []

    def start(answer: Callable[[Asked], tuple[int, dict[str, str], str]]) -> Server:
        http = _Server(("127.0.0.1", 0), _Handler)
        http.owner = Server(answer, port=http.server_address[1])  # type: ignore[attr-defined]
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        running.append(http)
        return http.owner  # type: ignore[attr-defined]

    yield start
    for http in running:
        http.shutdown()
        http.server_close()


@pytest.fixture
def rest() -> Iterator[responses.RequestsMock]:
    """Return a mocked rest-server; routes need not all be requested."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """Return a socket that accepts connections and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock
