"""Prints the output of commands: JSON for programs; tables, sentences and colours for people.

On a terminal, table columns are truncated to fit, and states are coloured unless NO_COLOR is set.
Output to a pipe is neither truncated nor coloured.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import click

from luigi_pai.redaction import printable, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_COLOURS = {
    "SUCCEEDED": "green",
    "RUNNING": "cyan",
    "COMPLETING": "cyan",
    "WAITING": "yellow",
    "RETRY_PENDING": "yellow",
    "FAILED": "red",
    "STOPPED": "magenta",
}
_NARROWEST = 8
_GAP = 2


def json_option(form: str = "") -> Callable[[Any], Any]:
    """Return a command's ``--json`` option; ``form`` describes the JSON document."""
    return click.option("--json", "as_json", is_flag=True, help=f"As JSON{form}.")


def show(facts: object, lines: Iterable[str], *, as_json: bool, empty: str = "") -> None:
    """Print a command's result: facts as JSON, or lines for people.

    ``lines`` may be a generator, which does not run with ``as_json``. If there are no lines, ``empty`` is
    printed on standard error.
    """
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for line in lines:
        click.echo(line)
        empty = ""
    if empty:
        click.echo(empty, err=True)


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def coloured(string: str, state: str) -> str:
    """Return a string in a state's colour; uncoloured without a terminal or if NO_COLOR is set."""
    colour = _COLOURS.get(state)
    return printable(string) if colour is None else styled(string, fg=colour)


def styled(string: str, **style: Any) -> str:
    """Return a string in a click style; unstyled without a terminal or if NO_COLOR is set."""
    string = printable(string)
    if os.environ.get("NO_COLOR") or not is_terminal():
        return string
    return click.style(string, **style)


def echo(message: str, *, err: bool = False) -> None:
    """Print a string's lines without unprintable characters; to standard error if ``err``.

    On a terminal, lines are wrapped between words.
    """
    click.echo(wrapped(printable(message), sys.stderr if err else sys.stdout), err=err)


def write(document: str) -> None:
    """Print a document in UTF-8, whatever the locale; on a terminal, only printable characters."""
    click.echo(encoded(printable(document) if is_terminal() else document), nl=False)


def encoded(document: str) -> bytes:
    """Encode a document in UTF-8; lone surrogates, which UTF-8 cannot represent, are escaped."""
    return document.encode("utf-8", "backslashreplace")


def table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, states: int | None = None
) -> Iterator[str]:
    """Yield the lines of a table with aligned columns; none if there are no rows.

    On a terminal, the widest columns are truncated to fit, but never to fewer than 8 characters.
    Elsewhere, nothing is truncated. ``states`` is the index of the column with states, which are coloured.
    """
    if not rows:
        return
    rows = [[" ".join(printable(cell).splitlines()) for cell in row] for row in [titles, *rows]]
    widths = _widths(rows)
    for number, row in enumerate(rows):
        cells = [cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)]
        cells[-1] = cells[-1].rstrip()
        if states is not None and number > 0:
            cells[states] = coloured(cells[states], row[states])
        yield (" " * _GAP).join(cells).rstrip()


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the column widths, which fit the terminal if possible."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if is_terminal():
        available = shutil.get_terminal_size().columns - _GAP * (len(widths) - 1)
        while sum(widths) > available and max(widths) > _NARROWEST:
            widths[widths.index(max(widths))] -= 1
    return widths


def fields(pairs: Sequence[tuple[str, str | None]], indent: str = "  ") -> list[str]:
    """Return ``name  value`` lines with aligned values; empty values are left out."""
    shown = [(name, printable(value)) for name, value in pairs if value]
    margin = len(indent) + max((len(name) for name, _ in shown), default=0) + _GAP
    lines = []
    for name, value in shown:
        block = wrapped(textwrap.indent(value, " " * margin), sys.stdout)
        lines += (f"{indent}{name}".ljust(margin) + block[margin:]).split("\n")
    return [line.rstrip() for line in lines]


def cut(string: str, width: int) -> str:
    """Truncate a string to a width: drop the middle of a name, or the end of a string with blanks."""
    if len(string) <= width:
        return string
    end = 0 if " " in string else (width - 1) // 2  # a sweep's job names differ at the end
    return f"{string[: width - 1 - end]}…{string[len(string) - end :]}"
