"""The commands of ``hdfs dfs`` that show paths: ls, du, count, stat, test."""

from __future__ import annotations

import re
import stat as file_mode
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from luigi_pai.local.hdfs.command.paths import Item, Shell, Usage, remote_fs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["count", "du", "ls", "stat", "test"]

_KIB = 1024


class _Lines:
    """The lines of ``-ls``; columns only grow, as in FsShell."""

    def __init__(self, shell: Shell, *, human: bool) -> None:
        self._shell = shell
        self._human = human
        self._widths = [3, 0, 0, 10]

    def write(self, items: Sequence[Item]) -> None:
        """Write a line for each item."""
        rows = [(item, self._columns(item)) for item in items]
        for _item, columns in rows:
            self._widths = [max(width, len(text)) for width, text in zip(self._widths, columns, strict=True)]
        for item, (copies, owner, group, length) in rows:
            facts = item.required().facts
            kind = file_mode.S_IFDIR if item.is_folder else file_mode.S_IFREG
            when = datetime.fromtimestamp(facts["modificationTime"] / 1000, timezone.utc).astimezone()
            self._shell.print(
                f"{file_mode.filemode(kind | int(facts['permission'], 8))} {copies:>{self._widths[0]}} "
                f"{owner:<{self._widths[1]}} {group:<{self._widths[2]}} {length:>{self._widths[3]}} "
                f"{when:%Y-%m-%d %H:%M} {item}"
            )

    def _columns(self, item: Item) -> tuple[str, str, str, str]:
        status = item.required()
        copies = "-" if status.is_folder else str(status.facts["replication"])
        return copies, status.facts["owner"], status.facts["group"], _size(status.length, human=self._human)


def ls(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """List folders and files."""
    lines = _Lines(shell, human="h" in options)

    def show(item: Item) -> None:
        item.required()
        if not item.is_folder or "d" in options:
            lines.write([item])
            return
        inside = list(item.children())
        if "R" not in options:
            if inside:
                shell.print(f"Found {len(inside)} items")
            lines.write(inside)
            return
        for child in inside:
            lines.write([child])
            if child.is_folder:
                shell.each([child], show)

    shell.each(shell.expand_all(arguments or ["."]), show)


def _size(number: int, *, human: bool) -> str:
    """Return a number of bytes as it is, or as ``2.1 K``."""
    if not human or number < _KIB:
        return str(number)
    step = 1
    while round(number / _KIB**step, 1) >= _KIB:
        step += 1
    whole, rest = divmod(number, _KIB**step)
    return f"{number / _KIB**step:.1f} {'KMGTPE'[step - 1]}" if rest else f"{whole} {'KMGTPE'[step - 1]}"


def du(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Show how much a folder holds, in all (``-s``) or by entry."""

    def show(item: Item) -> None:
        shown = list(item.children()) if item.required().is_folder and "s" not in options else [item]
        rows = [
            (_size(remote_fs(each).summary(each.path)["length"], human="h" in options), each)
            for each in shown
        ]
        width = max((len(size) for size, _ in rows), default=0)
        for size, each in rows:
            shell.print(f"{size:<{width}}  {each}")

    shell.each(shell.expand_all(arguments or ["."]), show)


def count(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Count folders, files and bytes."""

    def show(item: Item) -> None:
        item.required()
        summary = remote_fs(item).summary(item.path)
        quota = f"{'none':>12} {'inf':>15} {'none':>15} {'inf':>15} " if "q" in options else ""
        folders, files, length = (
            _size(summary[name], human="h" in options) for name in ("directoryCount", "fileCount", "length")
        )
        shell.print(f"{quota}{folders:>12} {files:>12} {length:>18} {item}")

    shell.each(shell.expand_all(arguments), show)


def stat(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    """Show the facts of a path in a form of the user's choice."""
    form = arguments.pop(0) if "%" in arguments[0] else "%y"

    def show(item: Item) -> None:
        status = item.required()
        facts = status.facts
        when = datetime.fromtimestamp(facts["modificationTime"] / 1000, timezone.utc)
        values = {
            "b": status.length,
            "F": "directory" if status.is_folder else "regular file",
            "g": facts["group"],
            "n": status.name,
            "o": facts["blockSize"],
            "r": facts["replication"],
            "u": facts["owner"],
            "y": f"{when:%Y-%m-%d %H:%M:%S}",
            "Y": facts["modificationTime"],
        }
        shell.print(re.sub(r"%(.)", lambda match: str(values.get(match[1], match[1])), form))

    shell.each(shell.expand_all(arguments), show)


def test(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Answer a question with the exit code."""
    if not options:
        raise Usage("No test flag given")
    if len(options) > 1:
        raise Usage("Only one test flag is allowed")
    status = shell.expand(arguments[0])[0].status
    true = (
        status is not None
        and {
            "e": True,
            "d": status.is_folder,
            "f": not status.is_folder,
            "s": status.length > 0,
            "z": status.length == 0,
        }[min(options)]
    )
    shell.failed = not true
