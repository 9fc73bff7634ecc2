"""The commands of luigi-pai: all loaded, and transcripts of them.

A transcript has what is typed, what is printed, and the exit code. It begins with ``# `` and its title.
In it, these lines are read; others are ignored if blank:

    @ NAME = TEXT                      writes a file; escapes such as \\n stand for their characters
    @ NAME < OTHER: OLD => NEW; ...    writes a file like another, with replacements
    $ WORDS [CODE]                     runs luigi-pai; the exit code is 0 if none is given
    ! LINE                             is printed on standard error
    LINE                               is printed on standard output

``...`` in an expected line stands for anything; a line of just that, for any number of lines.
"""

from __future__ import annotations

import re
import shlex

import click
import pytest
from places import DATA

from luigi_pai.cli import main

__all__ = ["cli_commands", "replay", "transcripts"]

_COMMAND = re.compile(r"\$ (.*?)(?: \[(\d)\])?$")


def cli_commands() -> dict[str, click.Command]:
    """Return name -> command."""
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def transcripts(name):
    """Return the transcripts of a file of tests/data/cli, as parameters of a test."""
    text = (DATA / "cli" / f"{name}.txt").read_text(encoding="utf-8")
    parts = re.split(r"\n\n(?=# )", text.removeprefix("# "))
    titles_and_lines = [part.removeprefix("# ").split("\n", 1) for part in parts]
    return [pytest.param(lines.splitlines(), id=title) for title, lines in titles_and_lines]


def replay(lines, run, folder):
    """Do what a transcript says, and compare.

    Args:
        lines: of the transcript.
        run: runs luigi-pai, as the fixture ``pai_command``.
        folder: for its files.
    """
    left = [line for line in lines if line]
    while left:
        line = left.pop(0)
        if line.startswith("@ "):
            _write(line[2:], folder)
            continue
        words, code = _COMMAND.match(line).groups()
        expected = []
        while left and not left[0].startswith(("$ ", "@ ")):
            expected.append(left.pop(0))
        result = run(*shlex.split(words), expect=int(code or 0))
        errors = [one[2:] for one in expected if one.startswith("! ")]
        _compare(words, result.stdout, [one for one in expected if not one.startswith("! ")])
        _compare(words, result.stderr, errors)


def _write(line, folder):
    if match := re.fullmatch(r"(\S+) = (.*)", line):
        text = _unescaped(match[2])
    else:
        match = re.fullmatch(r"(\S+) < (\S+): (.*)", line)
        text = (folder / match[2]).read_text(encoding="utf-8")
        for change in match[3].split("; "):
            old, new = (_unescaped(side) for side in change.split(" => "))
            assert old in text, change
            text = text.replace(old, new)
    (folder / match[1]).write_text(text, encoding="utf-8")


def _unescaped(text):
    return text.encode().decode("unicode_escape")


def _compare(words, text, expected):
    pattern = "".join(
        r"(?:.*\n)*" if line == "..." else f"{re.escape(line).replace(re.escape('...'), '.*')}\n"
        for line in expected
    )
    assert re.fullmatch(pattern, text), f"luigi-pai {words} printed:\n{text}"
