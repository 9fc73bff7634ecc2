"""``hdfs dfs`` and ``hadoop fs``: FsShell of Hadoop 2.7.4, as far as jobs need it.

Messages, exit codes and the ways of its commands are FsShell's: 0 done, 1 at
least one path failed (the others were done), 255 wrong usage.
"""

from __future__ import annotations

import getpass
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.local.hdfs.command import changing, copying, listing, reading
from luigi_pai.local.hdfs.command.file_systems import Fault
from luigi_pai.local.hdfs.command.paths import Shell, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["run_shell"]

_GENERIC = ("-D", "-conf", "-fs", "-jt", "-files", "-libjars", "-archives")


@dataclass(frozen=True)
class _Command:
    """One command.

    Attributes:
        run: called with the shell, the options without dashes, and the arguments.
        options: the options that it takes, without dashes.
        least, most: how many arguments it takes.
    """

    run: Callable[[Shell, frozenset[str], list[str]], None]
    usage: str
    options: str = ""
    least: int = 1
    most: int = sys.maxsize

    def parsed(self, words: Sequence[str]) -> tuple[frozenset[str], list[str]]:
        """Take options, which come first, apart from arguments."""
        options, arguments = set(), list(words)
        while arguments and arguments[0].startswith("-") and arguments[0] != "-":
            option = arguments.pop(0)
            if option[1:] not in self.options.split():
                raise Usage(f"Illegal option {option}")
            options.add(option[1:])
        if len(arguments) < self.least:
            raise Usage(f"Not enough arguments: expected {self.least} but got {len(arguments)}")
        if len(arguments) > self.most:
            raise Usage(f"Too many arguments: expected {self.most} but got {len(arguments)}")
        return frozenset(options), arguments


_PUT = _Command(copying.put, "[-f] [-p] [-l] <localsrc> ... <dst>", "f p l")
_GET = _Command(copying.get, "[-f] [-p] [-ignoreCrc] [-crc] <src> ... <localdst>", "f p ignoreCrc crc")

_COMMANDS = {
    "appendToFile": _Command(copying.append_to_file, "<localsrc> ... <dst>", least=2),
    "cat": _Command(reading.cat, "[-ignoreCrc] <src> ...", "ignoreCrc"),
    "chmod": _Command(changing.chmod, "[-R] <MODE[,MODE]... | OCTALMODE> PATH...", "R", least=2),
    "copyFromLocal": _PUT,
    "copyToLocal": _GET,
    "count": _Command(listing.count, "[-q] [-h] <path> ...", "q h"),
    "cp": _Command(copying.cp, "[-f] [-p] <src> ... <dst>", "f p", least=2),
    "du": _Command(listing.du, "[-s] [-h] <path> ...", "s h", least=0),
    "get": _GET,
    "getmerge": _Command(copying.getmerge, "[-nl] <src> <localdst>", "nl", least=2),
    "ls": _Command(listing.ls, "[-d] [-h] [-R] [<path> ...]", "d h R", least=0),
    "mkdir": _Command(changing.mkdir, "[-p] <path> ...", "p"),
    "moveFromLocal": _Command(copying.move_from_local, "<localsrc> ... <dst>"),
    "mv": _Command(copying.mv, "<src> ... <dst>", least=2),
    "put": _PUT,
    "rm": _Command(changing.rm, "[-f] [-r|-R] [-skipTrash] <src> ...", "f r R skipTrash"),
    "rmr": _Command(changing.rmr, "<src> ..."),
    "rmdir": _Command(changing.rmdir, "[--ignore-fail-on-non-empty] <dir> ...", "-ignore-fail-on-non-empty"),
    "stat": _Command(listing.stat, "[format] <path> ..."),
    "tail": _Command(reading.tail, "<file>", most=1),
    "test": _Command(listing.test, "-[defsz] <path>", "d e f s z", most=1),
    "text": _Command(reading.text, "[-ignoreCrc] <src> ...", "ignoreCrc"),
    "touchz": _Command(changing.touchz, "<path> ..."),
}


def run_shell(words: Sequence[str]) -> int:
    """Run ``hdfs dfs WORDS`` and return its exit code."""
    words = _without_generic(list(words))
    if not words:
        sys.stderr.write(f"Usage: hadoop fs [generic options]\n{_known(_COMMANDS)}\n")
        return 255
    typed, *rest = words
    name = typed.removeprefix("-")
    if not typed.startswith("-") or name not in _COMMANDS:
        hint = f"Did you mean -{typed}?  This command begins with a dash.\n" if typed in _COMMANDS else ""
        sys.stderr.write(f"{typed}: Unknown command\n{hint}")
        if not hint:
            sys.stderr.write(f"A local OpenPAI has these: {_known(_COMMANDS)}\n")
        return 255
    command = _COMMANDS[name]
    user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    shell = Shell(name, os.environ.get("LUIGI_PAI_WEBHDFS_URL", ""), user)
    try:
        command.run(shell, *command.parsed(rest))
        sys.stdout.flush()
    except Usage as usage:
        sys.stderr.write(f"-{name}: {usage}\nUsage: hadoop fs [generic options] -{name} {command.usage}\n")
        return 255
    except Fault as fault:
        shell.fault(fault)
    except BrokenPipeError:  # the reader of our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        shell.fault(Fault(f"{error.filename or ''} ({error.strerror})".strip()))
    finally:
        shell.close()
    return 1 if shell.failed else 0


def _known(commands: Iterable[str]) -> str:
    return " ".join(f"-{name}" for name in sorted(commands))


def _without_generic(words: list[str]) -> list[str]:
    """Drop Hadoop's generic options: there is no Hadoop to configure."""
    while words and words[0].startswith(_GENERIC):
        joined = words[0].startswith("-D") and len(words[0]) > len("-D")
        words = words[1:] if joined else words[2:]
    return words
