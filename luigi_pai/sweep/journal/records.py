"""Record: a point's state, which results from the events in a sweep's journal.

Others may be able to write the journal, so its values are checked where they are read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from luigi_pai.api.clock import LATEST_MS
from luigi_pai.sweep.rows import Row, bounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.work.claims import Claim

_ENDED = ("SUCCEEDED", "FAILED", "STOPPED", "PRUNED")
LARGEST = 1_000_000_000
"""The largest number of a run or a submission."""

_LONGEST_PATH = 4096  # characters
_LONGEST = 10_000  # characters of a string in a row


class Asked(NamedTuple):
    """A point's "asked" event.

    Attributes:
        place: The journal's path and the line number; empty if this run wrote the event.
        family: The name of the class of the point's task.
        parameters: The task's parameters: name -> string.
    """

    place: str
    family: str
    parameters: Mapping[str, str]


@dataclass(slots=True)
class Record:
    """A point's state in the journal.

    Attributes:
        claim: Its last submission's claim; None if there is no claim.
        begun: Its submissions' numbers.
        before: The number of its newest submission when the latest "again" gave it new attempts; 0 if none
            did.
        last: The fields of the last "ended" event; empty before the first.
        void: The ids of ends that no longer count.
        pruned: Whether ``keep()`` returned False, so that the point's job was or will be stopped.
        asked: The "asked" event; None if no search proposed the point.
        told: Whether ``tell`` was called with its end.
    """

    claim: Claim | None = None
    begun: tuple[int, ...] = ()
    before: int = 0
    last: Mapping[str, Any] = field(default_factory=dict)
    void: tuple[str, ...] = ()
    pruned: bool = False
    asked: Asked | None = None
    told: bool = False

    @property
    def row(self) -> Row | None:
        """The row with its end; None if its newest submission has no valid end."""
        if not self.last or self.last["id"] in self.void:
            return None
        is_last = self.claim is None or self.claim.number <= self.last["number"]
        row: Row = self.last["row"]
        return row if is_last else None

    @property
    def cluster(self) -> str:
        """URL of the finished job's rest-server; empty if the end does not count yet."""
        return str(self.last.get("cluster", ""))

    @property
    def made(self) -> tuple[int, ...]:
        """Numbers of its submissions since "again" last gave it new attempts."""
        return tuple(number for number in self.begun if number > self.before)

    def is_final(self, number: int, most: int) -> bool:
        """Return whether a failed submission is the last of the ``most`` allowed submissions.

        It is not the last if another process that runs the sweep started a later submission.
        """
        return len(self.made) >= most and number >= max(self.made)

    @property
    def is_good(self) -> bool:
        """Whether the point succeeded or was pruned."""
        return self.row is not None and self.row.is_good


def valid_row(**fields: Any) -> Row:
    """Return the row for an end, truncated to a row's limits; raise an error if a field is invalid."""
    row = Row(**fields)
    strings = {key: getattr(row, key) for key in ("job", "page", "error")}
    is_finite = row.seconds is None or math.isfinite(row.seconds)
    is_valid = row.state in _ENDED and all(isinstance(string, str) for string in strings.values())
    if not (is_valid and isinstance(row.result, dict) and is_finite):
        raise ValueError(row.state)
    kept, _ = bounded(row.result)
    return replace(row, result=kept, **{key: string[:_LONGEST] for key, string in strings.items()})


def valid_asked(place: str, family: Any, parameters: Any) -> Asked:
    """Return the event for a proposed point; raise ValueError if a field has an invalid type."""
    if not isinstance(family, str) or not all(isinstance(value, str) for value in parameters.values()):
        raise ValueError(family)
    return Asked(place, family, parameters)


def run_of(event: Mapping[str, Any]) -> list[Any]:
    """Return a run's number and token."""
    number, token = event.get("run", (0, ""))
    return [int(number), str(token)]


def checked_number(number: Any) -> int:
    """Return the number of a run or a submission; raise ValueError if it is not one."""
    if not (isinstance(number, int) and 0 <= number <= LARGEST):
        raise ValueError(number)
    return number


def check_run(event: Mapping[str, Any]) -> None:
    """Raise ValueError or TypeError if the fields of a "run" event are invalid."""
    strings, start_ms = (event["sweep"], event["file"]), event["at"]
    is_named = all(isinstance(string, str) and len(string) <= _LONGEST_PATH for string in strings)
    if not (is_named and isinstance(start_ms, int) and 0 <= start_ms < LATEST_MS):
        raise ValueError(event)
    checked_number(run_of(event)[0])
