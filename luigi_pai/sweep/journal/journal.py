"""Journal: a sweep's events as lines of JSON, and the state that results from them.

The ``journal.jsonl`` file in the sweep's results folder contains lines such as these::

    {"event": "run", "run": [1, "0c2f"], "sweep": "Study", "file": "study.py", "at": 1700000000000}
    {"event": "asked", "point": "train_1", "family": "Train", "parameters": {"rate": "0.1"}, "note": null}
    {"event": "begun", "point": "train_1", "claim": {"number": 1, "job": "train_1", "token": "5f3c", ...}}
    {"event": "released", "point": "train_1", "number": 1, "token": "5f3c"}
    {"event": "pruned", "point": "train_1", "job": "train_1"}
    {"event": "ended", "point": "train_1", "number": 1, "row": {"state": "FAILED", ...}, "cluster":
    "http://...",
     "id": "9ab1"}
    {"event": "told", "point": "train_1"}
    {"event": "again", "points": {"train_1": {"number": 1, "end": "9ab1"}}}
    {"event": "over", "run": [1, "0c2f"], "complete": true, "budget": 20, "dropped": []}

An event that announces an action is written before the action. Each write starts with a line break, so that
a killed writer's unfinished line does not damage other lines. Two processes may write at the same time (on
HDFS to separate files), and a write may be repeated. Neither the order nor the repetition of lines may
therefore change a point's state: submissions are compared by their numbers, "again" lists the ends that no
longer count, and the run with the highest number and token counts as the last run.

Others may be able to write the file, so an event is only data: it never makes a run submit a point that the
sweep itself did not propose (see ``source``), and events with invalid or excessive values are ignored.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import uuid
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import PaiSweepFailed
from luigi_pai.sweep.journal.files import journal_files
from luigi_pai.sweep.journal.records import (
    LARGEST,
    Record,
    check_run,
    checked_number,
    run_of,
    valid_asked,
    valid_row,
)
from luigi_pai.work.claims import claim_of
from luigi_pai.work.submit import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from luigi_pai.api.clock import Clock
    from luigi_pai.sweep.journal.files import HdfsFiles, Lines, LocalFile
    from luigi_pai.sweep.rows import Row
    from luigi_pai.work.claims import Claim


class Journal(Ledger):
    """A sweep's journal. Threads may share it; events that they write at the same time need one request.

    As a ledger of claims, it also decides which of the machines that share its folder runs a point that has
    no claims on the cluster. Methods that read or write its files raise HdfsError or OSError if this fails.
    Events that could not be written stay queued until the next write.

    Attributes:
        records: Point name -> record.
        history: Pairs of event ("asked" or "told") and point name, in the order of a search's events.
        info: The fields of the last "run" event; empty before the first.
        over: Whether the last run finished and was not killed; also True if there was no run.
        complete: Whether the last run succeeded.
        budget: The number of points that the search should have proposed in the last run.
        dropped: The names of recorded points that the last run dropped, see ``Source``.
        notes: A search's notes, oldest first, see ``PaiSweep._note``.
    """

    def __init__(self, folder: str, clock: Clock) -> None:
        self.records: dict[str, Record] = {}
        self.history: list[tuple[str, str]] = []
        self.notes: list[Any] = []
        self.info: Mapping[str, Any] = {}
        self.over, self.complete, self.budget = True, False, 0
        self.dropped: frozenset[str] = frozenset()
        self._clock = clock
        self._run: Any = None  # number and token of this run
        self._folder = folder
        self._unwritten: list[bytes] = []
        self._state = threading.RLock()
        self._writing = threading.RLock()

    @functools.cached_property
    def _files(self) -> HdfsFiles | LocalFile:
        return journal_files(self._folder)  # may request the storage's description

    @property
    def asked(self) -> list[str]:
        """Names of the points that a search proposed, in order, without dropped points."""
        return [name for event, name in self.history if event == "asked" and name not in self.dropped]

    def read(self) -> Journal:
        """Read the events added since the last call; raise ValueError if the file is not a journal."""
        with self._writing:
            parts = self._files.read()
            if not self._apply_lines(parts) and not self.info and any(part.data.strip() for part in parts):
                raise ValueError(
                    f"{self._files.path} is not a sweep's journal; move it away, and run the sweep again"
                )
        return self

    def _apply_lines(self, parts: Iterable[Lines]) -> int:
        """Apply the lines that were read, and return how many events they contained."""
        events = 0
        for part in parts:
            for number, line in enumerate(part.data.split(b"\n"), part.first):
                with contextlib.suppress(
                    ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError
                ):
                    event = json.loads(line)  # a line truncated by a kill is not an event
                    with self._state:
                        self._apply(event, f"line {number} of {part.path}")
                    events += 1
        return events

    def record(self, name: str) -> Record:
        """Return a point's record."""
        return self.records.setdefault(name, Record())

    def write(self, *events: Mapping[str, Any]) -> None:
        """Write the queued events, then these events."""
        self.queue(*events)
        self.flush()

    def queue(self, *events: Mapping[str, Any]) -> None:
        """Apply events, and queue them for the next write."""
        with self._state:
            for event in events:
                self._unwritten.append(json.dumps(event, default=str).encode())
                self._apply(event)

    def flush(self) -> None:
        """Write all threads' queued events."""
        with self._writing:
            with self._state:
                lines = list(self._unwritten)
            if lines:
                self._apply_lines(self._files.append(b"".join(b"\n" + line for line in lines) + b"\n"))
                with self._state:
                    del self._unwritten[: len(lines)]

    def begin(self, claims: Sequence[Claim]) -> list[Claim]:
        """Record claims in one write. Return them, or other processes' earlier claims.

        On a local file system, a lock lets only one of several processes claim a submission.
        """
        with self._writing, self._files.locked() as others:
            self._apply_lines(others)
            held = []
            for claim in claims:
                known = self.record(claim.name).claim
                if known is None or known.number != claim.number:
                    known, fields = claim, asdict(claim)
                    fields = {key: value for key, value in fields.items() if key not in ("name", "state")}
                    self.queue({"event": "begun", "point": claim.name, "claim": fields})
                held.append(known)
            self.flush()
        return held

    def release(self, claims: Sequence[Claim]) -> None:
        """Record that the job for these claims was certainly not submitted."""
        for claim in claims:
            self.withdraw(claim.name, claim.number)

    def withdraw(self, name: str, number: int) -> None:
        """Record that a submission never runs, so that it does not count as one of the point's attempts."""
        record = self.record(name)
        if number in record.begun:
            token = record.claim.token if record.claim is not None else ""
            self.write({"event": "released", "point": name, "number": number, "token": token})

    def end(self, name: str, number: int, row: Row, cluster: str) -> None:
        """Record how a point ended.

        Args:
            name: The point's name.
            number: Its submission's number. If 0, its claim's number is recorded, or 0 if it has no claim.
            row: The point's row.
            cluster: The URL of the rest-server; empty if the next run must look up the point, because its end
                could not be recorded in its output folder.
        """
        claim = self.record(name).claim
        number = number or (0 if claim is None else claim.number)
        ended = {"event": "ended", "point": name, "number": number, "row": asdict(row), "cluster": cluster}
        self.queue({**ended, "id": uuid.uuid4().hex[:8]})

    def start(self, name: str, file: str) -> None:
        """Start a run; raise ValueError if a run in the journal has an impossible number.

        Failed and stopped points get new attempts, but not if the last run was killed.
        """
        if self.over:
            self.again([each for each, record in self.records.items() if not record.is_good])
        number = run_of(self.info)[0] + 1
        if number > LARGEST:
            raise ValueError(
                f"{self._files.path} contains run number {number - 1}, which no sweep can reach; remove the "
                "folder, or choose another"
            )
        self._run = [number, uuid.uuid4().hex[:8]]
        now_ms = int(self._clock.time() * 1000)
        self.write({"event": "run", "run": self._run, "sweep": name, "file": file, "at": now_ms})
        self.read()

    def ask(self, event: Mapping[str, Any]) -> None:
        """Write the event for a proposed point; raise PaiSweepFailed if another process runs the search.

        Only the process that started last continues. Each process writes its event before it reads, so that
        the process that started last knows every point proposed earlier.
        """
        with self._writing, self._files.locked() as others:
            self._apply_lines(others)
            self.check_newest()
            self.write(event)
            self.check_newest()

    def check_newest(self) -> None:
        """Read the journal; raise PaiSweepFailed if another process started the sweep."""
        self.read()
        if run_of(self.info) != self._run:
            name = str(self.info["sweep"])
            raise PaiSweepFailed(
                f"sweep {name!r}: another process has started this search, and continues the search "
                "and watches its jobs; only one process may run a search at a time",
                name,
            )

    def finish(self, *, complete: bool, budget: int, dropped: Iterable[str]) -> None:
        """Queue the "over" event: the run finished, and was not killed. See this class's attributes."""
        over = {"event": "over", "run": self._run, "complete": complete, "budget": budget}
        self.queue({**over, "dropped": [*dropped]})

    def retry(self) -> int:
        """Make the next run submit failed points again, and return how many there are."""
        failed = [name for name, record in self.records.items() if record.row and not record.is_good]
        self.again(failed)
        self.flush()
        return len(failed)

    def again(self, names: Iterable[str]) -> None:
        """Record that points get all their attempts again and that their recorded ends no longer count."""
        points = {}
        for name in names:
            record = self.records[name]
            number = 0 if record.claim is None else record.claim.number
            points[name] = {"number": number, "end": record.last.get("id")}
        if points:
            self.queue({"event": "again", "points": points})

    def is_complete(self, names: Iterable[str], allowed: int) -> bool:
        """Return whether all points have finished and at most ``allowed`` of them failed."""
        records = [self.records.get(name) for name in names]
        ended = [record for record in records if record is not None and record.row and record.cluster]
        return len(ended) == len(records) and sum(not record.is_good for record in ended) <= allowed

    def counts(self, names: Iterable[str]) -> dict[str, int]:
        """Return how many of these points are in each final state: state -> number."""
        rows = (self.record(name).row for name in names)
        return dict(Counter(row.state for row in rows if row is not None))

    def _apply(self, event: Mapping[str, Any], place: str = "") -> None:
        """Apply an event from a line in a file or from this run; raise an error if it is invalid."""
        kind = event["event"]
        if kind == "run":
            check_run(event)
            if run_of(event) > run_of(self.info):
                self.info, self.over, self.complete, self.dropped = event, False, False, frozenset()
        elif kind == "over":
            if event["run"] == run_of(self.info):
                values = bool(event["complete"]), int(event["budget"]), frozenset(event["dropped"])
                self.over, (self.complete, self.budget, self.dropped) = True, values
        elif kind == "again":
            for name, last in event["points"].items():
                record = self.record(name)
                record.before = max(record.before, int(last["number"]))
                if last["end"] not in (None, *record.void):
                    record.void = (*record.void, str(last["end"]))
        else:
            if not isinstance(event["point"], str):
                raise TypeError(event["point"])
            self._apply_to(self.record(event["point"]), kind, event, place)

    def _apply_to(self, record: Record, kind: str, event: Mapping[str, Any], place: str) -> None:
        if kind in ("asked", "told"):
            asked = valid_asked(place, event["family"], event["parameters"]) if kind == "asked" else None
            self.notes += [event["note"]] if event.get("note") else []
            if record.told if asked is None else record.asked is not None:
                return
            self.history.append((kind, event["point"]))
            record.asked, record.told = asked or record.asked, record.told or asked is None
        elif kind == "begun":
            claim = claim_of({"name": event["point"], **event["claim"]}, int(event["claim"]["number"]))
            record.begun = tuple(dict.fromkeys((*record.begun, claim.number)))
            if record.claim is None or record.claim.number <= claim.number:
                record.claim = claim
        elif kind == "released":
            record.begun = tuple(number for number in record.begun if number != event["number"])
            if record.claim is not None and record.claim.token == event["token"]:
                record.claim = None
        elif kind == "pruned":
            record.pruned = True
        elif kind == "ended" and checked_number(event["number"]) >= record.last.get("number", 0):
            strings = {key: str(event[key]) for key in ("cluster", "id")}
            record.last = {"number": event["number"], **strings, "row": valid_row(**event["row"])}
