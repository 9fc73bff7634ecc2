"""``luigi-pai put``, ``get``, ``ls`` and ``rm``: work with the cluster's files from the command line."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from luigi_pai.cli.failures import EXIT_FAILED, EXIT_USAGE, give_up, plain_failures
from luigi_pai.cli.job_argument import on_cluster
from luigi_pai.cli.tables import echo, json_option, show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from luigi_pai.files.file_system import FileSystem

_FACTS = ("type", "length", "owner", "group", "permission", "modificationTime")
_jobs = click.option(
    "--jobs", type=click.IntRange(1, 64), default=16, show_default=True, help="Files at once."
)


@click.command()
@click.argument("local")
@click.argument("remote")
@_jobs
@on_cluster
def put(local: str, remote: str, *, jobs: int) -> None:
    """Send the file LOCAL, or the contents of the folder LOCAL, to REMOTE on the cluster.

    Only new and changed files are sent. Files that match the folder's .paiignore, and files
    with credentials, such as .env and luigi.cfg, are left out. The HDFS or storage is the one
    set in [OpenPai] in luigi.cfg, or in [OpenPai:NAME].
    """
    if not os.path.exists(local):  # noqa: PTH110  never raises
        hint = (
            f": to send, write luigi-pai put {remote} '{local}'; to fetch, luigi-pai get '{local}' {remote}"
        )
        is_there = local.startswith(("$", "hdfs:"))
        give_up(f"LOCAL, {local}, is not on this machine{hint if is_there else ''}")
    with plain_failures("stopped; files on the cluster are complete, and the next put continues from there"):
        from luigi_pai.files import cluster_files, upload  # noqa: PLC0415  reads luigi.cfg, which may be invalid

        echo(str(upload(cluster_files(path=remote), local, remote, jobs=jobs)))


@click.command()
@click.argument("remote")
@click.argument("local", type=click.Path())
@_jobs
@on_cluster
def get(remote: str, local: str, *, jobs: int) -> None:
    """Fetch the file REMOTE, or the contents of the folder REMOTE, from the cluster to LOCAL.

    Only new and changed files are fetched. Nothing is removed. If LOCAL is -, the file is
    written to standard output.
    """
    with plain_failures("stopped; files here are complete, and the next get continues from there"):
        from luigi_pai.files import cluster_files, download  # noqa: PLC0415  as in put

        if local == "-":
            with cluster_files(path=remote).open_reader(remote) as reader:
                shutil.copyfileobj(reader, sys.stdout.buffer)
            return
        files = cluster_files(path=remote)
        _check_pattern(files, remote)
        echo(str(download(files, remote, local, jobs=jobs)))


@click.command()
@click.argument("path")
@click.option("-R", "--recursive", is_flag=True, help="Also list subfolders.")
@json_option(", with the field names of WebHDFS")
@on_cluster
def ls(path: str, *, recursive: bool, as_json: bool) -> None:
    """List the folder PATH, or show the file PATH: mode, owner, size, time (UTC), name."""
    with plain_failures():
        from luigi_pai.files import cluster_files  # noqa: PLC0415  as in put

        volume, place = cluster_files(path=path).at(path)
        entries = [
            (below[len(place) :].lstrip("/") or place.rpartition("/")[2], status)
            for below, status in volume.walk(place, recursive=recursive)
        ]
    facts = [{"name": name, **{fact: status[fact] for fact in _FACTS}} for name, status in entries]
    show(facts, _lines([_row(name, status) for name, status in entries]), as_json=as_json)


@click.command()
@click.argument("path")
@click.option("-r", "--recursive", is_flag=True, help="Also delete a folder, with everything in it.")
@on_cluster
def rm(path: str, *, recursive: bool) -> None:
    """Delete the file or folder PATH on the cluster permanently.

    On a storage, files written by containers belong to root or nobody. If you cannot delete
    them, submit a job with the command: rm -r "$PAI_DEFAULT_FS_URI/PATH"
    """
    with plain_failures():
        from luigi_pai.files import cluster_files  # noqa: PLC0415  as in put

        files = cluster_files(path=path)
        if not recursive and files.isdir(path):
            give_up(f"{path} is a folder; delete it with -r", EXIT_USAGE)
        _check_pattern(files, path)
        files.remove(path)


def _check_pattern(files: FileSystem, path: str) -> None:
    """Exit if a path does not exist and looks like a pattern for a shell to expand."""
    if any(letter in path for letter in "*?[") and not files.exists(path):
        give_up(
            f"{path}: the file does not exist, and patterns are not expanded; luigi-pai ls shows the names",
            EXIT_FAILED,
        )


def _row(name: str, status: Mapping[str, Any]) -> tuple[str, ...]:
    from luigi_pai.files.transfer import readable  # noqa: PLC0415  as in put

    is_folder = status["type"] == "DIRECTORY"
    changed = datetime.fromtimestamp(status["modificationTime"] / 1000, timezone.utc)
    return (
        stat.filemode(int(status["permission"], 8) | (stat.S_IFDIR if is_folder else stat.S_IFREG)),
        _printable(status["owner"]),
        "-" if is_folder else readable(status["length"]),
        f"{changed:%Y-%m-%d %H:%M}",
        _printable(name) + ("/" if is_folder else ""),
    )


def _printable(name: str) -> str:
    """Return a name with unprintable characters escaped, because some of them control the terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in name)


def _lines(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield the rows with aligned columns; sizes are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for mode, owner, size, changed, name in rows:
        yield f"{mode}  {owner:{widths[1]}}  {size:>{widths[2]}}  {changed}  {name}"
