"""Errors for existing jobs that a task cannot use: forgotten, in an array, with another output folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.config_file import cluster_option
from luigi_pai.errors import PaiJobError, PaiJobForgotten, PaiOutputElsewhere

if TYPE_CHECKING:
    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.status import JobStatus
    from luigi_pai.tasks.claims import Claim

_DAYS_FROM = 72  # hours; longer times are given in days


class RunsInArrayError(PaiJobError):
    """The task's job is a waiting or running instance of an array, or is claimed for an array."""

    @classmethod
    def of(cls, name: str, entry: Entry, page: str = "") -> RunsInArrayError:
        """Return the error for a task's job; ``page`` is the URL of the array, if the server has it."""
        if entry.status is None:
            why = "it was claimed as a part of"
            end = "and is not on the server; run the sweep again, which submits it"
        else:
            why = f"it is {entry.status.raw_state} as a part of"
            end = f"({page}); run the sweep, or run the task again when that job has ended"
        text = f"{why} job {entry.job!r}, which has several points of a sweep {end}"
        return cls(f"job {name!r} was not submitted: {text}", entry.job)


def forgotten(claim: Claim, age: float, folder: str | None, api: RestApi) -> PaiJobForgotten:
    """Return the error for a job that was submitted, and that the server does not know."""
    end = "its result is not known"
    there = "" if claim.cluster == api.url else f" to {claim.cluster}"
    knows = "does not know" if there else "no longer knows"
    option = cluster_option(api.section)
    if claim.state is not None:
        end = f"its recorded state is {claim.state}, but the completion flag in its output folder is gone"
    accept = ""
    if folder is not None:
        accept = (
            f"  output folder: {folder}\n"
            "  to accept its output as complete: "
            f"touch _SUCCESS && luigi-pai put{option} _SUCCESS '{folder}/_SUCCESS'\n"
        )
    return PaiJobForgotten(
        f"job {claim.job!r} was submitted{there} {ago(age)} by {claim.user!r}, and {api.url} "
        f"{knows} it: {end}. Nothing was submitted\n{accept}"
        "  to run it again: run the task with --OpenPai-on-forgotten submit",
        claim.job,
    )


def check_folder(status: JobStatus, folder: str | None, api: RestApi) -> None:
    """Raise PaiOutputElsewhere if the server's job has another output folder than the task."""
    from luigi_pai.hdfs.paths import same_path  # noqa: PLC0415  only needed with HDFS

    theirs = api.dialect.output_folder(api.config(status.name))
    if folder is None or theirs is None or same_path(folder, theirs):
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
