"""Workers that go on one at a time, from request to request, as a test says; on one clock.

A worker is a thread that stands for a process: it has clusters of its own. It stops before each of its
requests and in each of its waits, until ``advance`` says what becomes of the request.
"""

from __future__ import annotations

import io
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import requests
import urllib3
from clocks import StandingClock
from fault_server import Request

from luigi_pai.api.caches import BoundedCache
from luigi_pai.api.registry import Clusters
from luigi_pai.api.wire.timed_http import TimedAdapter, progress

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from fault_server import FaultServer

    from chaos.small_hdfs import SmallHdfs

__all__ = ["GO", "LOST", "Interleaving", "KilledError", "Worker"]

GO = "go"
LOST = ("refused", "lost before", "lost after")
"""No reply: not sent; sent and not acted upon; acted upon."""
_KILLED = ("killed before", "killed after")
FATES = (GO, *LOST, *_KILLED)

_LONGEST = 60.0  # seconds for which a worker may compute between two requests


class KilledError(BaseException):
    """The worker is killed."""


class _SharedClock(StandingClock):
    """A clock that stands still, but for the waits that end."""

    def __init__(self, world: Interleaving) -> None:
        self._world = world
        self.now = 1_000_000.0

    def time(self) -> float:
        return 1.7e9 + self.now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        due = self.now + seconds
        worker = self._world.current
        if worker is not None:
            worker.stop_at(f"wait {seconds:.1f} s", due)
        self.now = max(self.now, due)


class Worker:
    """A worker.

    Args:
        world: that it is in.
        name: for the schedule.
        work: what it does.

    Attributes:
        at: what it is about to do.
        due: when its wait ends, on the clock; None before a request.
        done: it has come to its end.
        error: what it raised then.
        result: what it returned.
    """

    def __init__(self, world: Interleaving, name: str, work: Callable[[], Any]) -> None:
        self.name, self.at = name, "start"
        self.due: float | None = None
        self.done = False
        self.error: BaseException | None = None
        self.result: Any = None
        self._world = world
        self._work = work
        self._fate = GO
        self._turn, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self.clusters: BoundedCache[Any, Any] = BoundedCache()
        self.cache: BoundedCache[Any, Any] = BoundedCache()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def advance(self, fate: str = GO) -> None:
        """Let it go on to its next request or wait, or to its end."""
        assert not self.done
        self._fate = "killed before" if self.due is not None and fate in _KILLED else fate
        self._turn.release()
        assert self._back.acquire(timeout=_LONGEST), f"{self.name} hangs after {self.at}"

    def kill(self) -> None:
        """End it, wherever it is."""
        while not self.done:
            self.advance("killed before")

    def stop_at(self, what: str, due: float | None = None) -> str:
        """In its thread: wait for its turn, and return what becomes of the request."""
        if self._fate in _KILLED:  # what it does on its way out does not happen
            raise KilledError
        self.at, self.due = what, due
        self._back.release()
        self._turn.acquire()
        if self._fate == "killed before":
            raise KilledError
        return self._fate

    def _begin(self) -> None:
        if self._fate in _KILLED:
            raise KilledError
        self._fate = GO
        self.result = self._work()

    def _run(self) -> None:
        self._turn.acquire()
        try:
            self._begin()
        except BaseException as error:  # noqa: BLE001  judged by the test
            self.error = error
        self.done = True
        for cluster in list(self.clusters.values()):
            cluster.close()
        self._back.release()


def _run_inline(act: Callable[[], Any]) -> Future[Any]:
    """Call a function of a sweep in the thread of its worker."""
    future = Future[Any]()
    try:
        future.set_result(act())
    except Exception as error:  # noqa: BLE001  raised again by the engine
        future.set_exception(error)
    return future


class Interleaving:
    """The world of the workers: a rest-server and an HDFS in memory, and a clock.

    Args:
        pai: the rest-server, which is asked by its ``answer`` alone.
        hdfs: the HDFS.

    Attributes:
        away: which of ``pai`` and ``hdfs`` do not answer.
        log: what each worker has done, in order.
    """

    def __init__(self, pai: FaultServer, hdfs: SmallHdfs) -> None:
        self.clock = _SharedClock(self)
        self.away: set[str] = set()
        self.log: list[str] = []
        self.workers: list[Worker] = []
        self._pai, self._hdfs = pai, hdfs

    @property
    def current(self) -> Worker | None:
        """The worker whose thread this is."""
        return next((one for one in self.workers if one.thread is threading.current_thread()), None)

    @property
    def alive(self) -> list[Worker]:
        """The workers that have not come to their end."""
        return [one for one in self.workers if not one.done]

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the package send its requests here, and each worker have clusters of its own."""
        world, own = self, (BoundedCache[Any, Any](), BoundedCache[Any, Any]())

        def clusters(_registry: Clusters) -> BoundedCache[Any, Any]:
            return own[0] if world.current is None else world.current.clusters

        def cache(_registry: Clusters) -> BoundedCache[Any, Any]:
            return own[1] if world.current is None else world.current.cache

        def send(adapter: TimedAdapter, request: Any, **_options: Any) -> requests.Response:
            return world._send(adapter, request)

        ignored = property(clusters, lambda *_: None), property(cache, lambda *_: None)
        monkeypatch.setattr(Clusters, "_clusters", ignored[0], raising=False)
        monkeypatch.setattr(Clusters, "cache", ignored[1], raising=False)
        monkeypatch.setattr(TimedAdapter, "send", send)
        for module in ("packs", "ending"):
            monkeypatch.setattr(f"luigi_pai.sweep.{module}.run_in_thread", _run_inline)

    def start(self, name: str, work: Callable[[], Any]) -> Worker:
        """Add a worker."""
        worker = Worker(self, name, work)
        self.workers.append(worker)
        return worker

    def _send(self, adapter: TimedAdapter, request: Any) -> requests.Response:
        worker = self.current
        place = "hdfs" if "/webhdfs/" in request.url else "pai"
        what = f"{request.method} {request.url}"
        fate = GO if worker is None else worker.stop_at(what)
        self.log.append(f"{worker.name if worker else 'test'}: {what}: {fate}")
        if fate == "refused" or place in self.away:
            progress.sent = False
            refused = urllib3.exceptions.NewConnectionError(None, "connection refused")  # type: ignore[arg-type]
            raise requests.ConnectionError(refused, request=request)
        progress.sent = True
        status, headers, body = 0, {}, b""
        if fate != "lost before":
            status, headers, body = self._answer(place, request)
        if fate in ("lost before", "lost after"):
            lost = urllib3.exceptions.ProtocolError("Connection aborted.", ConnectionResetError(104, "reset"))
            raise requests.ConnectionError(lost, request=request)
        if fate == "killed after":
            raise KilledError
        reply = urllib3.HTTPResponse(
            io.BytesIO(body),
            {**headers, "Content-Length": str(len(body))},
            status,
            preload_content=False,
            request_method=request.method,
        )
        return adapter.build_response(request, reply)

    def _answer(self, place: str, request: Any) -> tuple[int, dict[str, str], bytes]:
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        body = body if isinstance(body, bytes) else b"".join(body)
        if place == "hdfs":
            return self._hdfs.answer(request.url, body)
        path = request.path_url
        answer = self._pai.answer(Request(request.method, path, request.headers, body)).encoded()  # type: ignore[attr-defined]
        return answer.status, dict(answer.headers), answer.body
