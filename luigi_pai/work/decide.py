"""Decides the next step for a piece of work from what is known. Makes no requests and logs nothing.

``docs/running-again.md`` describes the decisions for users. ``tests/data/tasks/decisions.yaml`` has a row for
each case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.errors import PaiJobError, PaiJobForgotten, PaiWorkConflict

if TYPE_CHECKING:
    from luigi_pai.api.book.entries import Entry
    from luigi_pai.work.claims import Claim

_ON_ITS_WAY = 10.0  # how long after a claim its job may still be on its way to the server, in seconds
_DAYS_FROM = 72  # hours; messages give longer times in days


class RunsInArrayError(PaiJobError):
    """The work is a waiting or running instance of an array, or is claimed for an array."""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing to do: the work has succeeded.

    Attributes:
        entry: The submission. None if the server does not know it and the outputs show that it succeeded.
    """

    entry: Entry | None = None


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Watch the newest submission. If it has failed, the work fails.

    Attributes:
        entry: The submission.
    """

    entry: Entry


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit a job.

    Attributes:
        number: The number of the submission: 1 for NAME, 2 for NAME__attempt2, ...
        array: The array that the submission was claimed for and that is sent again; None if there is none.
        wait: How long an earlier claim's job may still take to arrive, in seconds; look it up again before
            you submit.
        reason: Why an earlier submission does not count, for the log; empty if there is nothing to say.
    """

    number: int
    array: str | None = None
    wait: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Raise an error: the work cannot continue.

    Attributes:
        error: The error, with the reason and the next step for the user.
    """

    error: PaiJobError


Decision = Done | TakeOver | Submit | Refuse


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that a decision depends on.

    Attributes:
        name: The work's name.
        kind: The work's ``MODULE.CLASS``.
        digest: The job's digest; None if it is unknown, so that nothing is compared.
        folder: The output folder.
        own_name: The server's name for the submission that ``claim`` or ``entry`` describes.
        entry: The newest submission; None if there is none.
        claim: The last claim; None if there is none, or if the decision does not need it.
        is_complete: Whether the outputs show that the work succeeded. Used only if the server does not know
            the submission.
        age: Seconds since the claim; 0 without a claim.
        retention: How long the server keeps a finished job, in seconds.
        cluster: The URL of the rest-server.
        section: The section of luigi.cfg, for messages.
        page: The URL of the entry's job page.
        on_forgotten: The setting with this name.
        is_durable: Whether claims are on the cluster, so that they outlive the server's copy of a job.
        is_final: Whether the newest submission, if it failed, is the last one allowed.
        shares_jobs: Whether the work may run as an instance of an array.
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
    """Return the next step."""
    entry = known.entry
    if entry is None:
        return Done() if known.is_complete else Submit(1)
    if entry.failed:
        return TakeOver(entry) if known.is_final else Submit(entry.number + 1)
    if entry.status is None and not known.is_complete:
        return _about_unknown(known, entry)
    if (conflict := other_work(known)) is not None:
        return Refuse(conflict)
    if entry.status is None or entry.succeeded:
        return Done(None if entry.status is None else entry)
    is_shared = entry.index is not None and not known.shares_jobs
    return Refuse(_part_of_array(known, entry)) if is_shared else TakeOver(entry)


def still_on_its_way(age: float) -> float:
    """Return how much longer a claim's job may be on its way to the server, in seconds.

    Args:
        age: The claim's age in seconds; negative if the clock of the machine that made it is ahead.
    """
    return max(0.0, _ON_ITS_WAY - age) if age >= 0 else 0.0


def is_same_class(kind: str, other: str) -> bool:
    """Return whether two ``MODULE.CLASS`` are one class; the package depends on where Python was started."""
    return kind.rsplit(".", 2)[-2:] == other.rsplit(".", 2)[-2:]


def _about_unknown(known: Situation, entry: Entry) -> Decision:
    """Decide about a submission that was recorded but that the server does not know."""
    claim = known.claim
    if entry.void or claim is None:
        return Submit(entry.number + 1)
    if not known.is_durable:  # the server does not know finished jobs, and may be a new one
        return _again(known, claim) if claim.state is None else Submit(1, wait=still_on_its_way(known.age))
    if claim.has_failed:
        return Submit(claim.number + 1)
    if claim.state is None and claim.cluster == known.cluster and known.age <= known.retention:
        return _again(known, claim)
    if known.on_forgotten == "submit":
        reason = (
            f"Job {claim.job} was submitted {_ago(known.age)} and the server no longer knows it; it is "
            "submitted again, because on_forgotten = submit"
        )
        return Submit(claim.number + 1, reason=reason)
    return Refuse(_forgotten(claim, known))


def _again(known: Situation, claim: Claim) -> Decision:
    """Decide about a claimed job that did not reach the server: send it again under the same name.

    If the first job arrives after all, the server accepts only one of the two.
    """
    wait = still_on_its_way(known.age)
    reason = (
        f"Job {claim.job} was claimed {_ago(known.age)}, but the server does not know it: it is submitted "
        "again"
    )
    if claim.job == known.own_name:
        return Submit(claim.number, wait=wait, reason=reason)
    if not known.shares_jobs:
        return Refuse(_claimed_for_array(known.name, claim.job))
    return Submit(claim.number, claim.job, wait, reason)


# the errors of work that cannot continue


def _part_of_array(known: Situation, entry: Entry) -> RunsInArrayError:
    """Return the error for work that is a waiting or running instance of an array."""
    return RunsInArrayError(
        f"job {known.name!r} was not submitted: it is {entry.known.raw_state} as a part of job "
        f"{entry.job!r}, which runs several points of a sweep ({known.page}); run the sweep, or run the task "
        "again when that job has ended",
        entry.job,
    )


def _claimed_for_array(name: str, array: str) -> RunsInArrayError:
    """Return the error for work that is claimed for an array that the server does not know."""
    return RunsInArrayError(
        f"job {name!r} was not submitted: it was claimed as a part of job {array!r}, which runs several "
        "points of a sweep and is not on the server; run the sweep again, which submits it",
        array,
    )


def _forgotten(claim: Claim, known: Situation) -> PaiJobForgotten:
    """Return the error for a submitted job that the server does not know."""
    end = "its result is not known"
    there = "" if claim.cluster == known.cluster else f" to {claim.cluster}"
    knows = "does not know" if there else "no longer knows"
    if claim.state is not None:
        end = f"its recorded state is {claim.state}, but the completion flag in its output folder is gone"
    accept = ""
    if known.folder is not None:
        from luigi_pai.config_file import cluster_option  # noqa: PLC0415  only an error needs it

        accept = (
            f"  output folder: {known.folder}\n"
            "  to accept its output as complete: "
            f"touch _SUCCESS && luigi-pai put{cluster_option(known.section)} _SUCCESS "
            f"'{known.folder}/_SUCCESS'\n"
        )
    return PaiJobForgotten(
        f"job {claim.job!r} was submitted{there} {_ago(known.age)} by {claim.user!r}, and {known.cluster} "
        f"{knows} it: {end}. Nothing was submitted\n{accept}"
        "  to run it again: run the task with --OpenPai-on-forgotten submit",
        claim.job,
    )


def other_work(known: Situation) -> PaiWorkConflict | None:
    """Return the error if the name's last claim is from other work, with another class and job."""
    claim = known.claim
    if claim is None or known.entry is None or claim.number != known.entry.number or not claim.task:
        return None
    if known.digest in (None, claim.digest) or is_same_class(claim.task, known.kind):
        return None
    return PaiWorkConflict(
        f"job {claim.job!r} was submitted by another task, {claim.task}, and {known.kind} has the same name "
        f"{known.name!r} but another job, so it does not get that job's result. Set name in one of them",
        claim.job,
    )


def _ago(seconds: float) -> str:
    """Return an age in words: ``3 hours ago``, ``5 days ago``."""
    hours = seconds / 3600
    if hours < _DAYS_FROM:
        return f"{hours:.0f} hours ago" if hours >= 1 else "less than an hour ago"
    return f"{hours / 24:.0f} days ago"
