"""Claims: small files that record each submission of a piece of work, and its final state."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from luigi_pai.api.clock import LATEST_MS
from luigi_pai.jobspec.names import is_array_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from luigi_pai.api.retries import Retry
    from luigi_pai.errors import PaiError

LARGEST = 100_000
"""Maximum number of bytes of a claim."""

_LONGEST = 200  # characters of a job's name in the names of its claim files
_LONGEST_TASK = 200  # characters
_HASH = 12
_MOST = 999_999_999  # largest submission number; a claim file's name has at most nine digits for it
_RUNNING = "RUNNING"
_STOP_SENT = "STOPPING"
_RELEASED = ("FAILED", "STOPPED")  # states after which a submission's outputs no longer count
_START = re.compile(rf"{_RUNNING}-(\d{{1,9}})-(\d{{1,15}})")
_FILE = re.compile(r"(?P<stem>.+)\.(?P<number>[1-9]\d{0,8})\.(?P<suffix>[A-Za-z0-9-]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Claim:
    """A submission of a task's job, claimed before it is posted.

    Attributes:
        name: The task's job's name.
        number: The submission's number, from 1.
        job: The name of the server's job that runs the submission, alone or as an instance of an array.
        cluster: The URL of the rest-server.
        user: The user who submitted it.
        claimed_ms: The time of the claim in ms since 1970 UTC, by the submitting machine's clock.
        digest: The job's digest, see ``jobspec.comparison.job_digest``.
        task: The work's ``MODULE.CLASS``; empty in claims from versions that did not record it.
        inputs: See ``Work.inputs``; empty in claims from versions that did not record them.
        token: Distinguishes claims that are otherwise equal.
        runs_since: How many times the cluster retried the submission, and when it was first seen running
            after that, in ms since 1970 UTC. None if it has not been seen running yet, or if the server
            sends the start time.
        stop_sent: Whether an interrupted run asked the server to stop the submission.
        state: The submission's final state, ``SUCCEEDED``, ``FAILED`` or ``STOPPED``; None if unknown.
    """

    name: str
    number: int
    job: str
    cluster: str
    user: str
    claimed_ms: int
    digest: str
    task: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    token: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    runs_since: tuple[int, int] | None = None
    stop_sent: bool = False
    state: str | None = None

    @property
    def has_failed(self) -> bool:
        """Whether it failed or was stopped, or an interrupted run asked the server to stop it."""
        return self.state in _RELEASED or (self.state is None and self.stop_sent)


class ClaimFolder(Protocol):
    """A folder of claims. On every file system, its claims follow the rules in ``Claims``."""

    where: str
    """The folder, as named in messages."""

    def names(self) -> list[str]:
        """Return the names of the files; an empty list if the folder does not exist."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""

    def create_once(self, name: str, data: bytes, *, is_needed: bool) -> bool:
        """Create a file; return False if it exists. If several processes create it, at most one gets True.

        The file is complete as soon as other processes can see it.

        Args:
            name: The file's name.
            data: The file's content.
            is_needed: Whether nothing else prevents a second submission. The server rejects a second job with
                the same name, but it does not know an array's points.

        Raises:
            NotClaimed: The file is needed, and cannot be created now.
        """

    def replace(self, name: str, data: bytes) -> None:
        """Write a file; if it exists, replace it atomically."""

    def add(self, name: str) -> None:
        """Create an empty file, unless it exists."""

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""

    def failed(self, name: str, problem: str, step: str = "") -> PaiError:
        """Return an error about a file.

        Args:
            name: The file's name.
            problem: The problem; in the message, it follows the file's path.
            step: The next step for the user; by default, to check the folder's file system.
        """


class NotClaimed(Exception):
    """A claim's file was not created, although it does not exist.

    Another process may have just released its claim, or the disk may be full.

    Attributes:
        error: The error to raise if the claim still cannot be created.
    """

    def __init__(self, error: PaiError) -> None:
        super().__init__(str(error))
        self.error = error


class Claims:
    """One piece of work's claims in a folder, which may also contain other work's claims.

    ``NAME.N.json`` claims submission N. The file becomes visible only when it is complete, and only one
    process can create it; any other process reads it instead. Empty files record events:
    ``NAME.N.RUNNING-RETRIES-TIME`` is written when the job is first seen running, if its server does not
    send the start time, ``NAME.N.STOPPING`` when an interrupted run asks the server to stop the job, and
    ``NAME.N.STATE`` when the job has ended.

    Each method raises PaiError if the folder cannot be read or written, or if a claim's file has other
    content.

    Args:
        folder: The folder.
        name: The work's name.

    Attributes:
        where: The folder, as named in messages.
    """

    def __init__(self, folder: ClaimFolder, name: str) -> None:
        self._folder = folder
        self.where = folder.where
        self._stem = name
        if len(name) > _LONGEST:
            self._stem = f"{name[:_LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:_HASH]}"
        self._listed: dict[str, dict[int, set[str]]] | None = None
        self._made: Claim | None = None  # the last claim that this object wrote and did not release

    def last(self) -> Claim | None:
        """Return the last submission's claim, with its final state if known; None if there is no claim.

        A claim that this object wrote is not read again.
        """
        self._listed = None
        return self.last_of(self._stem)

    def others(self) -> list[str]:
        """Return other work with claims in the folder, unless its last submission failed or was stopped.

        Each of them therefore either succeeded or has no recorded final state. The names are file names,
        which end in a hash if the work's name is long; ``last_of`` returns the claim. Uses the listing that
        ``last()`` made.
        """
        return sorted(
            stem
            for stem, found in self._files().items()
            if stem != self._stem and (newest := _newest(found)) and not found[newest].intersection(_RELEASED)
        )

    def last_of(self, stem: str) -> Claim | None:
        """Return the last claim of a piece of work from ``others()``; None if the claim was removed."""
        numbers = self._files().get(stem, {})
        number = _newest(numbers)
        if number == 0:
            return None
        mine = self._made
        is_mine = mine is not None and stem == self._stem and mine.number == number
        claim = mine if is_mine else self._read(stem, number)
        return None if claim is None else _with_events(claim, numbers[number])

    def claim(self, claim: Claim) -> Claim:
        """Claim a submission; return ``claim``, or the submission's earlier claim (with its state, if known).

        Raises:
            NotClaimed: Neither this process nor another one claimed the submission.
        """
        name = self._file(claim, "json")
        self._made = None
        if self._folder.create_once(name, _serialized(claim), is_needed=is_array_name(claim.job)):
            self._made = claim
            return claim
        last = self.last()
        is_last = last is not None and last.number == claim.number
        held = last if is_last else self._read(self._stem, claim.number)
        if held is None:
            problem = f"was not created, although it does not exist, so job {claim.job} was not submitted"
            raise NotClaimed(self._folder.failed(name, problem))
        return held

    def replace(self, claim: Claim) -> Claim:
        """Replace the stored claim of the same submission with ``claim``, and return ``claim``."""
        self._folder.replace(self._file(claim, "json"), _serialized(claim))
        self._made = claim
        return claim

    def end(self, claim: Claim, state: str) -> Claim:
        """Record a submission's final state if not recorded yet; return the claim with this state."""
        self._folder.add(self._file(claim, state))
        return replace(claim, state=state)

    def runs(self, claim: Claim, retries: int, moment: int) -> None:
        """Record the time, in milliseconds since 1970 UTC, when a submission was first seen running."""
        self._folder.add(self._file(claim, f"{_RUNNING}-{retries}-{moment}"))

    def stops(self, claim: Claim) -> None:
        """Record that the server was asked to stop a submission, in case no process sees its end."""
        self._folder.add(self._file(claim, _STOP_SENT))

    def release(self, claim: Claim) -> None:
        """Remove a claim whose job was certainly not submitted."""
        self._made = None
        self._folder.remove(self._file(claim, "json"))

    def _file(self, claim: Claim, suffix: str) -> str:
        return f"{self._stem}.{claim.number}.{suffix}"

    def _files(self) -> dict[str, dict[int, set[str]]]:
        """Return stem -> submission number -> suffixes of its files, from one listing."""
        if self._listed is None:
            listed: dict[str, dict[int, set[str]]] = {}
            for found in filter(None, map(_FILE.fullmatch, self._folder.names())):
                if found["stem"] != self._stem and found["stem"].startswith("."):  # hidden, so not a claim
                    continue
                numbers = listed.setdefault(found["stem"], {})
                numbers.setdefault(int(found["number"]), set()).add(found["suffix"])
            self._listed = listed
        return self._listed

    def _read(self, stem: str, number: int) -> Claim | None:
        name = f"{stem}.{number}.json"
        data = self._folder.read(name)
        if data is None:
            return None
        try:
            return claim_of(json.loads(data), number)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            problem = "is not the record of a submission, so it is unknown whether the job was submitted"
            step = "remove the file if its job is not running"
            raise self._folder.failed(name, problem, step) from None


def claim_once(claims: Claims, claim: Claim, retry: Retry, sleep: Callable[[float], None]) -> Claim:
    """Claim a submission; return ``claim``, or the earlier claim. Retry after NotClaimed.

    Raises:
        PaiError: The folder cannot be read or written, or still does not create the claim.
    """
    while True:
        try:
            return claims.claim(claim)
        except NotClaimed as refusal:
            error = refusal.error
        sleep(retry.wait_after(error))


def _newest(numbers: Mapping[int, set[str]]) -> int:
    """Return the last claimed submission's number; 0 if there is no claim."""
    return max((number for number, files in numbers.items() if "json" in files), default=0)


def _serialized(claim: Claim) -> bytes:
    fields = {key: value for key, value in asdict(claim).items() if value or key not in ("task", "inputs")}
    del fields["state"], fields["runs_since"], fields["stop_sent"]
    return (json.dumps(fields, indent=2) + "\n").encode()


def _with_events(claim: Claim, files: Iterable[str]) -> Claim:
    """Return a claim with the events that its event files' names record."""
    starts = [(int(found[1]), -int(found[2])) for found in map(_START.fullmatch, files) if found]
    retries, moment = max(starts, default=(0, 0))
    states = sorted(suffix for suffix in files if suffix.isalpha() and suffix not in ("json", _STOP_SENT))
    return replace(
        claim,
        state=states[0] if states else None,
        stop_sent=_STOP_SENT in files,
        runs_since=(retries, -moment) if starts else None,
    )


def claim_of(fields: Mapping[str, Any], number: int) -> Claim:
    """Return the claim with these fields; raise an error if one is missing or invalid."""
    claimed, task = int(fields["claimed_ms"]), fields.get("task", "")
    if not (0 < number <= _MOST and 0 <= claimed < LATEST_MS):
        raise ValueError(number, claimed)
    if not isinstance(task, str) or len(task) > _LONGEST_TASK:
        raise ValueError(task)
    return Claim(
        name=str(fields["name"]),
        number=number,
        job=str(fields["job"]),
        cluster=str(fields["cluster"]),
        user=str(fields["user"]),
        claimed_ms=claimed,
        digest=str(fields["digest"]),
        token=str(fields["token"]),
        task=task,
        inputs=dict(fields.get("inputs") or {}),
    )
