"""Claims: files in a job's output folder that record the job's submissions, and how each of them ended."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import uuid
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from luigi_pai.api.clock import LATEST_MS
from luigi_pai.api.retries import Retry
from luigi_pai.hdfs.connection import missing_ok
from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError
from luigi_pai.hdfs.small_files import create_once, read_small, remove_once, tidy_beside, written_again

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.hdfs.client import WebHdfs

_FOLDER = "_luigi_pai"  # folder of the claims; Hadoop's own readers skip names that begin with an underscore
_LARGEST = 100_000  # bytes of a claim
_LONGEST = 200  # characters of a job's name in the names of its claim files
_HASH = 12
_MOST = 999_999_999  # largest number of a submission; it has at most nine digits in the name of a claim file
_RUNNING = "RUNNING"
_STOP_SENT = "STOPPING"
_START = re.compile(rf"{_RUNNING}-(\d{{1,9}})-(\d{{1,15}})")


@dataclass(frozen=True, slots=True)
class Claim:
    """A submission of a task's job, claimed before it is posted.

    Attributes:
        name: of the task's job.
        number: of the submission, from 1.
        job: name of the job on the server that runs the submission, alone or as an instance of an array.
        cluster: URL of the rest-server.
        user: who submitted it.
        claimed_ms: time of the claim in milliseconds since 1970 UTC, by the clock of the submitting machine.
        digest: of the job, see ``jobspec.comparison.job_digest``.
        token: distinguishes claims that are otherwise equal.
        runs_since: the number of retries by the cluster, and the time when the submission was first seen
            running after them, in ms since 1970 UTC. None if it was not seen running yet, or if the server
            sends the start time.
        stop_sent: whether a run that was interrupted has asked the server to stop the submission.
        state: final state of the submission, ``SUCCEEDED``, ``FAILED`` or ``STOPPED``; None if not known.
    """

    name: str
    number: int
    job: str
    cluster: str
    user: str
    claimed_ms: int
    digest: str
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    runs_since: tuple[int, int] | None = None
    stop_sent: bool = False
    state: str | None = None


class NotClaimed(HdfsError):
    """HDFS did not create the file of a claim, although it does not exist."""


class ClaimStore(Protocol):
    """The store of the claims of one task's job."""

    def last(self) -> Claim | None:
        """Return the claim of the last submission, with its final state if known; None if no claim exists."""
        ...

    def claim(self, claim: Claim) -> Claim:
        """Claim a submission; return ``claim``, or the earlier claim if the submission was claimed before."""
        ...

    def replace(self, claim: Claim) -> Claim:
        """Replace the stored claim of the same submission by ``claim``, and return ``claim``."""
        ...

    def release(self, claim: Claim) -> None:
        """Remove a claim whose job was certainly not submitted."""
        ...


class Claims:
    """The claims of one task's job, in ``OUTPUT_DIR/_luigi_pai``.

    ``NAME.N.json`` claims submission N. The file appears only when it is complete, and only one process can
    create it; another process that tries to create it reads it instead. Empty files record events:
    ``NAME.N.RUNNING-RETRIES-TIME`` is written when the job is first seen running, if its server does not
    send the start time, ``NAME.N.STOPPING`` when an interrupted run has asked the server to stop the job, and
    ``NAME.N.STATE`` when the job has ended.

    Args:
        fs: the file system.
        folder: the output folder.
        name: of the task's job.
    """

    def __init__(self, fs: WebHdfs, folder: str, name: str) -> None:
        self._fs = fs
        self._folder = f"{folder.rstrip('/')}/{_FOLDER}"
        self._name = name
        self._stem = name
        if len(name) > _LONGEST:
            self._stem = f"{name[:_LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:_HASH]}"
        self._file = re.compile(
            rf"{re.escape(self._stem)}\.(?P<number>[1-9]\d{{0,8}})\.(?P<what>[A-Za-z0-9-]+)"
        )

    def last(self) -> Claim | None:
        """Return the claim of the last submission, with its final state if known; None if no claim exists.

        Raises:
            HdfsError: HDFS failed, or the file of the claim contains something else.
        """
        numbers: dict[int, set[str]] = {}
        for name in self._names():
            found = self._file.fullmatch(name)
            if found is not None:
                numbers.setdefault(int(found["number"]), set()).add(found["what"])
        number = max((number for number, files in numbers.items() if "json" in files), default=0)
        if number == 0:
            return None
        claim = self._read(number)
        return None if claim is None else _with_events(claim, numbers[number])

    def claim(self, claim: Claim) -> Claim:
        """Claim a submission; return ``claim``, or the submission's earlier claim (with its state, if known).

        Raises:
            NotClaimed: the file of the claim was not created, although it does not exist. Another process may
                have released its claim in between.
            HdfsError: HDFS failed.
        """
        path = self._path(claim.number, "json")
        if create_once(self._fs, path, _text(claim)):
            return claim
        last = self.last()
        held = last if last is not None and last.number == claim.number else self._read(claim.number)
        if held is not None:
            return held
        raise NotClaimed(
            f"HDFS does not create {path}, although it does not exist, so job {claim.job} was not submitted; "
            "check that the NameNode of webhdfs_url in [OpenPai] works, and run the task again",
            operation="RENAME",
            path=path,
        )

    def replace(self, claim: Claim) -> Claim:
        """Replace the stored claim of the same submission by ``claim``, and return ``claim``."""
        with self._fs.open_writer(self._path(claim.number, "json")) as file:
            file.write(_text(claim))
        return claim

    def end(self, claim: Claim, state: str) -> Claim:
        """Record the final state of a submission, if it is not recorded; return the claim with this state."""
        self._add(claim, state)
        return replace(claim, state=state)

    def runs(self, claim: Claim, retries: int, moment: int) -> None:
        """Record when a submission was first seen running.

        Args:
            claim: of the submission.
            retries: number of retries by the cluster before ``moment``.
            moment: when it was first seen running, in milliseconds since 1970 UTC.
        """
        self._add(claim, f"{_RUNNING}-{retries}-{moment}")

    def stops(self, claim: Claim) -> None:
        """Record that the server was asked to stop a submission, whose end nobody may see."""
        self._add(claim, _STOP_SENT)

    def _add(self, claim: Claim, event: str) -> None:
        """Write an empty file beside a claim."""
        server, place = self._fs.at(self._path(claim.number, event))
        try:
            written_again(lambda: server.create_file(place, b""))
        except FileAlreadyExists:
            pass
        except HdfsError as error:
            if error.exception != "FileAlreadyExistsException":
                raise

    def release(self, claim: Claim) -> None:
        """Remove a claim whose job was certainly not submitted, and the folder if it is then empty."""
        remove_once(self._fs, self._path(claim.number, "json"))
        with contextlib.suppress(HdfsError):  # the folder contains other claims
            self._fs.remove(self._folder, recursive=False)

    def _path(self, number: int, what: str) -> str:
        return f"{self._folder}/{self._stem}.{number}.{what}"

    def _names(self) -> list[str]:
        server, place = self._fs.at(self._folder)
        with missing_ok():
            entries = server.list_status(place)
            tidy_beside(server, place, entries)
            return [entry["pathSuffix"] for entry in entries]
        return []

    def _read(self, number: int) -> Claim | None:
        path = self._path(number, "json")
        data = read_small(self._fs, path, _LARGEST)
        if data is None:
            return None
        try:
            return claim_of(json.loads(data), number)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise HdfsError(
                f"{path} is not the record of a submission, so it is not known whether the job was "
                "submitted; remove the file if its job does not run",
                operation="read",
                path=path,
            ) from None


def claim_once(store: ClaimStore, claim: Claim, api: RestApi, sleep: Callable[[float], None]) -> Claim:
    """Claim a submission; return ``claim``, or the earlier claim. Retry for ``poll_patience`` if NotClaimed.

    Raises:
        HdfsError: HDFS failed, or still does not create the claim.
    """
    retry = Retry(api.polling.patience, api.clock)
    while True:
        try:
            return store.claim(claim)
        except NotClaimed as error:
            sleep(retry.wait_after(error))


def _text(claim: Claim) -> bytes:
    fields = asdict(claim)
    del fields["state"], fields["runs_since"], fields["stop_sent"]
    return (json.dumps(fields, indent=2) + "\n").encode()


def _with_events(claim: Claim, files: Iterable[str]) -> Claim:
    """Return a claim with what the names of the event files next to it record."""
    starts = [(int(found[1]), -int(found[2])) for found in map(_START.fullmatch, files) if found]
    retries, moment = max(starts, default=(0, 0))
    states = sorted(what for what in files if what.isalpha() and what not in ("json", _STOP_SENT))
    return replace(
        claim,
        state=states[0] if states else None,
        stop_sent=_STOP_SENT in files,
        runs_since=(retries, -moment) if starts else None,
    )


def claim_of(fields: Mapping[str, Any], number: int) -> Claim:
    """Return the claim with these fields; raise an error if one is missing, or if a number is not valid."""
    claimed = int(fields["claimed_ms"])
    if not (0 < number <= _MOST and 0 <= claimed < LATEST_MS):
        raise ValueError(number, claimed)
    return Claim(
        name=str(fields["name"]),
        number=number,
        job=str(fields["job"]),
        cluster=str(fields["cluster"]),
        user=str(fields["user"]),
        claimed_ms=claimed,
        digest=str(fields["digest"]),
        token=str(fields["token"]),
    )
