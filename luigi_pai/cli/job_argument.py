"""Handles JOB arguments and ``--cluster`` on the command line."""

from __future__ import annotations

import contextlib
import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import click

from luigi_pai.api.book.entries import Entry
from luigi_pai.cli.failures import complain, give_up, plain_failures
from luigi_pai.cluster_settings import SectionSettings
from luigi_pai.config_file import CLUSTER_VARIABLE, chosen_section
from luigi_pai.errors import ConfigError, JobNotFound, PaiHttpError, PaiNameTaken
from luigi_pai.jobspec.hints import closest
from luigi_pai.jobspec.names import base_name, latest_attempts, v2_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.status import JobStatus

LATEST = "@latest"

_PATIENCE = 2.0  # how long to retry a lookup, in seconds


def connect(name: str | None = None) -> Cluster:
    """Return the cluster ``name``; None means the one set by ``--cluster``, LUIGI_PAI_CLUSTER or [OpenPai].

    Raises:
        ConfigError: a setting is missing or invalid.
    """
    return SectionSettings(chosen_section(name)).cluster()


def _choose(ctx: click.Context, _option: click.Parameter, name: str | None) -> None:
    """Make a cluster the default of this process and its child processes until the command ends."""
    if name is None or ctx.resilient_parsing:  # resilient_parsing means shell completion
        return
    with plain_failures():
        if name:
            chosen_section(name)
    earlier = {key: value for key, value in os.environ.items() if key == CLUSTER_VARIABLE}

    @ctx.call_on_close
    def _restore() -> None:
        del os.environ[CLUSTER_VARIABLE]
        os.environ.update(earlier)

    os.environ[CLUSTER_VARIABLE] = name


on_cluster = click.option(
    "--cluster",
    metavar="NAME",
    callback=_choose,
    expose_value=False,
    is_eager=True,
    help="The cluster of [OpenPai:NAME] in luigi.cfg.",
)
"""The ``--cluster`` option of every command that uses a cluster."""


def is_address(argument: str) -> bool:
    """Return whether a JOB argument is the URL of a job's page."""
    return argument.startswith(("http://", "https://"))


def job_name(cluster: Cluster, argument: str) -> str:
    """Return the job name that a JOB argument means: a name, the URL of a job's page, or ``@latest``.

    Raises:
        JobNotFound: the argument is ``@latest``, but the user has no job.
        ConfigError: the name has unprintable characters, the URL is not a job's page, or the job on that
            page belongs to another user.
    """
    if argument == LATEST:
        jobs = [job for job in cluster.list() if job.created_ms is not None]
        if not jobs:
            raise JobNotFound(f"{cluster.username} has no jobs on {cluster.url}")
        return max(jobs, key=lambda job: job.created_ms or 0).name
    if not argument.isprintable():
        raise ConfigError(f"{argument!r} is not a job name: it contains unprintable characters")
    if not is_address(argument):
        return argument
    try:
        query = parse_qs(urlsplit(argument).query)
    except ValueError as error:
        raise ConfigError(f"{argument} is not a job's page: {error}") from None
    if "jobName" not in query:
        raise ConfigError(f"{argument} is not a job's page: its URL has no jobName=")
    user = query.get("username", [cluster.username])[0]
    if user != cluster.username:
        raise ConfigError(
            f"{argument} is a job of {user}, and [{cluster.section}] has username = {cluster.username}: "
            "a job is shown to its owner only"
        )
    return query["jobName"][0]


def role_and_index(argument: str | None) -> tuple[str | None, int | None]:
    """Return the role and the index from ``ROLE/INDEX``, None if missing; exit if INDEX is invalid."""
    if argument is None:
        return None, None
    role, _, index = argument.partition("/")
    if index and not index.isdecimal():
        give_up(f"{argument} is not a task: use ROLE or ROLE/INDEX, such as worker/0")
    return role, int(index) if index else None


def find_submission(cluster: Cluster, argument: str) -> Entry:
    """Return the submission that a JOB argument refers to: a job, or an instance of an array.

    An array is a job that runs several points of a sweep. After a failure, a task submits its job NAME
    again as ``NAME__attempt2``, and so on. The argument NAME means the newest of these submissions.

    Raises:
        JobNotFound: there is no job with this name. The message suggests a similar name if there is one.
        ConfigError: for the same reasons as ``job_name``.
    """
    name, book = job_name(cluster, argument), cluster.book
    work = base_name(name)
    number = latest_attempts([name]).get(work, 1)
    if v2_name(work) != work:
        cluster.server.api_version()  # finds out the API version, because names look different on v2
    job = book.job_name(work, number)
    try:
        if number > 1:
            with contextlib.suppress(JobNotFound):
                return Entry(number, job, book.status(job))
        entry = book.latest(work, patience=_PATIENCE)
    except (PaiNameTaken, PaiHttpError) as error:  # another user owns this job, or listing the jobs failed
        try:
            entry = Entry(number, job, book.status(job))
        except JobNotFound:
            raise error from None
    if entry is not None and number in (1, entry.number):
        return entry

    near = closest(name, (each.name for each in cluster.list()))
    hint = f"did you mean {near}? " if near else ""
    raise JobNotFound(
        f"{cluster.username} has no job {name!r} on {cluster.url} (it may have been deleted); "
        f"{hint}run luigi-pai list to see your jobs",
        status=404,
    )


def warn_without_tags(cluster: Cluster) -> None:
    """Print a warning if the cluster's release does not support tags."""
    if not cluster.server.has_tags():
        complain("warning: this OpenPAI does not support tags (1.3 and later do), so --tag finds no jobs")


def matching(jobs: Iterable[JobStatus], pattern: str) -> list[JobStatus]:
    """Return the jobs whose names match a shell pattern."""
    return [job for job in jobs if fnmatchcase(job.name, pattern)]
