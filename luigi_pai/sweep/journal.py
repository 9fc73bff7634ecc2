"""Journal: what has happened in a sweep, a line of JSON for each event; its state is read from it.

``journal.jsonl`` in the folder of the sweep's results::

    {"event": "run", "sweep": "Study", "file": "study.py", "at": 1700000000000}
    {"event": "asked", "point": "train_1", "family": "Train", "parameters": {"rate": "0.1"}, "note": null}
    {"event": "begun", "point": "train_1", "claim": {"number": 1, "job": "train_1", ...}}
    {"event": "released", "point": "train_1", "number": 1}
    {"event": "pruned", "point": "train_1", "job": "train_1"}
    {"event": "ended", "point": "train_1", "row": {"state": "SUCCEEDED", ...}, "cluster": "http://..."}
    {"event": "told", "point": "train_1"}
    {"event": "retry", "points": ["train_1"]}
    {"event": "over", "complete": true, "budget": 20}

Events that lead to an act are written before it. Each write begins with a line break, so that a line whose
writer was killed spoils no other. Local files are appended to under a lock. On HDFS a file has one writer at
a time: who cannot append begins ``journal.2.jsonl``, and so on; all of them are the journal.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.errors import PaiError
from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError
from luigi_pai.sweep.results import is_on_hdfs
from luigi_pai.tasks.claims import Claim, claim_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from luigi_pai.api.clock import Clock

__all__ = ["Journal", "JournalClaims", "Record", "retried"]

logger = logging.getLogger("luigi-interface")

T = TypeVar("T")

_LARGEST = 500_000_000  # bytes
_MOST_FILES = 1000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0  # seconds
_GOOD = ("SUCCEEDED", "PRUNED")
_TAKEN = ("AlreadyBeingCreatedException", "FileAlreadyExistsException", "RecoveryInProgressException")


@dataclass(slots=True)
class Record:
    """What the journal says of a point.

    Attributes:
        claim: of its last submission; None before the first.
        made: numbers of the submissions that the current run of the sweep has begun.
        row: its end, see ``Row``; None before.
        cluster: URL of the rest-server that the end is from.
        pruned: its job is being, or was, stopped because the point is not kept.
        asked: the event in which a search proposed it, without its name; None in other sweeps.
        told: the search was told of its end.
    """

    claim: Claim | None = None
    made: tuple[int, ...] = ()
    row: dict[str, Any] | None = None
    cluster: str = ""
    pruned: bool = False
    asked: dict[str, Any] | None = None
    told: bool = False

    @property
    def is_good(self) -> bool:
        """Whether the point has succeeded, or was pruned."""
        return self.row is not None and self.row["state"] in _GOOD


@dataclass
class Journal:
    """The journal of a sweep.

    Args:
        folder: of the sweep's results, on HDFS or local.
        clock: for the times of runs.

    Attributes:
        records: by the names of points.
        history: in their order, the points that a search has asked for and was told of: event and name.
        info: the last event ``run``; empty before the first.
        over: the last run has ended, and not by a kill.
        complete: it has ended as it should.
        budget: how many points the search was to propose then.
        asked: names of points that a search has asked for, in their order.
    """

    folder: str
    clock: Clock
    records: dict[str, Record] = field(default_factory=dict)
    history: list[tuple[str, str]] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    over: bool = True
    complete: bool = False
    budget: int = 0

    def __post_init__(self) -> None:
        path = f"{self.folder.rstrip('/')}/journal"
        on_hdfs = is_on_hdfs(self.folder)
        self._files = _HdfsFiles(path) if on_hdfs else _LocalFile(Path(f"{path}.jsonl"))
        self._path = path
        self._unwritten: list[bytes] = []
        self._lock = threading.RLock()

    @property
    def asked(self) -> list[str]:
        """Names of the points that a search has asked for, in their order."""
        return [name for event, name in self.history if event == "asked"]

    def read(self) -> Journal:
        """Read what was written since the last call; return the journal.

        Raises:
            HdfsError, OSError: the file cannot be read.
            ValueError: it is no journal.
        """
        with self._lock:
            data = self._files.read()
            if data.strip() and not self._take(data) and not self.info:
                raise ValueError(
                    f"{self._path}.jsonl is not the journal of a sweep; move it away, and run the sweep again"
                )
        return self

    def _take(self, data: bytes) -> int:
        """Apply lines that were read, and return how many of them are events."""
        events = 0
        for line in data.split(b"\n"):
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                if line.strip():  # a line that was cut by a kill is no event
                    self._apply(json.loads(line))
                    events += 1
        return events

    def of(self, name: str) -> Record:
        """Return what is known of a point."""
        return self.records.setdefault(name, Record())

    def write(self, *events: Mapping[str, Any]) -> None:
        """Write events, after those that were noted.

        Raises:
            HdfsError, OSError: they could not be written; the next call tries again.
        """
        self.note(*events)
        self.flush()

    def note(self, *events: Mapping[str, Any]) -> None:
        """Take events that need not be written before anything else is done."""
        with self._lock:
            for event in events:
                self._unwritten.append(json.dumps(event, default=str).encode())
                self._apply(event)

    def flush(self) -> None:
        """Write the events that were noted; errors as ``write``."""
        with self._lock:
            if self._unwritten:
                others = self._files.append(b"".join(b"\n" + line for line in self._unwritten) + b"\n")
                self._unwritten.clear()
                self._take(others)

    def begin(self, claim: Claim) -> Claim:
        """Write the claim of a submission, unless there is one; return the one that holds.

        On a local file system one of several processes gets it. Errors as ``write``.
        """
        with self._lock, self._files.locked():
            self.read()
            known = self.of(claim.name).claim
            if known is not None and known.number == claim.number:
                return known
            self.write({"event": "begun", "point": claim.name, "claim": asdict(claim)})
        return claim

    def start(self, name: str, file: str) -> None:
        """Begin a run: after one that is over, failed points have all their attempts again."""
        at = int(self.clock.time() * 1000)
        self.write({"event": "run", "sweep": name, "file": file, "at": at, "anew": self.over})

    def is_complete(self, names: Iterable[str], allowed: int) -> bool:
        """Return whether points have ended, and no more of them than allowed have failed."""
        records = [self.records.get(name) for name in names]
        ended = [record for record in records if record is not None and record.row is not None]
        return len(ended) == len(records) and sum(not record.is_good for record in ended) <= allowed

    def _apply(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "run":
            self.info, self.over, self.complete = dict(event), False, False
            for record in self.records.values() if event.get("anew") else ():
                record.made = ()
                if not record.is_good:
                    record.row = None
        elif kind == "over":
            self.over, self.complete = True, bool(event["complete"])
            self.budget = int(event.get("budget", 0))
        elif kind == "retry":
            self.over = self.over and not event["points"]
            for name in event["points"]:
                self.of(name).row, self.of(name).made = None, ()
        else:
            self._apply_to(self.of(event["point"]), kind, event)

    def _apply_to(self, record: Record, kind: str, event: Mapping[str, Any]) -> None:
        if kind in ("asked", "told"):
            if record.told if kind == "told" else record.asked is not None:
                return
            self.history.append((kind, event["point"]))
            if kind == "asked":
                record.asked = {key: event[key] for key in ("family", "parameters", "note")}
            else:
                record.told = True
        elif kind == "begun":
            claim = event["claim"]
            record.claim = claim_of({"name": event["point"], **claim}, claim["number"])
            record.made = tuple(dict.fromkeys((*record.made, record.claim.number)))
            record.row = None
        elif kind == "released":
            record.made = tuple(number for number in record.made if number != event["number"])
            if record.claim is not None and record.claim.number == event["number"]:
                record.claim = None
        elif kind == "pruned":
            record.pruned = True
        elif kind == "ended":
            record.row, record.cluster = dict(event["row"]), str(event["cluster"])


def retried(act: Callable[[], T], clock: Clock, limit: float) -> T:
    """Call a function until HDFS does what it asks for, and return its result.

    Args:
        act: the function.
        clock: waits.
        limit: seconds after which the last transient error is raised; other errors are raised at once.
    """
    since, pause = clock.monotonic(), _FIRST_PAUSE
    while True:
        try:
            return act()
        except HdfsError as error:
            if not error.transient or clock.monotonic() - since >= limit:
                raise
            if pause == _FIRST_PAUSE:
                logger.warning("%s (retrying for up to %.0f s)", error, limit)
        clock.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


class JournalClaims:
    """The claims of one point, in the journal of its sweep; for a point whose output is not on HDFS.

    See ``tasks.claims.Claims``.
    """

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal = journal
        self._name = name

    def last(self) -> Claim | None:
        """Return the claim of the last submission; None if there is none."""
        return self._journal.of(self._name).claim

    def claim(self, claim: Claim) -> Claim:
        """Claim a submission, and return the claim that holds."""
        return self._journal.begin(claim)

    def replace(self, claim: Claim) -> Claim:
        """Put a claim in place of the one that is there, and return it."""
        self._journal.write({"event": "begun", "point": self._name, "claim": asdict(claim)})
        return claim

    def end(self, claim: Claim, state: str) -> Claim:
        """Return the claim: ends are in the journal as those of points."""
        del state
        return claim

    def release(self, claim: Claim) -> None:
        """Give a claim back: the job was certainly not submitted."""
        self.release_void(claim.number)

    def release_void(self, number: int) -> None:
        """Record that a submission never runs, so that it is none of those that the point may have."""
        if number in self._journal.of(self._name).made:
            self._journal.write({"event": "released", "point": self._name, "number": number})


class _LocalFile:
    """A journal in a local folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._held: Any = None  # the file, while it is locked

    def read(self) -> bytes:
        """Return what was written since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(_LARGEST)
        except FileNotFoundError:
            return b""
        whole = data[: data.rfind(b"\n") + 1]  # the rest is being written, or never will be
        self._offset += len(whole)
        return whole

    def append(self, data: bytes) -> bytes:
        """Append, and return what others have written before since the last call."""
        with self.locked():
            others = self.read()
            self._held.write(data)
            self._held.flush()
            self._offset = self._held.tell()
        return others

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from appending."""
        if self._held is not None:
            yield
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
            self._held = file
            try:
                yield
            finally:
                self._held = None


class _HdfsFiles:
    """A journal in a folder on HDFS."""

    def __init__(self, path: str) -> None:
        self._stem = path
        self._number = 1
        self._sizes: dict[int, int] = {}

    def read(self) -> bytes:
        from luigi_pai.hdfs.small_files import read_small  # noqa: PLC0415  costs what only HDFS needs

        parts = []
        for number in range(1, _MOST_FILES):
            data = read_small(self._fs, self._path(number), _LARGEST)
            if data is None:
                break
            parts.append(data[self._sizes.get(number, 0) :])
            self._sizes[number], self._number = len(data), number
        return b"\n".join(parts)

    def append(self, data: bytes) -> bytes:
        for _ in range(_MOST_FILES):
            path = self._path(self._number)
            server, place = self._fs.at(path)
            try:
                if self._number in self._sizes:
                    server.append_file(place, data)
                else:
                    server.create_file(place, data, overwrite=False)
            except HdfsError as error:
                if not isinstance(error, FileAlreadyExists) and error.exception not in _TAKEN:
                    raise
                self._number += 1
            else:
                self._sizes[self._number] = self._sizes.get(self._number, 0) + len(data)
                return b""
        raise PaiError(
            f"{self._stem}.jsonl has more than {_MOST_FILES} parts; remove the folder, or choose another"
        )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Do nothing: HDFS has no locks. Claims are files of their own there."""
        yield

    @property
    def _fs(self) -> Any:
        from luigi_pai.hdfs import WebHdfs  # noqa: PLC0415  as above

        return WebHdfs.from_config()

    def _path(self, number: int) -> str:
        return f"{self._stem}.jsonl" if number == 1 else f"{self._stem}.{number}.jsonl"
