"""``luigi-pai stop``: end jobs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from luigi_pai.api.retries import TRANSIENT
from luigi_pai.cli.failures import EXIT_FAILED, complain, give_up, plain_failures
from luigi_pai.cli.job_argument import (
    asked_for,
    connect,
    is_address,
    matching,
    on_cluster,
    warn_without_tags,
)
from luigi_pai.cli.tables import tell
from luigi_pai.durations import counted
from luigi_pai.errors import ClusterUnreachable, PaiApiError, ServerFault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.status import JobStatus

_PATTERN = frozenset("*?[")
_MOST_SHOWN = 10
_POLL, _LONGEST = 0.5, 60.0


@click.command()
@click.argument("jobs", nargs=-1, metavar="JOB|'GLOB'...")
@click.option("-t", "--tag", "tags", multiple=True, help="All jobs with this tag (OpenPAI 1.3 and later).")
@click.option("--yes", is_flag=True, help="Do not ask, however many jobs there are.")
@click.option("--no-wait", is_flag=True, help="Do not wait until they have ended.")
@on_cluster
def stop(jobs: tuple[str, ...], *, tags: tuple[str, ...], yes: bool, no_wait: bool) -> None:
    """Stop each JOB: a name, the address of its page, @latest, or a pattern in quotes.

    Patterns and tags select those of your jobs that have not ended. The jobs are shown, and
    stopped after you have confirmed it.
    """
    if not jobs and not tags:
        give_up("name a JOB, a 'GLOB' or a --tag")
    with plain_failures("interrupted; jobs that were asked to stop go on stopping"):
        cluster = connect()
        single = [job for job in jobs if not _PATTERN.intersection(job) or is_address(job)]
        if tags:
            warn_without_tags(cluster)
        several = [job for job in jobs if job not in single]
        mine = cluster.list() if several else []
        meant, missing = cluster.list(tags=tags) if tags else [], False
        for pattern in several:
            matches = matching(mine, pattern)
            if not matches:
                missing = True
                complain(f"no job of yours matches {pattern!r}; luigi-pai list shows your jobs")
            meant += matches
        found = {job.name: job for job in meant if not job.finished}
        if (several or tags) and not (found or single or missing):
            click.echo("no job of these is going on", err=True)
            return
        if found and not yes:
            ask(list(found))
        for text in single:
            try:
                status = _job_of(cluster, text)
                found[status.name] = status
            except (ClusterUnreachable, ServerFault):
                raise
            except PaiApiError as error:
                missing = True
                complain(error)
        failed = stop_all(cluster, list(found.values()), wait=not no_wait) or missing
    sys.exit(EXIT_FAILED if failed else 0)


def _job_of(cluster: Cluster, text: str) -> JobStatus:
    """Return the job to stop; end the command if several points of a sweep share this job."""
    entry = asked_for(cluster, text)
    count = 1 if entry.index is None else len(cluster.book.members(entry.job))
    if count > 1:
        why = (
            f"{text} is instance {entry.index} of job {entry.job}, which {count} points of a sweep share: "
            f"one of them cannot be stopped alone; to stop them all: luigi-pai stop {entry.job}"
        )
        give_up(why)
    return entry.known if entry.index is None else cluster.book.status(entry.job)


def ask(names: list[str]) -> None:
    """Show jobs and ask whether to stop them; end the command if the user declines or has no terminal."""
    for name in names[:_MOST_SHOWN]:
        tell(f"  {name}", err=True)
    if len(names) > _MOST_SHOWN:
        click.echo(f"  and {len(names) - _MOST_SHOWN} more", err=True)
    if not sys.stdin.isatty():
        matches = "1 job matches; give --yes to stop it"
        if len(names) > 1:
            matches = f"{len(names)} jobs match; give --yes to stop them"
        give_up(matches)
    if not click.confirm(f"Stop {counted(len(names), 'job')}?", err=True):
        give_up("nothing was stopped", EXIT_FAILED)


def stop_all(cluster: Cluster, jobs: Iterable[JobStatus], *, wait: bool) -> bool:
    """Stop jobs and print the result for each; return True if a request to the server failed for any job."""
    failed, asked = False, []
    for job in jobs:
        if job.finished:
            tell(f"{job.name}: has ended already ({job.raw_state})")
            continue
        try:
            cluster.stop(job.name)
        except PaiApiError as error:
            failed = True
            complain(error)
        else:
            asked.append(job.name)
            if not wait:
                tell(f"{job.name}: asked to stop")
    if wait:
        deadline = time.monotonic() + _LONGEST
        for name in asked:
            try:
                ended = _until_ended(cluster, name, deadline)
            except PaiApiError as error:
                failed = True
                complain(f"{name} was asked to stop; whether it has ended is unknown: {error}")
                continue
            tell(f"{name}: {ended.raw_state}" if ended.finished else f"{name}: still {ended.raw_state}")
    return failed


def _until_ended(cluster: Cluster, name: str, deadline: float) -> JobStatus:
    while True:
        is_last = time.monotonic() >= deadline
        try:
            status = cluster.job(name).status()
        except TRANSIENT:
            if is_last:
                raise
        else:
            if status.finished or is_last:
                return status
        time.sleep(_POLL)
