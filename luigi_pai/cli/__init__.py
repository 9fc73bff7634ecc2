"""The command line: ``luigi-pai``."""

from __future__ import annotations

import sys

import click

from luigi_pai import __version__
from luigi_pai.cli.doctor import doctor
from luigi_pai.cli.files import get, ls, put
from luigi_pai.cli.jobs import config, convert, render, runtime, validate
from luigi_pai.cli.listing import list_jobs
from luigi_pai.cli.local import local
from luigi_pai.cli.logs import logs
from luigi_pai.cli.plan import plan
from luigi_pai.cli.run import run
from luigi_pai.cli.ssh import ssh, ssh_config
from luigi_pai.cli.status import status
from luigi_pai.cli.stop import stop
from luigi_pai.cli.submit import submit
from luigi_pai.cli.sweep import sweep
from luigi_pai.console import escape_what_is_not_encodable

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="luigi-pai")
def main() -> None:
    """Run containerised jobs on Microsoft OpenPAI as steps of Luigi pipelines."""
    escape_what_is_not_encodable(sys.stdout)


for _command in (
    config,
    convert,
    doctor,
    get,
    list_jobs,
    local,
    logs,
    ls,
    plan,
    put,
    render,
    run,
    runtime,
    ssh,
    ssh_config,
    status,
    stop,
    submit,
    sweep,
    validate,
):
    main.add_command(_command)
