"""Notebooks: tables of jobs and of a sweep's points, and a progress line in a cell's output.

IPython displays the tables and the line. Every kernel has IPython, so no other package is needed.
"""

from __future__ import annotations

import html
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from luigi_pai.redaction import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import Self

__all__ = ["Drawing", "Link", "html_table", "is_notebook"]

_SCHEMES = ("http://", "https://")
_COLOURS = {
    "SUCCEEDED": "#1a7f37",
    "RUNNING": "#0969da",
    "COMPLETING": "#0969da",
    "WAITING": "#9a6700",
    "RETRY_PENDING": "#9a6700",
    "FAILED": "#cf222e",
    "STOPPED": "#8250df",
}


def is_notebook() -> bool:
    """Return whether this process is a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    get_shell = getattr(ipython, "get_ipython", None)
    return get_shell is not None and getattr(get_shell(), "kernel", None) is not None


class Link(str):  # noqa: SLOT000  a string with an additional attribute
    """A link's label.

    Attributes:
        url: The link's target; if its scheme is not http or https, only the label is shown.
    """

    url: str

    def __new__(cls, label: str, url: str) -> Self:
        """Return a link."""
        link = super().__new__(cls, label)
        link.url = url
        return link


def html_table(titles: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Return a table as HTML, with job states in colour.

    Args:
        titles: The column titles.
        rows: The rows, each with one string per column; a ``Link`` becomes an HTML link.
        note: A note below the table.
    """
    head = "".join(f'<th style="text-align:left">{_escaped(title)}</th>' for title in titles)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    below = f"<div>{_escaped(note)}</div>" if note else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div style="overflow-x:auto">{table}</div>{below}'


def _cell(string: str) -> str:
    shown = _escaped(string)
    if isinstance(string, Link) and string.url.startswith(_SCHEMES):
        shown = f'<a href="{_escaped(string.url)}" target="_blank" rel="noopener">{shown}</a>'
    colour = f";color:{_COLOURS[string]}" if string in _COLOURS else ""
    return f'<td style="text-align:left;max-width:40ch;overflow-wrap:break-word{colour}">{shown}</td>'


def _escaped(string: str) -> str:
    return html.escape(printable(string))


class Drawing:
    """A line with a progress bar in the running cell's output."""

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, line: str, done: float | None = None) -> None:
        """Draw the line, replacing the one from the previous call.

        Args:
            line: The line.
            done: The progress from 0 to 1; if None, no bar is drawn.
        """
        ipython: Any = import_module("IPython.display")
        bar = "" if done is None else f'<progress value="{done:.3f}" style="width:20em"></progress> '
        shown = ipython.HTML(f"<div>{bar}{_escaped(line)}</div>")
        if self._handle is None:
            self._handle = ipython.display(shown, display_id=True)
        else:
            self._handle.update(shown)
