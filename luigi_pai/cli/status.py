"""``luigi-pai list`` and ``status``: show a user's jobs, their states, and why they wait or ended."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import time
from typing import TYPE_CHECKING, Any

import click

from luigi_pai.api.dialects.launcher_text import reason_and_report
from luigi_pai.api.job_failure import deciding_task
from luigi_pai.api.waiting import WaitingReasons
from luigi_pai.cli.failures import EXIT_FAILED, complain, give_up, plain_failures
from luigi_pai.cli.job_argument import connect, find_submission, matching, on_cluster, warn_without_tags
from luigi_pai.cli.tables import coloured, echo, fields, json_option, show, table
from luigi_pai.config_file import cluster_option
from luigi_pai.durations import duration, moment
from luigi_pai.errors import JobNotFound, PaiApiError
from luigi_pai.jobspec.names import attempt_name, base_name
from luigi_pai.jobspec.templates.secrets import is_masked
from luigi_pai.redaction import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.status import JobStatus, TaskStatus

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
@click.option("-u", "--user", metavar="USER", help="Another user's jobs.")
@click.option("--all-users", is_flag=True, help="All users' jobs.")
@click.option("-q", "--quiet", is_flag=True, help="Names only, one per line.")
@json_option(", a list with an object for each job")
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
    """List your jobs, newest first; with GLOB, only the jobs whose names match."""
    if user and all_users:
        give_up("use either --user or --all-users, not both")
    with plain_failures():
        cluster = connect()
        whose = None if all_users else user or cluster.username
        if tags:
            warn_without_tags(cluster)
        found = cluster.list(username=whose, states=[state.upper() for state in states], tags=tags)
    jobs = sorted(
        matching(found, "*" if pattern is None else pattern), key=lambda job: -(job.created_ms or 0)
    )
    with_user = all_users or user is not None
    titles = ["NAME", "STATE", *(["USER"] if with_user else []), "GPUS", "SUBMITTED", "TOOK", "VC"]
    lines = table(titles, [_row(job, with_user=with_user) for job in jobs], states=1)
    empty = "no job" + (" of that kind" if states or tags or pattern else "")
    if quiet:
        lines, empty = (printable(job.name) for job in jobs), ""
    show(list(map(facts, jobs)), lines, as_json=as_json, empty=empty)


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


_MOST_TASKS = 20
_SIGNALS = 128
_CAUSES = {
    1: "the program failed; see its log for the reason",
    2: "invalid arguments, or the shell could not read the command",
    126: "the command exists but cannot be executed: is it a script without its x bit?",
    127: "the command was not found: is it in the image, and on PATH?",
    128: "the program exited with a code out of range",
    137: "killed with SIGKILL: usually for using more memory than memoryMB, or because the job was ended",
    139: "a segmentation fault in the program or one of its libraries: usually CUDA or an incorrect build",
    143: "ended with SIGTERM: stopped, or evicted by the cluster",
    214: "stopped by its user (OpenPAI 0.7 to 0.14)",
    255: "the program ended with -1, or ssh failed",
    -210: "stopped by its user",
    -220: "stopped because its job had ended",
}


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@json_option(", a list with an object for each job")
@on_cluster
def status(jobs: tuple[str, ...], *, as_json: bool) -> None:
    """Show the state of each JOB: a name, the address of its page, or @latest.

    If JOB is a task's name, the latest submission is shown, with the states of the earlier ones.
    Exit code: 1 if a job does not exist.
    """
    found: list[dict[str, Any]] = []
    missing = False
    with plain_failures():
        cluster = connect()
        for argument in jobs:
            try:
                entry = find_submission(cluster, argument)
            except JobNotFound as error:
                missing = True
                complain(error)
                continue
            reason = _waits_because(cluster, entry.known)
            if not as_json:
                _show_job(cluster, argument, entry, reason, is_first=not found)
            more = {"instance": entry.index, "waits_because": reason, "page": cluster.page(entry.known.name)}
            found.append({**facts(entry.known), **more})
    show(found, (), as_json=as_json)
    raise SystemExit(EXIT_FAILED if missing else 0)


def _show_job(cluster: Cluster, argument: str, entry: Entry, reason: str | None, *, is_first: bool) -> None:
    """Print what is known about the job that an argument names, and which commands to run next."""
    job, name, shared = entry.known, entry.known.name, ""
    if entry.index is not None:
        name, shared = argument, f"{job.name}, instance {entry.index}"
    if not is_first:
        click.echo()
    state = coloured(job.raw_state or job.state.value, job.state.value)
    click.echo(f"{printable(name)}  {state}{_since(job)}")
    pairs = [("job", shared), *_known_fields(job, reason), _earlier(cluster, argument, entry)]
    for line in fields([*pairs, ("page", cluster.page(job.name))]):
        click.echo(line)
    for line in _next_commands(cluster, name, job):
        echo(line)


def _since(job: JobStatus) -> str:
    """Return how long a job has been waiting or running, or how long it took; empty if unknown."""
    if job.finished:
        return f" after {job.took}" if job.took and job.completed_ms else ""
    since = job.launched_ms or (job.created_ms if job.state.value == "WAITING" else None)
    return f" for {duration(time.time() - since / 1000)}" if since else ""


def _known_fields(job: JobStatus, reason: str | None) -> list[tuple[str, str | None]]:
    """Return a job's fields as pairs of name and value; unknown values are empty or None."""
    code, diagnostics = job.command_exit_code, ""
    if code is None and not job.succeeded and reason is None:  # otherwise, the diagnostics add nothing
        diagnostics = "\n".join(filter(None, reason_and_report(job.diagnostics or "")))
    return [
        ("waits", reason),
        ("user", job.username),
        ("virtual cluster", job.virtual_cluster),
        ("submitted", moment(job.created_ms)),
        ("started", moment(job.launched_ms)),
        ("ended", moment(job.completed_ms)),
        ("retries", _retries(job)),
        ("tags", ", ".join(job.tags)),
        ("exit code", _exit_code(job)),
        ("meaning", job.exit_reason),
        ("usual cause", _usual_cause(job.exit_code if code is None else code)),
        ("what may help", job.exit_solution),
        ("diagnostics", diagnostics),
        ("tasks", "\n".join(_tasks(job))),
    ]


def _exit_code(job: JobStatus) -> str:
    code = "" if job.exit_code is None else str(job.exit_code)
    is_other = job.command_exit_code not in (None, job.exit_code)
    of_command = f", its command with {job.command_exit_code}" if is_other else ""
    return code + of_command + (f" ({job.exit_type})" if code and job.exit_type else "")


def _retries(job: JobStatus) -> str:
    if not job.retries:
        return ""
    causes = ", ".join(f"{count} by {cause}" for cause, count in job.retry_causes)
    return f"{job.retries}" + (f" ({causes})" if causes else "")


def _tasks(job: JobStatus) -> list[str]:
    failed = {(task.role, task.index) for task in job.failed_tasks()}
    decided = deciding_task(job) if failed and len(job.tasks) > 1 else None
    tasks = sorted(job.tasks, key=lambda task: (task != decided, (task.role, task.index) not in failed))
    lines = [
        _task(task) + ("  (it ended the job)" if task == decided else "") for task in tasks[:_MOST_TASKS]
    ]
    return lines + ([f"and {len(tasks) - _MOST_TASKS} more"] if len(tasks) > _MOST_TASKS else [])


def _task(task: TaskStatus) -> str:
    parts = [f"{task.role}/{task.index}", task.state or ""]
    parts += [] if task.exit_code is None else [f"exit code {task.exit_code}"]
    parts += [f"started {task.attempt + 1} times"] if task.attempt else []
    return "  ".join(filter(None, parts))


def _earlier(cluster: Cluster, argument: str, entry: Entry) -> tuple[str, str]:
    """Return the ``before`` field: the states of the earlier submissions (NAME, NAME__attempt2, ...)."""
    base = base_name(argument if entry.index is not None else entry.job)
    lines = []
    for earlier in range(1, entry.number):
        name = attempt_name(base, earlier)
        try:
            before = cluster.job(name).status()
        except PaiApiError:
            continue
        code = "" if before.exit_code is None else f", exit code {before.exit_code}"
        lines.append(f"{name}  {before.raw_state}{code}")
    return "before", "\n".join(lines)


def _waits_because(cluster: Cluster, job: JobStatus) -> str | None:
    if job.state.value != "WAITING":
        return None
    try:
        return WaitingReasons(cluster.book).current_reason(job)
    except PaiApiError:
        return None


def _next_commands(cluster: Cluster, name: str, job: JobStatus) -> Iterator[str]:
    there = cluster_option(cluster.section)
    if job.succeeded:
        return
    if cluster.server.gives_logs():
        yield f"  logs: luigi-pai logs{there} {'' if job.finished else '-f '}{name}"
    if not job.finished:
        yield f"  stop: luigi-pai stop{there} {job.name}"
    else:
        again = f"luigi-pai submit{there} --like {name}"
        with contextlib.suppress(PaiApiError):
            if is_masked(cluster.config(job.name)):
                again = "submit its file, because its secrets cannot be read back"
        yield f"  again: run its Luigi task again, or {again}"


def _usual_cause(exit_code: int | None) -> str | None:
    """Return an exit code's usual cause; None for 0 and for codes that any program may choose."""
    if exit_code in _CAUSES:
        return _CAUSES[exit_code]
    number = (exit_code or 0) - _SIGNALS
    return f"ended by {signal.Signals(number).name}" if number in set(signal.Signals) else None
