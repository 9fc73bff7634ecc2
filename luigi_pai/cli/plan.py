"""``luigi-pai plan`` and ``payload``: show what a run would do now, and which files it would send."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from luigi_pai.cli.failures import EXIT_FAILED, give_up, plain_failures
from luigi_pai.cli.job_argument import on_cluster
from luigi_pai.cli.tables import coloured, echo, json_option, show, table
from luigi_pai.cli.task_argument import TaskCommand, module_and_task, reading_files, task_named
from luigi_pai.durations import counted
from luigi_pai.errors import PaiApiError
from luigi_pai.jobspec.demand import Demand, oversize_warning
from luigi_pai.redaction import printable, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import luigi

    from luigi_pai.payload.file import Contents
    from luigi_pai.sweep.sweep import PaiSweep
    from luigi_pai.task import PaiTask
    from luigi_pai.tasks.job_task import JobTask

_FRAMES = 10_000  # recursion limit: enough for a chain of about 3,000 tasks
_COLOURS = {
    "done": "SUCCEEDED",
    "running": "RUNNING",
    "to submit": "WAITING",
    "to run": "WAITING",
    "blocked": "STOPPED",
}


@dataclass
class _Planned:
    """A task in the tree.

    Attributes:
        task: The task as a string, such as ``Train(epochs=20)``.
        state: ``done``, ``running``, ``to submit`` (a job), ``to run`` (any other task), or ``blocked`` by an
            incomplete requirement or for the reason in ``note``.
        attempt: The number of the submission; None for tasks without jobs.
        gpus: The GPUs of all the job's instances. For a sweep, the GPUs of all jobs to submit, or 0 if the
            number of jobs is unknown (in a search, or if a job runs several points).
        jobs: For a sweep, the number of its jobs in each state.
        note: What to add to the task's line.
        warnings: Warnings about the jobs to submit.
        requires: The tasks that this task requires.
        shown_above: Whether the task and its requirements are already listed above.
    """

    task: str
    state: str
    attempt: int | None = None
    gpus: int = 0
    jobs: Counter[str] = field(default_factory=Counter)
    note: str = ""
    warnings: list[str] = field(default_factory=list)
    requires: list[_Planned] = field(default_factory=list)
    shown_above: bool = False


@click.command(cls=TaskCommand)
@module_and_task
@json_option(", a tree of objects")
@on_cluster
def plan(module: str, arguments: Sequence[str], *, as_json: bool) -> None:
    """Show the tree of TASK in MODULE: which tasks are done, running, to submit, or blocked.

    Nothing is submitted. Put --cluster before MODULE; anything after MODULE is passed to TASK.
    Exit code: 0 if there is nothing to do, otherwise 1.
    """
    sys.setrecursionlimit(_FRAMES)
    with plain_failures():
        task = task_named(module, arguments)
        with reading_files(module, arguments):
            root = _planned(task, {})
    lines = [wrapped(line, sys.stdout) for line in _lines(root, "", "")]
    show(_facts(root), [*lines, _totals(list(_each(root)))], as_json=as_json)
    for warning in dict.fromkeys(warning for planned in _each(root) for warning in planned.warnings):
        echo(f"warning: {warning}", err=True)
    sys.exit(0 if root.state == "done" else EXIT_FAILED)


def _planned(task: luigi.Task, known: dict[str, _Planned]) -> _Planned:
    """Return a task and its requirements. As in Luigi, the requirements of a finished task are left out."""
    from luigi_pai.sweep.sweep import PaiSweep  # noqa: PLC0415  loads Luigi
    from luigi_pai.tasks.job_task import JobTask  # noqa: PLC0415  as above

    if task.task_id in known:
        above = known[task.task_id]
        return _Planned(above.task, above.state, above.attempt, above.gpus, shown_above=True)
    found = known[task.task_id] = _Planned(str(task), "to run")
    if isinstance(task, JobTask):
        _plan_job(task, found)
    elif task.complete():
        found.state = "done"
    elif isinstance(task, PaiSweep):
        _plan_points(task, found)
    if found.state != "done":
        found.requires = [_planned(before, known) for before in task.deps()]
        is_ready = all(before.state == "done" for before in found.requires)
        if found.state in ("to submit", "to run") and not is_ready:
            found.state = "blocked"
    return found


def _plan_job(task: JobTask, found: _Planned) -> None:
    from luigi_pai.tasks.task_work import TaskWork  # noqa: PLC0415  loads Luigi

    forecast = task.forecast()
    found.state, found.attempt, found.note = forecast.state, forecast.number, forecast.why
    found.gpus = _gpus(task)
    if found.state == "to submit":
        work = TaskWork(task)
        warnings: list[str | None] = [*work.check_job()]
        with contextlib.suppress(PaiApiError):
            warnings.append(oversize_warning(work.book.virtual_clusters() or {}, work.job))
        found.warnings = [f"{task.task_family}: {warning}" for warning in warnings if warning]


def _plan_points(sweep: PaiSweep, found: _Planned) -> None:
    """Add the jobs of a sweep's points to ``found``.

    Raises:
        SpecError: the sweep or some of its points are invalid.
    """
    from luigi_pai.sweep.limits import SweepLimits  # noqa: PLC0415  loads Luigi
    from luigi_pai.sweep.points import checked_points  # noqa: PLC0415  as above

    if sweep.is_search:
        found.note = "a search, whose points are not known in advance"
        return
    limits = SweepLimits.from_sweep(sweep)
    points, warnings = checked_points(sweep, limits)
    found.warnings = [f"{sweep.task_family}: {warning}" for warning in warnings]
    found.note = counted(len(points), "point")
    if limits.points_per_job > 1:
        found.jobs["to submit"] = math.ceil(len(points) / limits.points_per_job)
        found.note += f", at most {found.jobs['to submit']:,} jobs"
        return
    for point in points:
        state = point.task.forecast().state
        found.jobs[state] += 1
        found.gpus += _gpus(point.task) if state == "to submit" else 0
    found.note += ": " + ", ".join(f"{count:,} {state}" for state, count in sorted(found.jobs.items()))


def _gpus(task: Any) -> int:
    return int(Demand.of_config(task.job().to_dict()).whole.gpus or 0)


def _lines(planned: _Planned, first: str, further: str) -> Iterator[str]:
    state = coloured(planned.state, _COLOURS[planned.state])
    if planned.attempt is not None and planned.attempt > 1:
        state += f" (attempt {planned.attempt})"
    if planned.note:
        state += f", {printable(planned.note)}"
    if planned.gpus and planned.state != "done":
        state += f", {counted(planned.gpus, 'GPU')}"
    above = "  (as above)" if planned.shown_above else ""
    yield f"{first}{planned.task}  {state}{above}"
    for number, before in enumerate(planned.requires, start=1):
        is_last = number == len(planned.requires)
        yield from _lines(
            before, f"{further}{'└─ ' if is_last else '├─ '}", f"{further}{'   ' if is_last else '│  '}"
        )


def _each(planned: _Planned) -> Iterator[_Planned]:
    if not planned.shown_above:
        yield planned
    for before in planned.requires:
        yield from _each(before)


def _totals(tasks: Sequence[_Planned]) -> str:
    jobs: Counter[str] = Counter()
    for task in tasks:
        jobs.update(task.jobs)
        if task.attempt is not None:
            jobs["to submit" if _is_held_back(task) else task.state] += 1
    gpus = sum(task.gpus for task in tasks if task.state in ("to submit", "to run") or _is_held_back(task))
    parts = [f"{counted(jobs['to submit'], 'job')} to submit{f', {gpus:,} GPUs in all' if gpus else ''}"]
    parts += [f"{jobs[state]:,} {state}" for state in ("running", "done", "blocked") if jobs[state]]
    return "; ".join(parts)


def _is_held_back(task: _Planned) -> bool:
    """Return whether a task is only waiting for its requirements, and its job will be submitted later."""
    return task.state == "blocked" and not task.note


def _facts(planned: _Planned) -> dict[str, Any]:
    return {
        "task": planned.task,
        "state": planned.state,
        "attempt": planned.attempt,
        "gpus": planned.gpus,
        **({"jobs": dict(planned.jobs)} if planned.jobs else {}),
        **({"why": planned.note} if planned.note and planned.state == "blocked" else {}),
        "requires": [_facts(before) for before in planned.requires],
    }


@click.command(cls=TaskCommand)
@module_and_task
@json_option()
def payload(module: str, arguments: Sequence[str], *, as_json: bool) -> None:
    """Show the data that TASK in MODULE sends: files, values, and the names of secrets.

    Nothing is sent or looked up.
    """
    from luigi_pai.python_task import PaiPythonTask, contents  # noqa: PLC0415  loads Luigi
    from luigi_pai.task import PaiTask  # noqa: PLC0415  as above

    task = task_named(module, arguments)
    if not isinstance(task, PaiTask):
        give_up(f"{arguments[0]} in {module} is not a PaiTask and sends only its job: see luigi-pai render")
    with plain_failures(), reading_files(module, arguments):
        uploads = list(_uploads(task))
        found = contents(task) if isinstance(task, PaiPythonTask) else None
    facts = {"task": str(task), "uploads": uploads, **({} if found is None else asdict(found))}
    show(facts, [*_upload_lines(uploads), *(_content_lines(found) if found else ())], as_json=as_json)
    if not as_json and not uploads and found is None:
        echo(f"{task} sends only its job: see luigi-pai render")


def _uploads(task: PaiTask) -> Iterator[dict[str, Any]]:
    from luigi_pai.files.trees import local_tree  # noqa: PLC0415  few tasks have uploads
    from luigi_pai.tasks.attributes import base_folder  # noqa: PLC0415  as above

    uploads: Mapping[str, str] = task.uploads or {}
    for local, destination in uploads.items():
        place = base_folder(task, "uploads") / Path(os.fspath(local)).expanduser()
        files = local_tree(place, place.name).files.values()
        size = sum(file.size for file in files)
        yield {"local": str(local), "hdfs": str(destination), "files": len(files), "size": size}


def _upload_lines(uploads: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if uploads:
        titles = ["upload", "to the cluster", "files", "bytes"]
        rows = [[row["local"], row["hdfs"], f"{row['files']:,}", f"{row['size']:,}"] for row in uploads]
        yield from table(titles, rows)
        yield ""


def _content_lines(found: Contents) -> Iterator[str]:
    rows = [[part, f"{size:,}"] for part, size in found.parts.items()]
    yield from table(["file", "bytes, compressed"], [*rows, ["total", f"{sum(found.parts.values()):,}"]])
    yield ""
    yield f"functions: {', '.join(found.functions)}"
    yield ""
    values = [[each.name, each.type, f"{each.size:,}", each.value, each.place] for each in found.values]
    yield from table(["value", "type", "bytes", "readable by all users", "used in"], values)
    if found.secrets:
        yield ""
        yield f"secrets: {', '.join(found.secrets)}"
