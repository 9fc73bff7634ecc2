"""The command of a Python process that runs a module of this package; standard library only."""

from __future__ import annotations

import sys

_START = "import sys; sys.path[:] = filter(None, sys.path); from {} import main; sys.exit(main())"


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs the function ``main`` of a module with these arguments.

    Unlike with ``python -m``, nothing is imported from the current folder: a ``json.py`` there is not ours.
    """
    return [sys.executable, "-c", _START.format(module), *arguments]
