"""``luigi-pai validate``, ``convert``, ``config``, ``render`` and ``runtime``, which do not submit."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from luigi_pai import runtime as module_of_containers
from luigi_pai.cli.failures import EXIT_FAILED, give_up, plain_failures
from luigi_pai.cli.job_argument import connect, find_submission, on_cluster
from luigi_pai.cli.tables import echo, encoded, json_option, show, write
from luigi_pai.cli.task_argument import TaskCommand, reading_files, task_named
from luigi_pai.errors import SpecError
from luigi_pai.jobspec.arrays.jobs import job_in
from luigi_pai.jobspec.convert import convert as to_protocol
from luigi_pai.jobspec.dialects.yaml_text import write_yaml
from luigi_pai.jobspec.job_file import JobFile, read_job_file
from luigi_pai.jobspec.protocol import JobProtocol
from luigi_pai.jobspec.schema_problems import in_one_line
from luigi_pai.jobspec.submission import rendered
from luigi_pai.jobspec.templates.secrets import is_masked
from luigi_pai.jobspec.validate_protocol import refused
from luigi_pai.redaction import MASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from luigi_pai.errors import Problem
    from luigi_pai.jobspec.job import PaiJob

_RELEASE = re.compile(r"(ltp-)?v?(\d)\.(\d{1,2})(\.\d)?")
_RELEASES = {None: ((0, 7), (1, 8)), "ltp-": ((1, 0), (1, 5))}
"""The first and last known releases of OpenPAI and of LTP."""


def _is_release(_context: click.Context, _option: click.Parameter, release: str | None) -> str | None:
    if release is None:
        return None
    found = _RELEASE.fullmatch(release)
    first, last = _RELEASES[found[1] if found else None]
    if found is None or not first <= (int(found[2]), int(found[3])) <= last:
        raise click.BadParameter(
            f"{release!r} is not a release;\ngive OpenPAI's 0.7.1 to 1.8.0 or LTP's ltp-1.0 to ltp-1.5"
        )
    return release


_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("files", nargs=-1, required=True, type=_file, metavar="FILE...")
@click.option("--lenient", is_flag=True, help="Reject a file only if the server would reject it.")
@click.option(
    "--release",
    metavar="VERSION",
    callback=_is_release,
    help="The release to check for: OpenPAI 0.7.1 to 1.8.0, or LTP ltp-1.0 to ltp-1.5.  [default: any]",
)
@json_option(", a list with an object for each problem")
def validate(files: Sequence[Path], *, lenient: bool, release: str | None, as_json: bool) -> None:
    """Check each FILE, a v1 job config in JSON or a job protocol in YAML, before you submit it.

    Each problem is one line, `FILE: PATH: message`. Exit code: 0 if all files are valid, 1 if not.
    """
    rows: list[dict[str, Any]] = []
    all_valid = True
    for path in files:
        problems = list(_problems(path, release))
        refusals = refused(problems, lenient=lenient)
        all_valid = all_valid and not refusals
        for problem in problems:
            warning = "" if problem in refusals else "warning: "
            rows.append({"file": str(path), **asdict(problem), "refused": problem in refusals})
            if not as_json:
                echo(f"{path}: {warning}{in_one_line(str(problem))}")
        if not as_json and not refusals:
            click.echo(f"{path}: valid")
    show(rows, (), as_json=as_json)
    sys.exit(0 if all_valid else EXIT_FAILED)


@click.command()
@click.argument("file", type=_file)
@click.option("--fs-uri", metavar="URI", help="The value of $PAI_DEFAULT_FS_URI: hdfs://HOST:PORT.")
def convert(file: Path, *, fs_uri: str | None) -> None:
    """Write the v1 job config FILE as a job protocol (YAML) to standard output.

    Dropped and changed fields are listed on standard error.
    """
    job = job_of_file(file)
    if job.api_version == "v2":
        give_up(f"{file} is already a job protocol")
    try:
        conversion = to_protocol(job.document, fs_uri=fs_uri)
    except SpecError as error:
        refuse(file, error.problems)
    for loss in conversion.losses:
        echo(f"{file}: {in_one_line(str(loss))}", err=True)
    write(conversion.protocol.to_yaml())


@click.command()
@click.argument("job")
@click.option("-o", "output", type=click.Path(dir_okay=False, path_type=Path), help="The file to write.")
@click.option(
    "--whole", is_flag=True, help="For a point in a shared job: write the whole job, with all its points."
)
@on_cluster
def config(job: str, *, output: Path | None, whole: bool) -> None:
    """Write JOB as the server stored it: a v1 job config in JSON, or a job protocol in YAML.

    You can submit the file under another --name. Secrets are shown as ******; fill them in first.
    """
    with plain_failures():
        cluster = connect()
        entry = find_submission(cluster, job)
        name = entry.job
        document = cluster.config(name)
        if entry.index is not None and not whole:
            document = job_in(document, entry.index)
        lacks_secrets = is_masked(document)
        if document.get("secrets") == MASK:
            used = re.findall(r"\$secrets\.(\w+)", json.dumps(document))
            document["secrets"] = dict.fromkeys(used, MASK)
        is_protocol = "protocolVersion" in document
        content = write_yaml(document) if is_protocol else f"{json.dumps(document, indent=2)}\n"
        if output is None:
            write(content)
        else:
            output.write_bytes(encoded(content))
        if lacks_secrets:
            echo(f"job {name} has secrets, which are shown as {MASK}: fill them in", err=True)


@click.command(cls=TaskCommand)
@click.argument("source", metavar="MODULE|FILE")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[TASK [--param VALUE]...]")
@click.option("--filled", is_flag=True, help="Show the commands as the server renders them.")
def render(source: str, arguments: Sequence[str], *, filled: bool) -> None:
    """Show the job in FILE, or the job that TASK in MODULE submits, without sending it.

    Pass the task's parameters as you do to luigi. Secrets are shown as ******.
    """
    with plain_failures():
        job = _job_of_task(source, arguments) if arguments else _job_of_file(Path(source))
        write(rendered(job, filled=filled))


def _problems(path: Path, release: str | None) -> Iterator[Problem]:
    try:
        yield from read_job_file(path).problems(release)
    except SpecError as error:
        yield from error.problems


def job_of_file(path: Path, content: bytes | None = None) -> JobFile:
    """Return the job in a file. If servers would reject or misread it, print the problems and exit.

    ``content``: The file's content, if you have already read it; if None, the file is read.
    """
    try:
        job = read_job_file(path, content)
    except SpecError as error:
        refuse(path, error.problems)
    except OSError as error:
        give_up(f"{path} cannot be read: {error.strerror}")
    if problems := refused(job.warnings) or refused(job.problems(), lenient=True):
        refuse(path, problems)
    return job


def refuse(file: Path, problems: Sequence[Problem]) -> NoReturn:
    """Print each of a file's problems on one line, and exit."""
    for problem in problems:
        echo(f"{file}: {in_one_line(str(problem))}", err=True)
    sys.exit(EXIT_FAILED)


def _job_of_file(path: Path) -> PaiJob | JobProtocol | dict[str, Any]:
    """Return the job in a file: a JobProtocol, or a v1 job config as a document."""
    if not path.is_file():
        give_up(f"{path} is not a file; name a file, or MODULE TASK")
    job = job_of_file(path)
    if job.api_version == "v1":
        document: dict[str, Any] = job.document
        return document
    try:
        return JobProtocol.from_yaml(job.text, str(path))
    except SpecError as error:  # for problems that the lenient check ignored
        refuse(path, error.problems)


def _job_of_task(module: str, arguments: Sequence[str]) -> PaiJob | JobProtocol:
    from luigi_pai.protocol_task import PaiProtocolTask  # noqa: PLC0415  loads Luigi
    from luigi_pai.task import PaiTask  # noqa: PLC0415

    task = task_named(module, arguments)
    if not isinstance(task, (PaiTask, PaiProtocolTask)):
        give_up(f"{arguments[0]} is neither a PaiTask nor a PaiProtocolTask")
    with reading_files(module, arguments):
        return task._job()  # noqa: SLF001  of this package


@click.command()
def runtime() -> None:
    """Write luigi_pai.runtime to standard output, as one file for an image with Python 3.6 or later.

    luigi-pai runtime > pai_runtime.py
    """
    click.echo(Path(module_of_containers.__file__).read_text("utf-8"), nl=False)
