"""``hdfs dfs`` and ``hadoop fs``: FsShell of Hadoop 2.7.4, as far as jobs need it.

Messages, exit codes and the ways of its commands are FsShell's: 0 done, 1 at
least one path failed (the others were done), 255 wrong usage.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
from typing import TYPE_CHECKING

from luigi_pai.local.hdfs.command.client import Fault, Hdfs
from luigi_pai.local.hdfs.command.commands import COMMANDS
from luigi_pai.local.hdfs.command.paths import Shell, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run_shell"]

_GENERIC = ("-D", "-conf", "-fs", "-jt", "-files", "-libjars", "-archives")


def run_shell(words: Sequence[str]) -> int:
    """Run ``hdfs dfs WORDS`` and return its exit code."""
    known = " ".join(f"-{name}" for name in COMMANDS)
    words = list(words)
    while words and words[0].startswith(_GENERIC):  # there is no Hadoop to configure
        del words[: 1 if words[0].startswith("-D") and words[0] != "-D" else 2]
    if not words:
        sys.stderr.write(f"Usage: hadoop fs [generic options]\n{known}\n")
        return 255
    typed, *rest = words
    name = typed.removeprefix("-")
    if not typed.startswith("-") or name not in COMMANDS:
        hint = f"A local OpenPAI has these: {known}\n"
        if typed in COMMANDS:
            hint = f"Did you mean -{typed}?  This command begins with a dash.\n"
        sys.stderr.write(f"{typed}: Unknown command\n{hint}")
        return 255
    command = COMMANDS[name]
    url = os.environ.get("LUIGI_PAI_WEBHDFS_URL")
    if not url:
        sys.stderr.write(
            f"{name}: LUIGI_PAI_WEBHDFS_URL is not set; it says where HDFS is: http://HOST:PORT\n"
        )
        return 1
    hdfs = Hdfs(url, os.environ.get("HADOOP_USER_NAME") or getpass.getuser())
    shell = Shell(name, hdfs)
    with contextlib.closing(hdfs):
        try:
            command.run(shell, *command.parsed(rest))
            sys.stdout.flush()
        except Usage as usage:
            sys.stderr.write(
                f"-{name}: {usage}\nUsage: hadoop fs [generic options] -{name} {command.usage}\n"
            )
            return 255
        except Fault as fault:
            shell.fault(fault)
        except BrokenPipeError:  # the reader of our output has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except OSError as error:
            shell.fault(Fault(f"{error.filename or ''} ({error.strerror})".strip()))
    return 1 if shell.failed else 0
