"""``luigi-pai list``: the jobs of a user."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import TYPE_CHECKING, Any

import click

from luigi_pai.cli.failures import give_up, plain_failures
from luigi_pai.cli.job_argument import connect, matching, on_cluster, warn_without_tags
from luigi_pai.cli.tables import table, tell
from luigi_pai.durations import duration

if TYPE_CHECKING:
    from luigi_pai.api.status import JobStatus

_STATES = ("WAITING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED", "STOPPING")


@click.command("list")
@click.option(
    "-s",
    "--state",
    "states",
    multiple=True,
    type=click.Choice(_STATES, case_sensitive=False),
    help="Only jobs in this state; may be repeated.",
)
@click.option("-t", "--tag", "tags", multiple=True, help="Only jobs with this tag (OpenPAI 1.3 and later).")
@click.option("-u", "--user", metavar="USER", help="Jobs of another user.")
@click.option("--all-users", is_flag=True, help="Jobs of all users.")
@click.option("-q", "--quiet", is_flag=True, help="Names only, one a line.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, a list with an object for each job.")
@click.argument("pattern", required=False, metavar="['GLOB']")
@on_cluster
def list_jobs(
    *,
    states: tuple[str, ...],
    tags: tuple[str, ...],
    user: str | None,
    all_users: bool,
    quiet: bool,
    as_json: bool,
    pattern: str | None,
) -> None:
    """List your jobs, newest first; those whose names match GLOB, if one is given."""
    if user and all_users:
        give_up("--user and --all-users exclude each other")
    with plain_failures():
        cluster = connect()
        whose = None if all_users else user or cluster.username
        if tags:
            warn_without_tags(cluster)
        jobs: list[JobStatus] = cluster.list(
            username=whose, states=[state.upper() for state in states], tags=tags
        )
    if pattern is not None:
        jobs = matching(jobs, pattern)
    jobs.sort(key=lambda job: -(job.created_ms or 0))
    if as_json:
        click.echo(json.dumps([facts(job) for job in jobs], indent=2))
        return
    if quiet:
        for job in jobs:
            tell(job.name)
        return
    if not jobs:
        click.echo("no job" + (" of that kind" if states or tags or pattern else ""), err=True)
        return
    others = all_users or (user is not None)
    titles = ["NAME", "STATE", *(["USER"] if others else []), "GPUS", "SUBMITTED", "TOOK", "VC"]
    rows = [_row(job, with_user=others) for job in jobs]
    for line in table(titles, rows, states=1):
        click.echo(line)


def facts(job: JobStatus) -> dict[str, Any]:
    """Return a job's status as an object for JSON, which has the fields of ``JobStatus``."""
    return {**dataclasses.asdict(job), "state": job.state.value, "retry_causes": dict(job.retry_causes)}


def _row(job: JobStatus, *, with_user: bool) -> list[str]:
    created = (job.created_ms or 0) / 1000
    return [
        job.name,
        job.state.value,
        *([job.username or ""] if with_user else []),
        "" if job.gpus is None else str(job.gpus),
        f"{duration(time.time() - created)} ago" if job.created_ms else "",
        job.took,
        job.virtual_cluster or "",
    ]
