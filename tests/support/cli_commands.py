"""The commands of luigi-pai, all loaded."""

from __future__ import annotations

import click

from luigi_pai.cli import main

__all__ = ["cli_commands"]


def cli_commands() -> dict[str, click.Command]:
    """Return name -> command."""
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}
