"""The nemeses: each begins runs of the pipeline, and does harm to them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import psutil

from chaos.disk_faults import outage

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.rounds import Played, Round, Started, Table

__all__ = ["KILLS", "MACHINES", "MEETINGS", "OUTAGES", "RACES", "crash_at"]

_LATEST = 1.6  # seconds after its start when a run is killed
_REQUESTS = 60  # of a run, about


def _group(_table: Table, started: Started) -> None:
    os.killpg(started.session, signal.SIGKILL)


def _main(_table: Table, started: Started) -> None:
    os.kill(started.session, signal.SIGKILL)


def _child(table: Table, started: Started) -> None:
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(started.session).children()
        if children:
            table.random.choice(children).kill()


def _server(table: Table, _started: Started) -> None:
    table.server.kill()
    time.sleep(table.random.choice((0, 0, 0.5)))
    table.server.start()


def _at_some_time(harm: Callable[[Table, Started], None]) -> Callable[[Table], None]:
    """Return a nemesis that does harm to one, two or three runs, each at a time drawn at random."""

    def nemesis(table: Table) -> None:
        for _ in range(table.random.randint(1, 3)):
            started = table.start(disturbed=True)
            started.process.join(table.random.uniform(0, _LATEST))
            if started.process.exitcode is None:
                with contextlib.suppress(ProcessLookupError):
                    harm(table, started)
            table.end(started)

    return nemesis


def _request(table: Table) -> None:
    """Kill the group just before a request, or just after the reply to it."""
    for _ in range(table.random.randint(1, 3)):
        number = table.random.choice((-1, 1)) * table.random.randint(1, _REQUESTS)
        table.end(table.start(kill_at=number))


def _lost_replies(table: Table) -> None:
    """The server does as asked; most submissions get no reply, and one in ten of the other requests."""
    rules = [
        {"fault": "drop", "method": "POST", "path": "/api/v?/jobs", "rate": 0.7},
        {"fault": "drop", "rate": 0.1},
    ]
    _with_faults(table, rules, disturbed=table.round.workload == "dynamic")


def _lost_hdfs_replies(table: Table) -> None:
    """HDFS does as asked, and one request in fifty gets no reply: a run may fail, but say nothing wrong."""
    _with_faults(table, [{"fault": "drop", "path": "/webhdfs/*", "rate": 0.02}], disturbed=True)


def _moody_server(table: Table) -> None:
    """Submissions that are taken are answered with an error, tokens are lost, and the limits are reached."""
    rules = [
        {
            "fault": "error",
            "status": 502,
            "executed": True,
            "method": "POST",
            "path": "/api/v?/jobs",
            "rate": 0.5,
        },
        {"fault": "error", "status": 503, "executed": True, "rate": 0.1},
        # a lookup on v1 does not show that the token is lost, so a post shows it at once
        {"fault": "expire", "rate": 0.1, **({"method": "POST"} if table.round.api == "v1" else {})},
        {"fault": "limit", "rate": 0.1, "count": 5},
        # of a server that has not responded yet, a run expects nothing
        {"fault": "reset", "rate": 0.1, "skip": 10},
    ]
    # the complete() of a task that another one yields is patient for two seconds only
    _with_faults(table, rules, disturbed=table.round.workload == "dynamic")


def _safe_mode(table: Table) -> None:
    """The NameNode is in safe mode for some changes, from a certain one on: a run waits until it is not."""
    rule = {"fault": "safe-mode", "path": "/webhdfs/*", "method": ["PUT", "POST", "DELETE"]}
    skip, count = table.random.randint(0, 30), table.random.randint(1, 8)
    _with_faults(table, [{**rule, "skip": skip, "count": count}], disturbed=True)


def _failing_files(table: Table) -> None:
    """Files fail in one or two runs, one after the other: a run may fail, but say nothing wrong."""
    for _ in range(table.random.randint(1, 2)):
        table.end(table.start(disturbed=True, files=_outage(table)))


def _full_disk(table: Table) -> None:
    """The disk gets full, also in the middle of a write of the journal; in the next run it has room again."""
    table.end(table.start(disturbed=True, files=_outage(table, "ENOSPC")))


def _outage(table: Table, error: str = "") -> dict[str, Any]:
    """Draw an outage. Local claims are tried again after growing pauses, so few of their changes fail."""
    return outage(table.random, error, longest=5 if table.round.place == "none" else 60)


def _sigterm(_table: Table, started: Started) -> None:
    os.kill(started.session, signal.SIGTERM)
    started.process.join(20)
    os.killpg(started.session, signal.SIGTERM)  # workers of Luigi outlive its main process


def _with_faults(table: Table, rules: list[dict[str, Any]], *, disturbed: bool = False) -> None:
    table.server.set_faults({"seed": table.random.randrange(10**6), "rules": rules})
    table.end(table.start(disturbed=disturbed))
    table.server.set_faults()


KILLS: dict[str, Callable[[Table], None]] = {
    "kill-group": _at_some_time(_group),
    "kill-main": _at_some_time(_main),
    "kill-child": _at_some_time(_child),
    "kill-server": _at_some_time(_server),
    "kill-at-request": _request,
    "lost-replies": _lost_replies,
    "lost-hdfs-replies": _lost_hdfs_replies,
    "sigterm": _at_some_time(_sigterm),
    "moody-server": _moody_server,
    "safe-mode": _safe_mode,
    "failing-files": _failing_files,
    "full-disk": _full_disk,
}
"""By their names, those of one process at a time."""


def _race(count: int, kills: int, machines: int = 1, outages: int = 0) -> Callable[[Table], None]:
    """Return a nemesis that starts processes at once, on some machines by turns; the first ones suffer."""

    def nemesis(table: Table) -> None:
        all_ = [
            table.start(
                # of two searches, one goes on; a task whose point runs in a job of a sweep may say so
                disturbed=table.round.workload == "search"
                or bool(table.round.work.beside)
                or number < outages,
                kill_at=table.random.randint(5, _REQUESTS) if number < kills else 0,
                files=outage(table.random) if number < outages else {},
                only=number if table.round.work.parts > 1 and machines == 1 else None,
                machine=number % machines,
            )
            for number in range(count)
        ]
        for started in all_:
            table.end(started)

    return nemesis


def _one_build(table: Table) -> None:
    table.end(table.start(disturbed=bool(table.round.work.beside)))


MEETINGS: dict[str, Callable[[Table], None]] = {"one-build": _one_build, "two-at-once": _race(2, 0)}
"""By their names: how the sweeps and tasks of a pipeline meet without being killed."""

MACHINES: dict[str, Callable[[Table], None]] = {
    "two-machines": _race(2, 0, machines=2),
    "two-machines-one-killed": _race(2, 1, machines=2),
    "two-machines-one-mount-failing": _race(2, 0, machines=2, outages=1),
}
"""By their names: how one pipeline runs on several machines, which have the cluster's files in common."""

RACES: dict[str, Callable[[Table], None]] = {
    "two-at-once": _race(2, 0),
    "four-at-once": _race(4, 0),
    "two-at-once-one-killed": _race(2, 1),
    "four-at-once-two-killed": _race(4, 2),
}
"""By their names: how many processes run the pipeline at once."""

OUTAGES = ("failing-files", "full-disk", "two-machines-one-mount-failing")
"""Those of files on a storage."""


def crash_at(
    play: Callable[[Round, Callable[[Table], None]], Played], one: Round, number: int
) -> tuple[Played, bool]:
    """Play a round whose first run is killed at a request; return it, and whether it was killed."""
    codes: list[int] = []
    played = play(one, lambda table: codes.append(table.end(table.start(kill_at=number))))
    return played, codes[0] < 0
