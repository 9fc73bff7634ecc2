"""Updates of watched jobs, as ``Watcher`` returns them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from luigi_pai.api.deadlines import Deadline
    from luigi_pai.api.status import JobStatus
    from luigi_pai.errors import PaiApiError


class Outcome(Enum):
    """The kinds of updates.

    Attributes:
        CHANGED: the status has changed, the job continues.
        ENDED: the job has ended.
        LOST: the server has not known the job for a minute.
        REFUSED: its lookup failed for good; only of a watcher with ``isolated``.
    """

    CHANGED = "changed"
    ENDED = "ended"
    LOST = "lost"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Update:
    """An update of a watched job.

    Attributes:
        name: of the job.
        status: its current status; the last known one if it is lost or refused. A status from a list has no
            tasks and no diagnostics; that of a job that has failed or was stopped is never from a list.
        outcome: the kind of update.
        missed: the deadline for which the job is being, or was, stopped.
        error: why its lookup failed for good.
    """

    name: str
    status: JobStatus
    outcome: Outcome
    missed: Deadline | None = None
    error: PaiApiError | None = None
