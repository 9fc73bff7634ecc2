"""``luigi-pai logs``: shows the output of a job's tasks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from luigi_pai.api.logs.reader import STREAMS, LogReader
from luigi_pai.cli.failures import EXIT_FAILED, give_up, plain_failures
from luigi_pai.cli.job_argument import connect, find_submission, on_cluster, role_and_index
from luigi_pai.cli.tables import echo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.logs.reader import LogLine
    from luigi_pai.api.status import JobStatus


@click.command()
@click.argument("job")
@click.argument("task", required=False, metavar="[ROLE[/INDEX]]")
@click.option("-f", "--follow", is_flag=True, help="Follow the logs until the job has finished.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), metavar="LINES", help="Show only the last lines of each log."
)
@click.option("--stdout", "only", flag_value="stdout", help="Show only standard output.")
@click.option("--stderr", "only", flag_value="stderr", help="Show only standard error.")
@click.option(
    "--attempt",
    type=click.IntRange(0),
    metavar="N",
    help="Show the logs of the cluster's Nth start of the job, counted from 0.  [default: the last]",
)
@on_cluster
def logs(
    job: str, task: str | None, *, follow: bool, lines: int | None, only: str | None, attempt: int | None
) -> None:
    """Show the standard output and standard error of JOB's tasks.

    JOB is a job's name, the address of its page, or @latest. If there are several tasks, lines
    start with `ROLE/INDEX |`. OpenPAI 1.4 and later serve logs. On 0.7 to 0.14, logs are read
    from the node where the task ran, if this machine can reach it. 0.15 to 1.3 do not serve logs.
    """
    role, index = role_and_index(task)
    with plain_failures("stopped; the job continues"):
        cluster = connect()
        entry = find_submission(cluster, job)
        found, name = entry.known, entry.job
        index = index if entry.index is None else entry.index
        _check_task(found, role, index)
        _check_attempt(cluster, found, attempt)
        streams = STREAMS if only is None else (only,)
        reader = LogReader(
            cluster.book, name, role=role, index=index, streams=streams, attempt=attempt, lines=lines
        )
        print_lines(reader, reader.follow() if follow else reader.read())
        report_unreadable(reader)
    status = reader.status
    if follow and status is not None:
        echo(f"{name}: {status.raw_state}", err=True)
        sys.exit(0 if status.succeeded else EXIT_FAILED)
    sys.exit(EXIT_FAILED if reader.unreadable else 0)


def print_lines(reader: LogReader, lines: Iterable[LogLine]) -> None:
    """Print log lines in the form of ``LogReader.shown``."""
    for line in lines:
        click.echo(reader.shown(line))


def report_unreadable(reader: LogReader) -> None:
    """Print which tasks' logs could not be read, and where to find them."""
    for log in reader.unreadable:
        echo(f"luigi-pai logs: {log}", err=True)


def _check_task(status: JobStatus, role: str | None, index: int | None) -> None:
    """Exit if the job does not have this role or index."""
    if role is None or not status.tasks:
        return
    indexes = [task.index for task in status.tasks if task.role == role]
    if not indexes:
        roles = ", ".join(dict.fromkeys(task.role for task in status.tasks))
        give_up(f"job {status.name} has no task role {role!r}; it has {roles}")
    if index is not None and index not in indexes:
        valid = "0" if len(indexes) == 1 else f"0 to {len(indexes) - 1}"
        give_up(f"job {status.name} has no {role}/{index}; INDEX of {role} is {valid}")


def _check_attempt(cluster: Cluster, status: JobStatus, attempt: int | None) -> None:
    """Exit if the job had no such attempt, or if the release does not serve its logs."""
    last = status.retries or 0
    if attempt is None or attempt == last:
        return
    if attempt > last:
        count = f"starts 0 to {last}" if last else "start 0 only"
        give_up(f"job {status.name} has no --attempt {attempt}; it had {count}")
    if not cluster.book.api.dialect.gives_logs:
        give_up(f"--attempt {attempt}: this release serves only the logs of the last start, {last}")
