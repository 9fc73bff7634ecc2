"""The commands of ``hdfs dfs`` that change paths where they are: mkdir, touchz, rm, rmdir, chmod."""

from __future__ import annotations

import io
import re
import sys

from luigi_pai.local.hdfs.command.file_systems import Fault
from luigi_pai.local.hdfs.command.paths import Item, Shell, Usage, remote_fs

__all__ = ["chmod", "mkdir", "rm", "rmdir", "rmr", "touchz"]

_MODE = re.compile(r"([ugoa]*)([-+=])([rwxXt]+)")


def mkdir(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Make folders; ``-p``: and those above them."""

    def make(item: Item) -> None:
        if item.status and not (item.is_folder and "p" in options):
            raise Fault.at(item.shown, "File exists" if item.is_folder else "Is not a directory")
        if "p" not in options and not item.status and not item.parent_exists():
            raise Fault.at(item.shown, "No such file or directory")
        item.fs.mkdir(item.path)

    shell.each(shell.expand_all(arguments), make)


def touchz(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    """Make empty files."""

    def touch(item: Item) -> None:
        if item.is_folder:
            raise Fault.at(item.shown, "Is a directory")
        if item.status and item.status.length:
            raise Fault.at(item.shown, "Not a zero-length file")
        if not item.status and not item.parent_exists():
            raise Fault.at(item.shown, "No such file or directory")
        item.fs.write(item.path, io.BytesIO())

    shell.each(shell.expand_all(arguments), touch)


def rm(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Delete for good: there is no trash."""

    def delete(item: Item) -> None:
        if item.status is None and "f" in options:
            return
        if item.required().is_folder and not options & {"r", "R"}:
            raise Fault.at(item.shown, "Is a directory")
        if not remote_fs(item).delete(item.path, recursive=item.is_folder):
            raise Fault.at(item.shown, "Input/output error")
        shell.print(f"Deleted {item}")

    shell.each(shell.expand_all(arguments), delete)


def rmr(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    """Delete files and folders; the old word for ``-rm -r``."""
    sys.stderr.write("rmr: DEPRECATED: Please use 'rm -r' instead.\n")
    rm(shell, frozenset("r"), arguments)


def rmdir(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Delete empty folders."""

    def delete(item: Item) -> None:
        if not item.required().is_folder:
            raise Fault.at(item.shown, "Is not a directory")
        if next(item.children(), None):
            if not options:
                raise Fault.at(item.shown, "Directory is not empty")
            return
        remote_fs(item).delete(item.path, recursive=False)

    shell.each(shell.expand_all(arguments), delete)


def chmod(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Set mode bits, in octal or as ``u+x,go-w``."""
    mode, *paths = arguments
    octal = re.fullmatch(r"\+?([01]?[0-7]{3})", mode)
    if not octal and not all(_MODE.fullmatch(part) for part in mode.split(",")):
        raise Usage(f"chmod : mode '{mode}' does not match the expected pattern.")

    def change(item: Item) -> None:
        before = int(item.required().facts["permission"], 8)
        after = int(octal[1], 8) if octal else _changed(before, mode, is_folder=item.is_folder)
        if after != before:
            remote_fs(item).chmod(item.path, after)
        if "R" in options and item.is_folder:
            shell.each(item.children(), change)

    shell.each(shell.expand_all(paths), change)


def _changed(bits: int, mode: str, *, is_folder: bool) -> int:
    """Return mode bits after ``u+x,go-w``; no letter before the sign means all."""
    for part in mode.split(","):
        match = _MODE.fullmatch(part)
        who, sign, what = match.groups() if match else ("", "+", "")
        executable = is_folder or bits & 0o111
        value = sum(
            {"r": 4, "w": 2, "x": 1, "X": 1 if executable else 0, "t": 0}[letter] for letter in set(what)
        )
        everyone = "ugo" if not who or "a" in who else who
        for letter, shift in (("u", 6), ("g", 3), ("o", 0)):
            if letter in everyone:
                kept = bits & ~(7 << shift) if sign == "=" else bits
                bits = kept & ~(value << shift) if sign == "-" else kept | value << shift
        if "t" in what:
            bits = bits & ~0o1000 if sign == "-" else bits | 0o1000
    return bits
