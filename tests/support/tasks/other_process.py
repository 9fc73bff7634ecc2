"""Another process of the same user on the same machine, with the settings of the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos import processes
from luigi_process import write_config

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["run_elsewhere"]

_LONGEST = 60.0  # seconds


def run_elsewhere(folder: Path, program: str) -> tuple[int | None, str]:
    """Run a program, and return its exit code and what it has printed.

    Args:
        folder: of the process; claims without HDFS are below it.
        program: its source; it imports tasks from the modules that the test has them from.
    """
    write_config(folder)
    script, log = folder / "program.py", folder / "log"
    script.write_text(program)
    process = processes.start("", folder, log, script)
    process.join(_LONGEST)
    return process.exitcode, log.read_text()
