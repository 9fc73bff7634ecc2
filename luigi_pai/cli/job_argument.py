"""JOB on the command line: a name, the address of its page, or ``@latest``; and its completion."""

from __future__ import annotations

import contextlib
import logging
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import click

from luigi_pai.errors import ConfigError, JobNotFound, PaiError
from luigi_pai.spec.names import attempt_name, base_name, latest_attempts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from click.shell_completion import CompletionItem

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.status import JobStatus

if TYPE_CHECKING:
    _ParamType = click.ParamType[str]
else:
    _ParamType = click.ParamType  # generic from click 8.2 on

__all__ = ["JOB", "connect", "latest_submission", "lookup", "matching", "named", "status_of"]

LATEST = "@latest"


def connect() -> Cluster:
    """Return the cluster of [OpenPai].

    Raises:
        ConfigError: a setting is missing or wrong.
    """
    from luigi_pai.config import OpenPai  # noqa: PLC0415  loads Luigi

    # Luigi's own warnings about its configuration are none of what a person asked for here
    logging.getLogger("luigi").setLevel(logging.ERROR)
    return OpenPai.current().cluster()


def named(cluster: Cluster, text: str) -> str:
    """Return the name that is meant: as it is, of the page of an address, or of the newest job.

    Raises:
        JobNotFound: ``@latest``, and the user has no job.
        ConfigError: an address that is no job's page, or that of another user's job.
    """
    if text == LATEST:
        jobs = [job for job in cluster.list() if job.created_ms is not None]
        if not jobs:
            raise JobNotFound(f"{cluster.username} has no job on {cluster.url}")
        return max(jobs, key=lambda job: job.created_ms or 0).name
    if not text.startswith(("http://", "https://")):
        return text
    query = parse_qs(urlsplit(text).query)
    names, users = query.get("jobName"), query.get("username")
    if not names:
        raise ConfigError(f"{text} is not the page of a job: it has no jobName=")
    if users and users[0] != cluster.username:
        raise ConfigError(
            f"{text} is a job of {users[0]}, and [OpenPai] has username = {cluster.username}: "
            "a job is shown to its owner"
        )
    return names[0]


def latest_submission(cluster: Cluster, name: str) -> str:
    """Return the name of the latest submission of a piece of work; that of a submission stays.

    A failed task is submitted again as ``NAME__attempt2``; who asks for NAME means the latest.
    """
    if base_name(name) != name:
        return name
    return attempt_name(name, latest_attempts(job.name for job in cluster.list()).get(name, 1))


def lookup(cluster: Cluster, text: str) -> JobStatus:
    """Return the status of the job that is meant; of a task's name, that of its latest submission.

    Raises:
        JobNotFound: as ``status_of``.
        ConfigError: as ``named``.
    """
    return status_of(cluster, latest_submission(cluster, named(cluster, text)))


def status_of(cluster: Cluster, name: str) -> JobStatus:
    """Return the status of a job.

    Raises:
        JobNotFound: there is none of this name; it has the most similar name that there is.
    """
    from luigi_pai.spec.nearest import closest  # noqa: PLC0415  only a mistake needs it

    try:
        return cluster.status(name)
    except JobNotFound as error:
        near = closest(name, (job.name for job in cluster.list()))
        hint = f"did you mean {near}? " if near else ""
        raise error.reworded(
            f"{cluster.username} has no job {name!r} on {cluster.url}, or it is no longer kept there; "
            f"{hint}luigi-pai list shows those that there are"
        ) from None


def matching(jobs: Iterable[JobStatus], pattern: str) -> list[JobStatus]:
    """Return the jobs whose names match a shell pattern."""
    return [job for job in jobs if fnmatchcase(job.name, pattern)]


class _JobName(_ParamType):
    """The name of a job, completed from the user's jobs."""

    name = "job"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Return the names that begin so; none where the cluster does not answer."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  costs what only completion needs

        del ctx, param
        names: list[str] = [LATEST]
        logging.disable(logging.CRITICAL)  # a terminal in the middle of a line takes no warnings
        with contextlib.suppress(PaiError, OSError):
            names += sorted(job.name for job in connect().list())
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


JOB: Any = _JobName()
"""The type of a JOB argument."""
