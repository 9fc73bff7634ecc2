"""A program that is sent inside its job: v2 clusters have no HDFS, and a script needs no image of its own."""

from __future__ import annotations

from pathlib import Path


def with_program(name: str, arguments: str) -> str:
    """Return a command that writes a program of this folder down, and runs it.

    It is one command rather than three: releases before 0.17 join commands with ``&&``, which would end up
    behind the last line of the program.
    """
    program = Path(__file__).with_name(name).read_text("utf-8")
    return f"cat > {name} <<'END_OF_PROGRAM'\n{program}END_OF_PROGRAM\npython {name} {arguments}"
