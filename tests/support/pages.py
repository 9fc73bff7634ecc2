"""The code blocks of a page of the documentation, and a run of them from top to bottom.

A block whose first line is ``# NAME.SUFFIX`` is a file. A ``console`` block has commands after ``$``, and
what they print below: nothing shown is nothing compared, and a line ``...`` stands for further lines. Blocks
without a language are not run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Block", "Command", "blocks", "commands", "file_name", "run_page"]

_BLOCK = re.compile(r"^(```+)([a-z]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.\w+)\b.*\n")
_CHANGING = (
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"\b\d\d:\d\d(:\d\d)?\b", "TIME"),
    (r"\b\d{4}-\d\d-\d\d\b", "DAY"),
    (r"\b\d+(\.\d+)? (s|min|h|hours)\b", "DURATION"),
)
_BY_THE_TEST = re.compile(r"pip install |luigi-pai local$|make ")
"""Set-up, which the test has done (the package is installed, a local OpenPAI runs), and other tests."""

_SOMETHING_TO_DO = re.compile(r"luigi-pai (plan|validate) ")
"""Commands whose exit code 1 is an answer."""

_PASSING = re.compile(r"(^| Job )\S+: (WAITING|RUNNING|STOPPING), ")
"""States that a look at the job may miss, or may find on the way to the state that the page shows."""

_TIMEOUT = 300  # seconds of one command
_LIMIT = 40  # lines of a command's output that an error shows


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        language: what stands after its backticks; empty if nothing does.
        text: its lines.
        line: of the page, where it begins.
    """

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """A command of a ``console`` block.

    Attributes:
        text: the command, without its ``$``.
        shown: the lines that the page shows below it.
    """

    text: str
    shown: str


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[2], found[3], text.count("\n", 0, found.start()) + 1) for found in _BLOCK.finditer(text)
    ]


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a ``console`` block; lines that end in a backslash are joined."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command = re.match(r"(?:.*\\\n)*.*\n", part)
        assert command is not None
        yield Command(command[0].replace("\\\n", " ").strip(), part[command.end() :])


def file_name(block: Block) -> str | None:
    """Return the name of the file that a block is, or None."""
    named = _FILE.match(block.text)
    return named[1] if named else None


def run_page(page: Path, folder: Path, environment: Mapping[str, str], replaced: Mapping[str, str]) -> int:
    """Write the files of a page and run its commands, in the page's order; return how many commands ran.

    Args:
        page: a Markdown file.
        folder: where the files go and the commands run.
        environment: variables beside those of this process.
        replaced: texts of the page, and what stands in their place here.

    Raises:
        AssertionError: a command failed, or printed something else than the page shows.
    """
    scripts = str(Path(sys.executable).parent)
    full = {**os.environ, **environment, "PATH": os.pathsep.join([scripts, os.environ["PATH"]])}
    done = 0
    for block in blocks(page):
        name = file_name(block)
        if name is not None and block.language != "console":
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(_with(block.text, replaced), encoding="utf-8")
        if block.language == "console":
            for command in filter(_is_run, commands(block)):
                _run(command, f"{page.name}, line {block.line}", folder, full, replaced)
                done += 1
    return done


def _is_run(command: Command) -> bool:
    return not _BY_THE_TEST.match(command.text)


def _run(
    command: Command, where: str, folder: Path, environment: Mapping[str, str], replaced: Mapping[str, str]
) -> None:
    with subprocess.Popen(
        ["bash", "-c", _with(command.text, replaced)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    lines = "\n".join(printed.splitlines()[-_LIMIT:])
    codes = (0, 1) if _SOMETHING_TO_DO.match(command.text) else (0,)
    assert process.returncode in codes, f"{where}: {command.text} ended with {process.returncode}:\n{lines}"
    missing, further = _compared(_same(_with(command.shown, replaced)), _same(printed))
    assert not missing, f"{where}: {command.text} did not print {missing[0]!r}, but:\n{lines}"
    assert not further, f"{where}: {command.text} also printed {further[0]!r}:\n{lines}"


def _compared(shown: str, printed: str) -> tuple[list[str], list[str]]:
    """Return the lines that are shown and were not printed, and those that were printed and are not shown.

    The order does not count: jobs run side by side. Lines about a state that passes may be missing or
    further ones: how many of them a watcher sees depends on when it looks.
    """
    further = [line for line in printed.splitlines() if line]
    missing = []
    wanted = [line for line in shown.splitlines() if line]
    for line in wanted:
        if line == "...":
            continue
        pattern = re.escape(line).replace(r"\.\.\.", ".*")
        found = next((one for one in further if re.fullmatch(pattern, one)), None)
        if found is not None:
            further.remove(found)
        elif not _PASSING.search(line):
            missing.append(line)
    further = [line for line in further if not _PASSING.search(line)]
    return missing, [] if "..." in wanted or not wanted else further


def _with(text: str, replaced: Mapping[str, str]) -> str:
    for shown, real in replaced.items():
        text = text.replace(shown, real)
    return text


def _same(text: str) -> str:
    """Return a text in which what changes from run to run is the same."""
    for pattern, name in _CHANGING:
        text = re.sub(pattern, name, text)
    return "\n".join(line.rstrip() for line in text.splitlines())
