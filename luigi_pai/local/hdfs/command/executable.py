"""The ``hdfs`` and ``hadoop`` commands for jobs that run on this machine.

A command line written for an image with a real Hadoop (``hdfs dfs -put model
/out``) runs unchanged: the two executables that ``install`` writes talk WebHDFS
to ``LUIGI_PAI_WEBHDFS_URL`` as ``HADOOP_USER_NAME``. They start in some 50 ms,
because they load nothing but the standard library.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["install", "main"]

VERSION = "Hadoop 2.7.4"

# Without the __init__.py of the two packages: they would load Luigi and requests.
_START = """\
import sys, types
for name, folder in {packages!r}:
    package = types.ModuleType(name)
    package.__path__ = [folder]
    sys.modules[name] = package
from luigi_pai.local.hdfs.command.executable import main
sys.exit(main(sys.argv[1:]))
"""


def install(bin_dir: Path) -> None:
    """Write the executables ``hdfs`` and ``hadoop`` into a folder for a job's PATH, created where missing.

    Those that are there are replaced in one step: to a task that is just calling one,
    an empty one would be a success, and on a full disk it would stay empty.
    """
    bin_dir.mkdir(parents=True, exist_ok=True)
    package = Path(__file__).resolve().parents[3]
    start = _START.format(packages=[("luigi_pai", str(package)), ("luigi_pai.local", str(package / "local"))])
    for command in ("hdfs", "hadoop"):
        words = [sys.executable, "-I", "-S", "-c", start, command]
        new = bin_dir / f"{command}.new"
        new.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        new.chmod(0o755)
        new.replace(bin_dir / command)


def main(arguments: Sequence[str]) -> int:
    """Run ``hdfs ...`` or ``hadoop ...``, the name included, and return its exit code."""
    command, *words = arguments
    part, *rest = words or [""]
    if part in ("dfs", "fs"):
        from luigi_pai.local.hdfs.command.shell import run_shell  # noqa: PLC0415  not needed for the others

        return run_shell(rest)
    if part in ("version", "-version", "--version"):
        sys.stdout.write(f"{VERSION}\nWebHDFS client of luigi-pai local; not an Apache Hadoop\n")
        return 0
    sys.stderr.write(
        f"{command}: {part!r} is not available on a local OpenPAI; there are: "
        f"{command} dfs, {command} fs, {command} version\n"
    )
    return 255
