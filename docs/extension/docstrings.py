"""Prepare docstrings for napoleon, which takes some of what this project writes for something else.

``a, b: what both are`` is a type and a name to Sphinx. ``Folder: its meaning``, in the docstring of a
property, is a type and a description to napoleon.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["setup"]

SEVERAL_NAMES = re.compile(r"^ +\w+(, \w+)+: ")
VALUES = ("attribute", "data", "property")
COLON = "\ue000"  # stands for a colon while napoleon reads
BEFORE_NAPOLEON, AFTER_NAPOLEON = 400, 600


def before(_app: Sphinx, what: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
    """Hide the colons of properties; join names with commas only."""
    for number, line in enumerate(lines):
        if what in VALUES:
            lines[number] = line.replace(":", COLON)
        else:
            lines[number] = SEVERAL_NAMES.sub(lambda names: names[0].replace(", ", ","), line)


def after(_app: Sphinx, _what: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
    """Put the colons back."""
    for number, line in enumerate(lines):
        lines[number] = line.replace(COLON, ":")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", before, priority=BEFORE_NAPOLEON)
    app.connect("autodoc-process-docstring", after, priority=AFTER_NAPOLEON)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
