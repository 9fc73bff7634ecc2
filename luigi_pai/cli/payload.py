"""``luigi-pai payload``: what a task sends to the cluster."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from luigi_pai.cli.failures import give_up, plain_failures
from luigi_pai.cli.tables import table, tell
from luigi_pai.cli.task_argument import TaskCommand, reading_files, task_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from luigi_pai.payload.file import Contents
    from luigi_pai.task import PaiTask


@click.command(cls=TaskCommand)
@click.argument("module")
@click.argument(
    "arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="TASK [--param VALUE]..."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def payload(module: str, arguments: Sequence[str], *, as_json: bool) -> None:
    """Show what TASK of MODULE sends to the cluster: files, values, and the names of secrets.

    Nothing is sent or looked up.
    """
    from luigi_pai.python_task import PaiPythonTask, contents  # noqa: PLC0415  loads Luigi
    from luigi_pai.task import PaiTask  # noqa: PLC0415  as above

    task = task_named(module, arguments)
    if not isinstance(task, PaiTask):
        give_up(f"{arguments[0]} of {module} is not a PaiTask: it sends only its job, see luigi-pai render")
    with plain_failures(), reading_files(module, arguments):
        uploads = list(_uploads(task))
        found = contents(task) if isinstance(task, PaiPythonTask) else None
    if as_json:
        whole = {} if found is None else asdict(found)
        click.echo(json.dumps({"task": str(task), "uploads": uploads, **whole}, indent=2))
        return
    for line in [*_upload_lines(uploads), *(_lines(found) if found else ())]:
        click.echo(line)
    if not uploads and found is None:
        tell(f"{task} sends only its job, see luigi-pai render")


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


def _lines(found: Contents) -> Iterator[str]:
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
