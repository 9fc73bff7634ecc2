"""A program inside the job's command, for clusters without HDFS or a storage."""

from __future__ import annotations

from pathlib import Path


def with_program(name: str, arguments: str) -> str:
    """Return a command that writes a program of this folder to a file and runs it.

    It is one command, not three: releases before 0.17 join commands with ``&&``, which would follow the last
    line of the program.
    """
    program = Path(__file__).with_name(name).read_text("utf-8")
    return f"cat > {name} <<'END_OF_PROGRAM'\n{program}END_OF_PROGRAM\npython {name} {arguments}"
