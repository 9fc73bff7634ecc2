"""Errors about work that cannot go on: forgotten, in an array, in another folder, or other work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.errors import PaiJobError, PaiJobForgotten, PaiOutputElsewhere, PaiWorkConflict

if TYPE_CHECKING:
    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.status import JobStatus
    from luigi_pai.work.claims import Claim
    from luigi_pai.work.decide import Situation
    from luigi_pai.work.piece import Work

_DAYS_FROM = 72  # hours; longer times are given in days


class RunsInArrayError(PaiJobError):
    """The work is a waiting or running instance of an array, or is claimed for an array."""


def part_of_array(name: str, entry: Entry, page: str) -> RunsInArrayError:
    """Return the error for work that waits or runs as an instance of an array."""
    return RunsInArrayError(
        f"job {name!r} was not submitted: it is {entry.known.raw_state} as a part of job {entry.job!r}, "
        f"which has several points of a sweep ({page}); run the sweep, or run the task again when that job "
        "has ended",
        entry.job,
    )


def claimed_for_array(name: str, array: str) -> RunsInArrayError:
    """Return the error for work that is claimed for an array which the server does not know."""
    return RunsInArrayError(
        f"job {name!r} was not submitted: it was claimed as a part of job {array!r}, which has several "
        "points of a sweep and is not on the server; run the sweep again, which submits it",
        array,
    )


def forgotten(claim: Claim, known: Situation) -> PaiJobForgotten:
    """Return the error for a job that was submitted, and that the server does not know."""
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
        f"job {claim.job!r} was submitted{there} {ago(known.age)} by {claim.user!r}, and {known.cluster} "
        f"{knows} it: {end}. Nothing was submitted\n{accept}"
        "  to run it again: run the task with --OpenPai-on-forgotten submit",
        claim.job,
    )


def other_work(known: Situation) -> PaiWorkConflict:
    """Return the error for a name that other work has used."""
    claim = known.claim
    assert claim is not None
    return PaiWorkConflict(
        f"job {claim.job!r} was submitted by another task, {claim.task}, and {known.kind} has the same name "
        f"{known.name!r} and another job; it does not get the result of the other. Set name in one of them",
        claim.job,
    )


def other_work_in_folder(work: Work, other: Claim, where: str) -> PaiWorkConflict:
    """Return the error for an output folder that other work has used, whose claims are in ``where``."""
    whose = f"job {other.name!r}" + (f" of {other.task}" if other.task else "")
    return PaiWorkConflict(
        f"job {work.name!r} of {work.kind} was not submitted: its output folder {work.folder} belongs to "
        f"{whose}, whose output it would overwrite. Set another output_dir, or remove {where} if the other "
        "output is no longer needed",
        work.name,
    )


def check_folder(status: JobStatus, work: Work) -> None:
    """Raise PaiOutputElsewhere if the server's job has another output folder than the work."""
    folder, fs, api = work.folder, work.outputs.fs, work.book.api
    theirs = api.dialect.output_folder(api.config(status.name))
    if folder is None or fs is None or theirs is None or fs.is_same(folder, theirs):
        return
    verb = "wrote" if status.finished else "writes"
    raise PaiOutputElsewhere(
        f"job {status.name!r} already exists ({status.raw_state}), and it {verb} to {theirs}; "
        f"output_dir of the task is {folder}, which does not contain its output. Restore output_dir, or "
        "run the task under another name",
        status.name,
    )


def ago(seconds: float) -> str:
    """Return an age as text: ``3 hours ago``, ``5 days ago``."""
    hours = seconds / 3600
    if hours < _DAYS_FROM:
        return f"{hours:.0f} hours ago" if hours >= 1 else "less than an hour ago"
    return f"{hours / 24:.0f} days ago"
