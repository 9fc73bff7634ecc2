"""Decides what is to be done about a piece of work, from what is known of it. It asks and logs nothing.

``docs/running-again.md`` describes the decisions for users; ``tests/work/test_decide.py`` has a row for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.api.status import JobState
from luigi_pai.work.refusals import ago, claimed_for_array, forgotten, other_work, part_of_array

if TYPE_CHECKING:
    from luigi_pai.api.book.entries import Entry
    from luigi_pai.errors import PaiJobError
    from luigi_pai.work.claims import Claim

_WITHOUT_RESULT = (JobState.FAILED.value, JobState.STOPPED.value)

_ON_ITS_WAY = 10.0  # seconds after a claim in which its job may still be on its way to the server


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is to be done: the work has succeeded.

    Attributes:
        entry: its submission; None if the server does not know it, and the outputs show the success.
    """

    entry: Entry | None = None


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The newest submission is to be watched; if it has failed, its failure is the end of the work.

    Attributes:
        entry: the submission.
    """

    entry: Entry


@dataclass(frozen=True, slots=True)
class Submit:
    """A job is to be submitted.

    Attributes:
        number: of the submission: 1 for NAME, 2 for NAME__attempt2, ...
        array: the array that the submission was claimed for, and that is to be sent again; None for none.
        wait: seconds in which the job of an earlier claim may still arrive; look it up again before.
        reason: why an earlier submission does not count, for the log; empty if there is nothing to say.
    """

    number: int
    array: str | None = None
    wait: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The work cannot go on.

    Attributes:
        error: says why, and what to do.
    """

    error: PaiJobError


Decision = Done | TakeOver | Submit | Refuse


@dataclass(frozen=True, slots=True)
class Situation:
    """What a decision depends on.

    Attributes:
        name: of the work.
        kind: ``MODULE.CLASS`` of the work.
        digest: of its job; None if it is not known, and nothing is compared.
        folder: its output folder.
        own_name: the name on the server of the submission that ``claim`` or ``entry`` is about.
        entry: the newest submission; None if there is none.
        claim: the last claim; None if there is none, or if it is not needed for the decision.
        is_complete: whether the outputs show that the work has succeeded; it counts if the server does not
            know the submission.
        age: seconds since the claim; 0 without a claim.
        retention: seconds for which the server keeps an ended job.
        cluster: URL of the rest-server.
        section: of luigi.cfg, for messages.
        page: URL of the page of the entry's job.
        on_forgotten: the setting.
        is_durable: whether claims outlive the server's memory of a job, as they do on the cluster.
        is_final: whether a failed newest submission is the last one that is allowed.
        shares_jobs: whether the work may run as an instance of an array.
    """

    name: str
    kind: str = ""
    digest: str | None = None
    folder: str | None = None
    own_name: str = ""
    entry: Entry | None = None
    claim: Claim | None = None
    is_complete: bool = False
    age: float = 0.0
    retention: float = 0.0
    cluster: str = ""
    section: str = "OpenPai"
    page: str = ""
    on_forgotten: str = "fail"
    is_durable: bool = True
    is_final: bool = False
    shares_jobs: bool = False


def decide(known: Situation) -> Decision:
    """Return what is to be done."""
    entry = known.entry
    if entry is None:
        return Done() if known.is_complete else Submit(1)
    if entry.failed:
        return TakeOver(entry) if known.is_final else Submit(entry.number + 1)
    if entry.status is None and not known.is_complete:
        return _about_unknown(known, entry)
    if is_other_work(known):
        return Refuse(other_work(known))
    if entry.status is None or entry.succeeded:
        return Done(None if entry.status is None else entry)
    is_shared = entry.index is not None and not known.shares_jobs
    return Refuse(part_of_array(known.name, entry, known.page)) if is_shared else TakeOver(entry)


def still_on_its_way(age: float) -> float:
    """Return for how many more seconds the job of a claim may be on its way to the server.

    Args:
        age: of the claim in seconds; negative if the clock of the machine that made it is ahead.
    """
    return max(0.0, _ON_ITS_WAY - age) if age >= 0 else 0.0


def is_other_work(known: Situation) -> bool:
    """Return whether the last claim is of other work with the same name: another class, and another job."""
    claim = known.claim
    if claim is None or known.entry is None or claim.number != known.entry.number or not claim.task:
        return False
    return known.digest not in (None, claim.digest) and not is_same_class(claim.task, known.kind)


def is_same_class(kind: str, other: str) -> bool:
    """Return whether two ``MODULE.CLASS`` are of one class; packages depend on where Python was started."""
    return kind.rsplit(".", 2)[-2:] == other.rsplit(".", 2)[-2:]


def _about_unknown(known: Situation, entry: Entry) -> Decision:
    """Decide about a submission that was recorded, and that the server does not know."""
    claim = known.claim
    if entry.void or claim is None:
        return Submit(entry.number + 1)
    if not known.is_durable:  # what has ended is not known to the server, which may be a new one
        return _again(known, claim) if claim.state is None else Submit(1, wait=still_on_its_way(known.age))
    if claim.state in _WITHOUT_RESULT or (claim.state is None and claim.stop_sent):
        return Submit(claim.number + 1)
    if claim.state is None and claim.cluster == known.cluster and known.age <= known.retention:
        return _again(known, claim)
    if known.on_forgotten == "submit":
        text = f"Job {claim.job} was submitted {ago(known.age)} and the server no longer knows it"
        return Submit(
            claim.number + 1, reason=f"{text}; it is submitted again, because on_forgotten = submit"
        )
    return Refuse(forgotten(claim, known))


def _again(known: Situation, claim: Claim) -> Decision:
    """Decide about a claimed job that has not reached the server: it is sent again under the same name.

    If the first one arrives after all, the server accepts only one of the two.
    """
    wait = still_on_its_way(known.age)
    reason = (
        f"Job {claim.job} was claimed {ago(known.age)}, but the server does not know it: it is submitted "
        "again"
    )
    if claim.job == known.own_name:
        return Submit(claim.number, wait=wait, reason=reason)
    if not known.shares_jobs:
        return Refuse(claimed_for_array(known.name, claim.job))
    return Submit(claim.number, claim.job, wait, reason)
