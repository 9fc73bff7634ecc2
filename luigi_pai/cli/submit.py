"""``luigi-pai submit``: submits a job file, or an earlier job again."""

from __future__ import annotations

import dataclasses
import json
import re
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from luigi_pai.api.logs.reader import LogReader
from luigi_pai.cli.failures import EXIT_FAILED, complain, give_up, plain_failures
from luigi_pai.cli.job_argument import connect, find_submission, on_cluster
from luigi_pai.cli.jobs import job_of_file
from luigi_pai.cli.logs import print_lines, report_unreadable
from luigi_pai.cli.tables import echo
from luigi_pai.config_file import cluster_option
from luigi_pai.errors import (
    ClusterUnreachable,
    InvalidReply,
    JobNotFound,
    NameConflict,
    PaiApiError,
)
from luigi_pai.jobspec.demand import oversize_warning
from luigi_pai.jobspec.hints import closest
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.jobspec.names import base_name
from luigi_pai.jobspec.paths import path_text
from luigi_pai.jobspec.protocol import JobProtocol
from luigi_pai.jobspec.templates.secrets import is_masked
from luigi_pai.jobspec.validate import validate_job
from luigi_pai.redaction import MASK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.job import Job
    from luigi_pai.api.status import JobStatus

_SHOWN_WITHIN, _LOOK_AGAIN = 60.0, 0.5  # seconds


@click.command()
@click.argument("file", required=False, metavar="FILE|-")
@click.argument("further", nargs=-1, metavar="")
@click.option("--like", "like", metavar="JOB", help="Submit one of your earlier jobs again.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a job protocol's parameter, or a path in the file, such as taskRoles.worker.instances=4; "
    "may be repeated.",
)
@click.option("--name", metavar="NAME", help="The job's name, instead of the one in the file.")
@click.option("--wait", is_flag=True, help="Wait for the job to end; exit code 1 if it failed.")
@click.option("-f", "--follow", is_flag=True, help="Wait for the job, and show its logs meanwhile.")
@on_cluster
def submit(
    file: str | None,
    further: tuple[str, ...],
    *,
    like: str | None,
    settings: tuple[str, ...],
    name: str | None,
    wait: bool,
    follow: bool,
) -> None:
    """Submit FILE, a v1 job config in JSON or a job protocol in YAML; `-` reads standard input.

    Only the job's name is printed on standard output. The command returns as soon as the
    cluster accepts the job.

    \b
      name=$(luigi-pai submit train.yaml --set epochs=20 --name train-20)
      luigi-pai logs -f $name
    """  # noqa: D301 - click needs a backspace here, not a backslash
    if (file is None) == (like is None):
        give_up("name a FILE (or - for standard input), or --like JOB")
    if further:
        hint = f"; did you mean --set {further[0]}?" if "=" in further[0] else ""
        give_up(f"unexpected argument {further[0]}{hint}")
    changes = [_change(setting) for setting in settings]
    with plain_failures("stopped; if the job was submitted, it continues"):
        cluster = connect()
        if like is not None:
            document = _earlier(cluster, like, has_new_name=name is not None)
            source = f"--like {like}"
        else:
            document, source = _of_file(str(file))
            _check_secrets(document, source, "fill them in")
        job = _job(document, changes, name, source)
        _warn_of_size(cluster, job)
        try:
            handle = cluster.submit(job)
        except NameConflict as error:
            raise error.extended("names cannot be reused; choose another name with --name NAME") from None
        click.echo(handle.name, err=follow)
        if follow:
            _follow(handle)
        elif wait:
            _wait(handle)
        else:
            echo(f"page: {handle.url}", err=True)
            if cluster.server.gives_logs():
                echo(f"logs: luigi-pai logs{cluster_option(cluster.section)} -f {handle.name}", err=True)


def _of_file(file: str) -> tuple[dict[str, Any], str]:
    """Return the document in a job file or standard input, and the source's name for errors."""
    path, content = Path(file), None
    if file == "-":
        path, content = Path("standard input"), sys.stdin.buffer.read()
    elif path.is_dir():
        give_up(f"{file}: is a folder, not a job file")
    elif not path.exists():  # not is_file(), which is False for a shell's <(...)
        give_up(f"{file}: there is no such file")
    return job_of_file(path, content).document, str(path)


def _earlier(cluster: Cluster, argument: str, *, has_new_name: bool) -> dict[str, Any]:
    """Return an earlier job's document. Without ``--name``, the document gets a new name."""
    name = find_submission(cluster, argument).job
    document = cluster.config(name)
    try:
        json.dumps(document, allow_nan=False)
    except ValueError as error:  # NaN or Infinity, which no field can have
        give_up(f"the server's copy of job {name} is not a valid job: {error}", EXIT_FAILED)
    _check_secrets(document, f"job {name}", "secrets cannot be read back; submit the job's file instead")
    key = "name" if "protocolVersion" in document else "jobName"
    if not has_new_name:
        document[key] = f"{base_name(name)}-{secrets.token_hex(2)}"
    return document


def _check_secrets(document: dict[str, Any], source: str, advice: str) -> None:
    """Exit if a document's secrets are masked, as they are in every document from a server."""
    if is_masked(document):
        give_up(f"{source} contains {MASK} instead of secrets: {advice}")


def _change(setting: str) -> tuple[list[str], Any]:
    """Return a ``--set`` option's path and value."""
    key, equals, value = setting.partition("=")
    path = key.split(".")
    if not equals or not all(path):
        give_up(f"--set {key}: write KEY=VALUE, such as epochs=20")
    if path[0] == "secrets":
        give_up("--set secrets: other users can read the command line; put secrets in the job file")
    try:
        return path, json.loads(value)
    except ValueError:
        return path, value


def _job(
    document: dict[str, Any], changes: Sequence[tuple[list[str], Any]], name: str | None, source: str
) -> PaiJob | JobProtocol:
    """Build a job from a document, with the requested changes."""
    is_protocol = "protocolVersion" in document
    for path, value in changes:
        is_parameter = is_protocol and len(path) == 1 and _is_parameter(document, path[0], source)
        whole = ["parameters", *path] if is_parameter else path
        _put(document, whole, value, source)
        if not is_protocol:
            _check_field(document, path)
    if name is not None:
        document["name" if is_protocol else "jobName"] = name
    try:
        return JobProtocol.from_dict(document) if is_protocol else PaiJob.from_dict(document)
    except (TypeError, OverflowError) as error:  # values in the server's document have the wrong types
        return give_up(f"{source} is not a job: {error}")


def _put(document: Any, path: Sequence[str], value: Any, source: str) -> None:
    """Set the value at a path. Steps before the last must exist; only a missing ``parameters`` is added."""
    *above, last = path
    place = document
    for step in above:
        if step == "parameters" and isinstance(place, dict):
            place.setdefault(step, {})
        place = place[_key(place, step, path, source)]
    place[last if isinstance(place, dict) else _key(place, last, path, source)] = value


def _key(place: Any, step: str, path: Sequence[str], source: str) -> str | int:
    """Return a path's step as a key or index; exit if the mapping or list does not have it."""
    if isinstance(place, dict) and step in place:
        return step
    if isinstance(place, list) and step.isdecimal() and int(step) < len(place):
        return int(step)
    hint = ""
    if isinstance(place, dict):
        hint = f"; there is {', '.join(map(str, place))}"
    elif isinstance(place, list):
        hint = f"; there is 0 to {len(place) - 1}"
    return give_up(f"--set {'.'.join(path)}: {source} has no {step}{hint}")


def _is_parameter(document: dict[str, Any], key: str, source: str) -> bool:
    """Return True if a key is one of a job protocol's parameters, and False if it is one of its fields.

    If it is neither, exit, because it would not affect the job.
    """
    parameters = document.get("parameters")
    known = list(map(str, parameters)) if isinstance(parameters, dict) else []
    is_used = re.search(rf"\$parameters\.{re.escape(key)}(?![\w-])", json.dumps(document)) is not None
    if is_used or key in known:
        if not is_used:
            complain(f"warning: --set {key}: nothing in {source} uses <% $parameters.{key} %>")
        return True
    if key in [field.name for field in dataclasses.fields(JobProtocol) if field.init]:
        return False
    near = closest(key, known)
    hint = f"did you mean {near}?" if near else f"it has {', '.join(known) or 'none'}"
    return give_up(f"--set {key}: {source} does not use a parameter {key}; {hint}")


def _check_field(document: dict[str, Any], path: Sequence[str]) -> None:
    """Exit if a path is not a field of a v1 job config, because PaiJob would silently drop it."""
    place = path_text(tuple(int(step) if step.isdecimal() else step for step in path))
    for problem in validate_job(document):
        if problem.path == place and "not a field" in problem.message:
            give_up(f"--set {'.'.join(path)}: {problem.message}")


def _warn_of_size(cluster: Cluster, job: PaiJob | JobProtocol) -> None:
    try:
        warning = oversize_warning(cluster.book.virtual_clusters() or {}, job)
    except (ClusterUnreachable, InvalidReply):
        raise  # do not call submit(), which retries for 30 min even if pai_url is wrong
    except PaiApiError:
        return  # submitting the job will report the error
    if warning is not None:
        complain(f"warning: {warning}")


def _wait(handle: Job) -> None:
    """Wait for a job, print how its state changes and why it is waiting, and exit with its result."""
    last = ""

    def show(status: JobStatus, waits_because: str | None = None) -> None:
        nonlocal last
        line = f"{status.name}: {status.summary(waits_because)}"
        if line != last and not status.finished:  # _end prints the final state
            echo(line, err=True)
        last = line

    handle.wait(on_change=show, on_waiting=show)
    _end(handle)


def _follow(handle: Job) -> None:
    _until_shown(handle)
    reader = LogReader(handle.book, handle.name, secrets=handle.secrets)
    print_lines(reader, reader.follow())
    report_unreadable(reader)
    _end(handle)


def _until_shown(handle: Job) -> None:
    """Wait up to 60 s until the server returns the status of the job just submitted."""
    clock = handle.book.api.clock
    end = clock.monotonic() + _SHOWN_WITHIN
    while clock.monotonic() < end:
        try:
            handle.status()
        except JobNotFound:
            clock.sleep(_LOOK_AGAIN)
        except PaiApiError:  # the log reader will get the same error, and retry or raise it
            return
        else:
            return


def _end(handle: Job) -> None:
    failure = handle.failure()
    if failure is not None:
        echo(str(failure), err=True)
        sys.exit(EXIT_FAILED)
    echo(f"{handle.name}: {handle.status().raw_state}", err=True)
