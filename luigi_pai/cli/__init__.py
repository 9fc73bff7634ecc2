"""The command line: ``luigi-pai``."""

from __future__ import annotations

import click

from luigi_pai import __version__
from luigi_pai.cli.files import get, ls, put
from luigi_pai.cli.jobs import convert, render, validate
from luigi_pai.cli.local import local
from luigi_pai.cli.runtime import runtime

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="luigi-pai")
def main() -> None:
    """Run containerised jobs on Microsoft OpenPAI as steps of Luigi pipelines."""


for _command in (convert, get, local, ls, put, render, runtime, validate):
    main.add_command(_command)
