"""``luigi-pai sweep``: shows a sweep's table or failures, stops its jobs, retries failed points."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import webbrowser
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from luigi_pai.api.clock import Clock
from luigi_pai.cli.failures import EXIT_FAILED, give_up, plain_failures
from luigi_pai.cli.job_argument import connect, on_cluster
from luigi_pai.cli.stop import ask, stop_all
from luigi_pai.cli.tables import coloured, echo, json_option, show, table, write
from luigi_pai.cli.task_argument import TaskCommand, task_named
from luigi_pai.durations import counted, duration, moment
from luigi_pai.errors import JobNotFound, PaiError
from luigi_pai.jobspec.names import base_name, may_hold, v2_name
from luigi_pai.redaction import printable
from luigi_pai.sweep.rows import FIXED, shown_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.results import SweepResults
    from luigi_pai.sweep.sheet import Sheet
    from luigi_pai.sweep.sweep import PaiSweep

_FAILED = ("FAILED", "STOPPED")
_ENDED = (*_FAILED, "SUCCEEDED", "PRUNED", "PENDING")
_MOST_ROWS, _MOST_RESULTS, _MOST_NAMES = 100, 5, 10


@click.command(cls=TaskCommand)
@click.argument("module", metavar="MODULE|NAME")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[TASK [--param VALUE]...]")
@click.option("--failed", is_flag=True, help="Show only failed points, with their jobs and the reasons.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all columns as CSV.")
@json_option(": summary, columns, and an object for each point")
@click.option("--stop", "stops", is_flag=True, help="Stop the sweep's waiting and running jobs.")
@click.option("--yes", is_flag=True, help="With --stop: do not ask for confirmation.")
@click.option("--retry", is_flag=True, help="Make the sweep's next run submit failed points again.")
@click.option("--open", "opens", is_flag=True, help="Open the table's page in a browser.")
@on_cluster
def sweep(
    module: str,
    arguments: Sequence[str],
    *,
    failed: bool,
    as_csv: bool,
    as_json: bool,
    stops: bool,
    yes: bool,
    retry: bool,
    opens: bool,
) -> None:
    """Show the table of the sweep TASK in MODULE, as of its last run.

    A single argument is a sweep's NAME, or the folder of its table. Put --cluster before
    MODULE; anything after MODULE is passed to TASK. Exit code: 0 if the table is complete,
    1 if it is incomplete or missing.
    """
    acts, forms = stops + retry + opens, as_csv + as_json
    if acts + forms > 1 or acts + failed > 1:
        give_up("use only one of --csv, --json, --stop, --retry and --open")
    with plain_failures("interrupted"):
        results, task = _table_of(module, arguments)
        if retry:
            _retry(results)
            return
        sheet = _read(results)
        if stops:
            _stop(task, sheet.rows, yes=yes)
        elif opens:
            _open(results)
        if acts:
            return
    if failed:
        sheet = sheet._replace(rows=[row for row in sheet.rows if row["state"] in _FAILED])
    if as_csv:
        write(sheet.csv_text())
    elif as_json:
        show(sheet._asdict() | {"summary": asdict(sheet.summary)}, (), as_json=True)
    else:
        _show(results, sheet, failed=failed)
    sys.exit(0 if sheet.summary.complete else EXIT_FAILED)


def _table_of(module: str, arguments: Sequence[str]) -> tuple[SweepResults, PaiSweep | None]:
    """Return a sweep's table and its task; the task is None if only a name or a folder is given."""
    from luigi_pai.sweep.results import SweepResults  # noqa: PLC0415  loads Luigi
    from luigi_pai.sweep.sweep import PaiSweep, default_folder  # noqa: PLC0415  as above

    if not arguments:
        return SweepResults(module if "/" in module else default_folder(module)), None
    task = task_named(module, arguments)
    if not isinstance(task, PaiSweep):
        give_up(f"{arguments[0]} in {module} is not a PaiSweep")
    return task.results, task


def _retry(results: SweepResults) -> None:
    """Record in the journal that the next run is to submit failed points again."""
    from luigi_pai.sweep.journal.journal import Journal  # noqa: PLC0415  as above

    journal = Journal(results.folder, Clock()).read()
    if not journal.info:
        give_up(f"{results.folder} has no journal: the sweep has not run", EXIT_FAILED)
    failed = journal.retry()
    points = counted(failed, "failed point")
    click.echo(f"the sweep's next run will submit {points} again" if failed else "no point failed")


def _open(results: SweepResults) -> None:
    """Open the page with a sweep's table in a browser."""
    path = Path(results.path("html")).resolve()
    if results.is_on_cluster:
        from luigi_pai.files import cluster_files  # noqa: PLC0415  loaded only for files of the cluster

        path = Path(tempfile.mkdtemp(prefix="luigi-pai-")) / "results.html"
        cluster_files(path=results.folder).get(results.path("html"), path)
    if not webbrowser.open(path.as_uri()):
        click.echo("no browser could be opened", err=True)
    click.echo(path)


def _read(results: SweepResults) -> Sheet:
    """Return the table that the last run wrote; exit if it cannot be read."""
    try:
        return results.read()
    except FileNotFoundError:
        why = f"there is no {results.path('json')}: the sweep has not run, or has another name or folder"
        give_up(why, EXIT_FAILED)
    except PaiError:
        raise
    except (OSError, ValueError) as error:
        give_up(error, EXIT_FAILED)


def _show(results: SweepResults, sheet: Sheet, *, failed: bool) -> None:
    """Print a sweep's table for people; if ``failed``, only the failed points."""
    summary, rows = sheet.summary, sheet.rows
    counts = ", ".join(f"{count} {coloured(state, state)}" for state, count in summary.counts.items())
    state = "complete" if summary.complete else "not complete"
    click.echo(f"{printable(summary.sweep)}: {counted(summary.points, 'point')}: {counts}; {state}")
    page = "--open shows its page" if results.is_on_cluster else f"page: {results.path('html')}"
    echo(f"written {moment(summary.updated_ms)}; {page}")
    if not rows:
        click.echo("no point failed" if failed else "no points", err=True)
        return
    best, shown, left_out = "", ["job", "error"], list[str]()
    if not failed:
        best, rows = sheet.ranked()
        values = _result_columns(sheet)
        shown, left_out = [*values[:_MOST_RESULTS], "seconds"], values[_MOST_RESULTS:]
    if best:
        echo(f"{best}, marked *")
    varying = sheet.varying() or sheet.parameters
    columns = [*varying, "state", *shown]
    for line in _lines(columns, rows[:_MOST_ROWS], states=len(varying), with_mark=bool(best)):
        click.echo(line)
    if len(rows) > _MOST_ROWS:
        click.echo(f"and {len(rows) - _MOST_ROWS} more points: see the page, or --csv")
    if left_out:
        more = ", ..." if len(left_out) > _MOST_NAMES else ""
        echo(f"more results: {', '.join(left_out[:_MOST_NAMES])}{more}")


def _result_columns(sheet: Sheet) -> list[str]:
    """Return the result columns, the objective first."""
    found = [column for column in sheet.columns if column not in (*sheet.parameters, *FIXED)]
    return sorted(found, key=lambda column: column not in sheet.summary.best.split())


def _lines(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], *, states: int, with_mark: bool
) -> Iterator[str]:
    """Return a table's lines; if ``with_mark``, the first row is marked."""
    titles = ["TOOK" if column == "seconds" else column.upper() for column in columns]
    cells = [[_cell(column, row[column]) for column in columns] for row in rows]
    if not with_mark:
        return table(titles, cells, states=states)
    marked = [["" if number else "*", *row] for number, row in enumerate(cells)]
    return table(["", *titles], marked, states=states + 1)


def _cell(column: str, value: Any) -> str:
    if column == "seconds" and isinstance(value, (int, float)):
        return duration(value)
    return " ".join(shown_value(value).split())


def _stop(task: PaiSweep | None, rows: Sequence[Mapping[str, Any]], *, yes: bool) -> None:
    points: list[Any] = [] if task is None or task.is_search else list(task.points())
    cluster = connect(points[0].cluster if points else None)
    jobs = _unfinished(cluster, points, rows)
    if not jobs:
        click.echo("none of its jobs are waiting or running", err=True)
        return
    if not yes:
        ask([job.name for job in jobs])
    if stop_all(cluster, jobs, wait=True):
        sys.exit(EXIT_FAILED)


def _unfinished(
    cluster: Cluster, points: Sequence[Any], rows: Sequence[Mapping[str, Any]]
) -> list[JobStatus]:
    """Return a sweep's unfinished jobs, from the user's job list and the sweep's table.

    Someone else may have written the table, so if the points are known, any other jobs in it are ignored.
    """
    rows = [row for row in rows if isinstance(row["job"], str)]
    names = {form for point in points for form in (point.name, v2_name(point.name))}
    names = names or {base_name(row["job"]) for row in rows}
    listed = {job.name: job for job in cluster.list()}
    jobs = [job for job in listed.values() if not job.finished and _has_point(cluster, job.name, names)]
    for name in dict.fromkeys(row["job"] for row in rows if row["job"] and row["state"] not in _ENDED):
        with contextlib.suppress(JobNotFound):
            if name not in listed and _has_point(cluster, name, names):  # the server's list may be incomplete
                jobs.append(cluster.job(name).status())
    return [job for job in jobs if not job.finished]


def _has_point(cluster: Cluster, job: str, names: set[str]) -> bool:
    """Return whether a job runs one of these points, alone or with others in an array."""
    if base_name(job) in names:
        return True
    if not any(may_hold(job, name) for name in names):
        return False
    return not names.isdisjoint(map(base_name, cluster.book.members(job)))
