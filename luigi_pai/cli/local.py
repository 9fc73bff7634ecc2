"""``luigi-pai local``: an OpenPAI on this machine."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from luigi_pai.cli.failures import EXIT_USAGE, give_up
from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from luigi_pai.local.server import LocalServer

__all__ = ["local"]

_RELEASES = {"v1": "0.7.1", "v2": "1.8", "both": "0.7.1 and 1.8"}


@click.command("local", short_help="Run an OpenPAI on this machine.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0 for any free one.  [default: 9186]")
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), help="Folder that keeps jobs and files."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--user", default="admin", show_default=True, help="Name of the administrator.")
@click.option(
    "--virtual-cluster",
    multiple=True,
    metavar="NAME[:cpu=N,memory=MB,gpu=N]",
    help="One more beside `default`, or what `default` has.  [default: this machine's, gpu=8]",
)
@click.option(
    "--max-tasks", type=click.IntRange(1), default=64, show_default=True, help="Task processes at once."
)
@click.option("--hdfs", metavar="URL", help="WebHDFS of a real HDFS, used in place of one of its own.")
@click.option("--fs-uri", metavar="URI", help="hdfs://HOST:PORT of that HDFS, if it does not say so itself.")
@click.option(
    "--api",
    type=click.Choice(["both", "v1", "v2"]),
    default="both",
    show_default=True,
    help="Which OpenPAI to be: v1 is 0.7.1, v2 is 1.8.",
)
@click.option("--faults", metavar="FILE|JSON", help="What is to go wrong, for tests: see docs/local.md.")
@click.option("--webhook", metavar="URL", help="Called when the state of a job changes that asks for it.")
@click.option(
    "--rate-limits",
    metavar="default|CALLS,LISTS,SUBMITS",
    help="Limits of 1.x on v2 requests: `default` is 600 calls and 60 lists a minute, 60 submits an hour.",
)
@click.option("--insecure-bind", is_flag=True, help="Allow a --host that other machines can reach.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def local(
    *,
    port: int | None,
    data: Path | None,
    host: str,
    user: str,
    virtual_cluster: tuple[str, ...],
    max_tasks: int,
    hdfs: str | None,
    fs_uri: str | None,
    api: str,
    faults: str | None,
    webhook: str | None,
    rate_limits: str | None,
    insecure_bind: bool,
    command: tuple[str, ...],
) -> None:
    """Run an OpenPAI 0.7.1 with its HDFS, and a 1.8, on this machine; jobs run as processes of yours.

    With `-- COMMAND ...` the server runs only as long as COMMAND, on a free port
    and in a temporary folder unless told otherwise, and Luigi in COMMAND finds
    it by itself; the exit code is COMMAND's.

    The password is `admin-password`, or what LUIGI_PAI_LOCAL_PASSWORD says.
    """
    from luigi_pai.local import serve  # noqa: PLC0415 - tornado is loaded only where a server is run
    from luigi_pai.local.faults import read_faults  # noqa: PLC0415 - as above
    from luigi_pai.local.settings import (  # noqa: PLC0415 - as above
        DEFAULT_PORT,
        PASSWORD_VARIABLE,
        Settings,
        default_data_folder,
    )

    try:
        settings = Settings(
            data=(data or default_data_folder()).absolute(),
            host=host,
            port=port if port is not None else 0 if command else DEFAULT_PORT,
            user=user,
            password=os.environ.pop(PASSWORD_VARIABLE, None) or None,
            virtual_clusters=virtual_cluster,
            max_tasks=max_tasks,
            insecure_bind=insecure_bind,
            hdfs=hdfs,
            fs_uri=fs_uri,
            api=api,
            faults=None if faults is None else read_faults(faults),
            webhook=webhook,
            rate_limits=rate_limits,
        )
        _show_warnings()
        if command:
            code = asyncio.run(serve.run_command(settings, command, _say_where, temporary_data=data is None))
        else:
            code = 0
            asyncio.run(serve.serve(settings, _welcome, _farewell))
    except ConfigError as error:
        give_up("local", error, EXIT_USAGE)
    sys.exit(code)


def _show_warnings() -> None:
    """Have what somebody should know at once written to standard error, too."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("luigi-pai local: %(message)s"))
    logging.getLogger("luigi_pai.local.warnings").addHandler(handler)


def _say_where(server: LocalServer) -> None:
    click.echo(f"luigi-pai local: OpenPAI at {server.address.url}, data in {server.settings.data}", err=True)


def _welcome(server: LocalServer) -> None:
    """Print where everything is, and the lines for luigi.cfg."""
    from luigi_pai.local.settings import DEFAULT_PASSWORD, PASSWORD_VARIABLE  # noqa: PLC0415 - as in local()

    address, hdfs = server.address, server.hdfs
    password = server.settings.password or DEFAULT_PASSWORD
    shown = password if password == DEFAULT_PASSWORD else f"(the one in {PASSWORD_VARIABLE})"
    click.secho(f"OpenPAI {_RELEASES[server.settings.api]} on this machine", bold=True)
    click.echo(
        f"""
  Jobs      {address.url}
  HDFS      {hdfs.fs_uri}  (WebHDFS: {hdfs.webhdfs_url}/webhdfs/v1)
  User      {server.settings.user}
  Data      {server.settings.data}

For luigi.cfg:

  [OpenPai]
  pai_url = {address.url}
  username = {server.settings.user}
  password = {shown}
  fs_uri = {hdfs.fs_uri}
  webhdfs_url = {hdfs.webhdfs_url}
  portal_url = {address.url}

Ctrl-C ends the server and its running tasks; their jobs are tried again at the next start."""
    )


def _farewell(server: LocalServer) -> None:
    if server.running_tasks:
        click.echo(f"Ending {server.running_tasks} running tasks; Ctrl-C again ends them at once.")
