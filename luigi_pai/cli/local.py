"""``luigi-pai local``: runs an OpenPAI server on this machine."""

from __future__ import annotations

import logging
import os
import secrets
import shlex
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from luigi_pai.cli.failures import complain, give_up
from luigi_pai.cli.tables import echo, styled
from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from luigi_pai.local.serve import CommandEnd
    from luigi_pai.local.server import LocalServer

_NAMED = 5
"""How many failed jobs the final message names, at most."""

_OWN_HDFS = "own"
"""The value of ``--hdfs`` without a URL."""


class _WithCommand(click.Command):
    """A command that can run another command, which follows ``--`` with its own options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options; if one is unknown, say that COMMAND's options go after ``--``."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            hint = f"for an option of COMMAND, write {ctx.command_path} [OPTIONS] -- COMMAND ..."
            raise click.UsageError(f"{error.format_message()}\n({hint})", ctx) from None


@click.command("local", cls=_WithCommand)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Port; 0 for any free one.  [default: 9186; with COMMAND a free one]",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of jobs and files.  "
    "[default: ~/.local/share/luigi_pai/local; with COMMAND a temporary folder]",
)
@click.option("--user", metavar="NAME", default="admin", show_default=True, help="The administrator.")
@click.option(
    "--virtual-cluster",
    "virtual_clusters",
    multiple=True,
    metavar="NAME[:cpu=N,memory=MB,gpu=N]",
    help="A virtual cluster in addition to `default`, or the capacity of `default` itself; may be repeated. "
    "The defaults are 64 CPUs, 262144 MB and 8 GPUs, whatever the machine has. They are compared with what "
    "jobs request, and do not limit processes. A job that requests more waits until you stop it: with "
    "`default:gpu=16`, a job with 16 GPUs can run.",
)
@click.option(
    "--max-tasks",
    type=click.IntRange(1),
    metavar="N",
    default=64,
    show_default=True,
    help="How many tasks run at once; other jobs wait.",
)
@click.option(
    "--hdfs",
    is_flag=False,
    flag_value=_OWN_HDFS,
    metavar="[URL]",
    help="Use the HDFS whose WebHDFS is at URL or, without URL, an HDFS of its own.  "
    "[default: its own with --api v1, else none]",
)
@click.option(
    "--fs-uri", metavar="URI", help="hdfs://HOST:PORT of the HDFS at URL, if it does not report it."
)
@click.option(
    "--api",
    type=click.Choice(["v2", "v1", "ltp"]),
    help="Which OpenPAI to act as: v2 is 1.8, v1 is 0.7.1, ltp is their successor, LTP 1.5.  "
    "[default: v2; with COMMAND the api_version of your luigi.cfg]",
)
@click.option("--faults", metavar="JSON", help="Faults to inject, to test clients: see docs/local.md.")
@click.option(
    "--rate-limits",
    metavar="default|CALLS,LISTS,SUBMISSIONS",
    help="Rate limits of 1.x for v2 requests: `default` is 600 calls and 60 lists a minute, 60 submissions "
    "an hour.  [default: none]",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Loopback address to listen on.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND ...]")
def local(
    *,
    port: int | None,
    data: Path | None,
    hdfs: str | None,
    api: str | None,
    faults: str | None,
    command: tuple[str, ...],
    **settings_as_given: Any,
) -> None:
    """Run an OpenPAI server, with its files, on this machine.

    Jobs run as your own processes; images are not used. The server prints its
    address, which you can open in a browser, and the lines for luigi.cfg, and runs
    until Ctrl-C. Jobs and files are kept for the next start. OpenPAI 1.8 and LTP
    have the storage `nfs1`, which jobs mount at /mnt/nfs1; 0.7.1 has an HDFS.

    With `-- COMMAND ...`, the server stops when COMMAND ends. Jobs and logs are then
    removed, unless a job failed or you pass --data. Luigi in COMMAND finds the
    server automatically. The exit code is COMMAND's.

    \b
      luigi-pai local
      luigi-pai local -- luigi --module pipeline Train --local-scheduler

    The password is `admin-password`, or a new one for each COMMAND; to choose it,
    set LUIGI_PAI_LOCAL_PASSWORD. Only you can connect.
    """  # noqa: D301 - click needs a backspace here, not a backslash
    import asyncio  # noqa: PLC0415  loaded only to run the server

    from luigi_pai.local import serve  # noqa: PLC0415 - tornado is loaded only here
    from luigi_pai.local.config.rules import read_faults  # noqa: PLC0415 - as above
    from luigi_pai.local.config.settings import (  # noqa: PLC0415 - as above
        DEFAULT_API,
        DEFAULT_PASSWORD,
        DEFAULT_PORT,
        PASSWORD_VARIABLE,
        Settings,
        default_data_folder,
    )
    from luigi_pai.local.luigi_config import configured_api  # noqa: PLC0415 - as above

    code = 0
    try:
        if command:
            port, password = port or 0, secrets.token_urlsafe()
            api = api or configured_api()
        else:
            port, password = DEFAULT_PORT if port is None else port, DEFAULT_PASSWORD
        settings = Settings(
            data=(data or default_data_folder()).absolute(),
            port=port,
            password=os.environ.pop(PASSWORD_VARIABLE, "") or password,
            hdfs=True if hdfs == _OWN_HDFS else hdfs,
            api=api or DEFAULT_API,
            faults=None if faults is None else read_faults(faults),
            **settings_as_given,
        )
        _show_warnings()
        if command:
            run = serve.run_command(settings, command, _print_address, temporary_data=data is None)
            end = asyncio.run(run)
            _print_end(end, settings.api)
            code = end.exit_code
        else:
            asyncio.run(serve.serve(settings, _welcome))
    except ConfigError as error:
        give_up(error)
    sys.exit(code)


def _show_warnings() -> None:
    """Also write the server's warnings to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("luigi-pai local: %(message)s"))
    logging.getLogger("luigi_pai.local.warnings").addHandler(handler)


def _print_address(server: LocalServer) -> None:
    complain(f"OpenPAI at {server.address.url}, data in {server.settings.data}")


def _print_end(end: CommandEnd, api: str) -> None:
    """Print how to view a finished command's jobs."""
    if not end.jobs:
        return
    if end.data is None:
        words = "1 job" if end.jobs == 1 else f"{end.jobs} jobs"
        stopped = "running jobs are stopped, " if end.exit_code else ""
        complain(f"{words}, none failed; {stopped}pages and logs are removed (--data DIR keeps them)")
        return
    if end.failed:
        more = ", ..." if len(end.failed) > _NAMED else ""
        names = ", ".join(end.failed[:_NAMED])
        complain(f"{len(end.failed)} of {end.jobs} jobs failed: {names}{more}")
    pages = f"luigi-pai local --port 0 --api {api} --data {shlex.quote(str(end.data))}"
    complain(f"logs are in {end.data / 'jobs'}; for the pages: {pages}")


def _welcome(server: LocalServer) -> None:
    """Print the server's URLs, user and folders, and the lines for luigi.cfg."""
    address, hdfs, data = server.address, server.hdfs, server.settings.data
    files = f"HDFS      {hdfs.fs_uri}  (WebHDFS: {hdfs.webhdfs_url}/webhdfs/v1)\n  " if hdfs.fs_uri else ""
    if not server.release.has_hdfs:
        files += f"Storages  {data / 'storages'}\n  "
    click.echo(styled(f"{server.release.name} on this machine", bold=True))
    echo(
        f"""
  Jobs      {address.url}
  {files}User      {server.settings.user}
  Data      {data}

For luigi.cfg:

{textwrap.indent(server.config_lines, "  ")}

Ctrl-C ends the server and its running tasks; their jobs are tried again at the next start."""
    )
