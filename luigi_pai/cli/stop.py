"""``luigi-pai stop``: stops jobs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from luigi_pai.api.retries import TRANSIENT
from luigi_pai.cli.failures import EXIT_FAILED, complain, give_up, plain_failures
from luigi_pai.cli.job_argument import (
    connect,
    find_submission,
    is_address,
    matching,
    on_cluster,
    warn_without_tags,
)
from luigi_pai.cli.tables import echo
from luigi_pai.durations import counted
from luigi_pai.errors import ClusterUnreachable, PaiApiError, ServerFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.status import JobStatus

_PATTERN = frozenset("*?[")
_MOST_SHOWN = 10
_POLL, _LONGEST = 0.5, 60.0


@click.command()
@click.argument("jobs", nargs=-1, metavar="JOB|'GLOB'...")
@click.option("-t", "--tag", "tags", multiple=True, help="Stop jobs with this tag (OpenPAI 1.3 and later).")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the jobs to end.")
@on_cluster
def stop(jobs: tuple[str, ...], *, tags: tuple[str, ...], yes: bool, no_wait: bool) -> None:
    """Stop each JOB: a name, the address of its page, @latest, or a pattern in quotes.

    Patterns and tags select your unfinished jobs. The jobs are listed, and are stopped once
    you confirm.
    """
    if not jobs and not tags:
        give_up("name a JOB, a 'GLOB' or a --tag")
    with plain_failures("interrupted; jobs already asked to stop will still stop"):
        cluster = connect()
        single = [job for job in jobs if not _PATTERN.intersection(job) or is_address(job)]
        patterns = [job for job in jobs if job not in single]
        found, unmatched = _selected(cluster, patterns, tags)
        if not (found or single or unmatched):
            click.echo("none of these jobs is waiting or running", err=True)
            return
        if found and not yes:
            ask(list(found))
        named, missing = _named(cluster, single)
        failed = stop_all(cluster, {**found, **named}.values(), wait=not no_wait)
    sys.exit(EXIT_FAILED if failed or missing or unmatched else 0)


def _selected(
    cluster: Cluster, patterns: Sequence[str], tags: Sequence[str]
) -> tuple[dict[str, JobStatus], bool]:
    """Return the unfinished jobs that have a tag or match a pattern, and whether a pattern matched no job."""
    if tags:
        warn_without_tags(cluster)
    mine = cluster.list() if patterns else []
    selected, unmatched = cluster.list(tags=tags) if tags else [], False
    for pattern in patterns:
        matches = matching(mine, pattern)
        if not matches:
            unmatched = True
            complain(f"none of your jobs matches {pattern!r}; run luigi-pai list to see your jobs")
        selected += matches
    return {job.name: job for job in selected if not job.finished}, unmatched


def _named(cluster: Cluster, arguments: Sequence[str]) -> tuple[dict[str, JobStatus], bool]:
    """Return the jobs that JOB arguments name, and whether one of them could not be found."""
    found, missing = {}, False
    for argument in arguments:
        try:
            status = _job_of(cluster, argument)
            found[status.name] = status
        except (ClusterUnreachable, ServerFault):
            raise
        except PaiApiError as error:
            missing = True
            complain(error)
    return found, missing


def _job_of(cluster: Cluster, argument: str) -> JobStatus:
    """Return the job to stop; exit if several points of a sweep share it."""
    entry = find_submission(cluster, argument)
    count = 1 if entry.index is None else len(cluster.book.members(entry.job))
    if count > 1:
        why = (
            f"{argument} is instance {entry.index} of job {entry.job}, which {count} points of a sweep "
            f"share, so you cannot stop one alone; to stop all of them, run luigi-pai stop {entry.job}"
        )
        give_up(why)
    return entry.known if entry.index is None else cluster.book.status(entry.job)


def ask(names: list[str]) -> None:
    """List jobs and ask whether to stop them; exit if the user declines or there is no terminal."""
    for name in names[:_MOST_SHOWN]:
        echo(f"  {name}", err=True)
    if len(names) > _MOST_SHOWN:
        click.echo(f"  and {len(names) - _MOST_SHOWN} more", err=True)
    if not sys.stdin.isatty():
        count = len(names)
        matches, them = ("1 job matches", "it") if count == 1 else (f"{count} jobs match", "them")
        give_up(f"{matches}; use --yes to stop {them}")
    if not click.confirm(f"Stop {counted(len(names), 'job')}?", err=True):
        give_up("nothing was stopped", EXIT_FAILED)


def stop_all(cluster: Cluster, jobs: Iterable[JobStatus], *, wait: bool) -> bool:
    """Stop jobs and print the result for each; return whether a request to the server failed for any."""
    failed, stopping = False, []
    for job in jobs:
        if job.finished:
            echo(f"{job.name}: has already ended ({job.raw_state})")
            continue
        try:
            cluster.stop(job.name)
        except PaiApiError as error:
            failed = True
            complain(error)
        else:
            stopping.append(job.name)
    deadline = time.monotonic() + _LONGEST
    for name in stopping:
        try:
            echo(f"{name}: {_until_ended(cluster, name, deadline) if wait else 'asked to stop'}")
        except PaiApiError as error:
            failed = True
            complain(f"{name} was asked to stop; whether it has ended is unknown: {error}")
    return failed


def _until_ended(cluster: Cluster, name: str, deadline: float) -> str:
    """Wait until a job has ended, and return its state, or ``still RUNNING`` at the deadline."""
    while True:
        is_last = time.monotonic() >= deadline
        try:
            status = cluster.job(name).status()
        except TRANSIENT:
            if is_last:
                raise
        else:
            if status.finished or is_last:
                return f"{'' if status.finished else 'still '}{status.raw_state}"
        time.sleep(_POLL)
