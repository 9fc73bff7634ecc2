"""``luigi-pai runtime``: the file that runs in containers."""

from __future__ import annotations

from pathlib import Path

import click

from luigi_pai import runtime as module

__all__ = ["runtime"]


@click.command(short_help="Write pai_runtime.py, for images without luigi_pai.")
def runtime() -> None:
    """Write luigi_pai.runtime to standard output: one file for the Python of an image, 3.6 or later.

    luigi-pai runtime > pai_runtime.py
    """
    click.echo(Path(module.__file__).read_text("utf-8"), nl=False)
