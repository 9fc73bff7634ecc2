"""The ``hdfs`` and ``hadoop`` commands for jobs that run on this machine.

Command lines written for an image with a real Hadoop (``hdfs dfs -put model /out``) run unchanged, because
the two executables that ``install`` writes talk WebHDFS to ``LUIGI_PAI_WEBHDFS_URL`` as ``HADOOP_USER_NAME``.
They start in about 50 ms, because they load only this folder and the standard library. Exit codes are the
same as FsShell's (Hadoop 2.7.4): 0 if the command succeeded; 1 if it failed, even for only some of its paths;
255 for incorrect usage.
"""

from __future__ import annotations

import getpass
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.local.hdfs.command.client import Fault, Hdfs
from luigi_pai.local.hdfs.command.commands import COMMANDS, Call, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

_GENERIC = ("-D", "-conf", "-fs", "-jt", "-files", "-libjars", "-archives")

# Skips the __init__.py of luigi_pai and luigi_pai.local, as the latter's imports requests and psutil.
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
    """Write the ``hdfs`` and ``hadoop`` executables into a folder for a job's PATH.

    Create the folder if it is missing. Replace an existing executable atomically, so that it is never empty,
    even if the disk is full: an empty executable would do nothing and exit with 0.
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
    """Run a command line, ``hdfs dfs ...`` or ``hadoop fs ...``, and return its exit code."""
    command, *words = arguments
    if not words or words[0] not in ("dfs", "fs"):
        sys.stderr.write(f"{command}: a local OpenPAI has only: {command} dfs, {command} fs\n")
        return 255
    words = words[1:]
    while words and words[0].startswith(_GENERIC):  # ignore Hadoop's configuration options
        del words[: 1 if words[0].startswith("-D") and words[0] != "-D" else 2]
    typed, *rest = words or ["no command"]
    name = typed.removeprefix("-")
    if not typed.startswith("-") or name not in COMMANDS:
        known = " ".join(f"-{name}" for name in COMMANDS)
        sys.stderr.write(f"{typed}: Unknown command\nA local OpenPAI has these: {known}\n")
        return 255
    url = os.environ.get("LUIGI_PAI_WEBHDFS_URL")
    if not url:
        sys.stderr.write(
            f"{name}: LUIGI_PAI_WEBHDFS_URL is not set; it is the address of HDFS: http://HOST:PORT\n"
        )
        return 1
    return _run(Call(name, Hdfs(url, os.environ.get("HADOOP_USER_NAME") or getpass.getuser())), rest)


def _run(call: Call, words: list[str]) -> int:
    """Run a command and return its exit code."""
    try:
        call.run(words)
        sys.stdout.flush()
    except Usage as usage:
        sys.stderr.write(f"-{call.name}: {usage}\n")
        return 255
    except Fault as fault:
        call.fault(fault)
    except BrokenPipeError:  # whatever read the output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        call.fault(Fault(f"{error.filename or ''} ({error.strerror})".strip()))
    return 1 if call.failed else 0
