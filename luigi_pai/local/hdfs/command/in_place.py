"""The commands of ``hdfs dfs`` that look at a path or change it where it is.

Standard library only, see hdfs_command.
"""

from __future__ import annotations

import bz2
import io
import re
import sys
import zlib
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from luigi_pai.local.hdfs.command.file_systems import CHUNK, Fault, RemoteSide
from luigi_pai.local.hdfs.command.paths import Item, Shell, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "cat",
    "chmod",
    "count",
    "du",
    "ls",
    "mkdir",
    "rm",
    "rmdir",
    "rmr",
    "stat",
    "tail",
    "test",
    "text",
    "touchz",
]

_KIB = 1024
_GZIP = 31  # zlib: expect a gzip header
_TAIL = 1024  # bytes
_MODE = re.compile(r"([ugoa]*)([-+=])([rwxXt]+)")


# listing


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
            kind = "d" if item.is_folder else "-"
            when = datetime.fromtimestamp(facts["modificationTime"] / 1000, timezone.utc).astimezone()
            self._shell.print(
                f"{kind}{_letters(int(facts['permission'], 8))} {copies:>{self._widths[0]}} "
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


def _letters(bits: int) -> str:
    text = "".join(letter if bits >> (8 - at) & 1 else "-" for at, letter in enumerate("rwxrwxrwx"))
    if bits & 0o1000:
        text = text[:-1] + ("t" if bits & 1 else "T")
    return text


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
            (_size(_remote(each).summary(each.path)["length"], human="h" in options), each) for each in shown
        ]
        width = max((len(size) for size, _ in rows), default=0)
        for size, each in rows:
            shell.print(f"{size:<{width}}  {each}")

    shell.each(shell.expand_all(arguments or ["."]), show)


def count(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Count folders, files and bytes."""

    def show(item: Item) -> None:
        item.required()
        summary = _remote(item).summary(item.path)
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


# reading


def cat(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    """Write files to the output as they are."""
    _show(shell, arguments, lambda stream: iter(lambda: stream.read(CHUNK), b""))


def text(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    """Write files to the output, unpacked where they are gzip or bzip2."""
    _show(shell, arguments, _unpacked)


def tail(shell: Shell, _options: frozenset[str], arguments: list[str]) -> None:
    """Write the last KiB of a file to the output."""

    def show(item: Item) -> None:
        length = item.as_file().required().length
        if length:
            with item.side.read(item.path, max(length - _TAIL, 0)) as stream:
                _write(iter(lambda: stream.read(CHUNK), b""))

    shell.each(shell.expand_all(arguments), show)


def _show(shell: Shell, arguments: list[str], chunks: Callable[[Any], Iterator[bytes]]) -> None:
    def show(item: Item) -> None:
        item.as_file()
        with item.side.read(item.path) as stream:
            _write(chunks(stream))

    shell.each(shell.expand_all(arguments), show)


def _write(chunks: Iterator[bytes]) -> None:
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
    sys.stdout.flush()


def _unpacked(stream: Any) -> Iterator[bytes]:
    """Yield what a stream holds, gzip and bzip2 unpacked, each with any number of members."""
    chunk = stream.read(CHUNK)
    gzip, bzip2 = chunk.startswith(b"\x1f\x8b"), chunk.startswith(b"BZh")
    unpacker: Any = None
    try:
        while chunk:
            if not gzip and not bzip2:
                yield chunk
                chunk = b""
            else:
                if unpacker is None or unpacker.eof:
                    unpacker = zlib.decompressobj(_GZIP) if gzip else bz2.BZ2Decompressor()
                yield unpacker.decompress(chunk)
                chunk = unpacker.unused_data
            chunk = chunk or stream.read(CHUNK)
    except (zlib.error, OSError, EOFError) as error:
        raise Fault(f"cannot unpack: {error}") from error


# changing


def mkdir(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Make folders; ``-p``: and those above them."""

    def make(item: Item) -> None:
        if item.status and not (item.is_folder and "p" in options):
            raise Fault.at(item.shown, "File exists" if item.is_folder else "Is not a directory")
        if "p" not in options and not item.status and not item.parent_exists():
            raise Fault.at(item.shown, "No such file or directory")
        item.side.mkdir(item.path)

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
        item.side.write(item.path, io.BytesIO())

    shell.each(shell.expand_all(arguments), touch)


def rm(shell: Shell, options: frozenset[str], arguments: list[str]) -> None:
    """Delete for good: there is no trash."""

    def delete(item: Item) -> None:
        if item.status is None and "f" in options:
            return
        if item.required().is_folder and not options & {"r", "R"}:
            raise Fault.at(item.shown, "Is a directory")
        if not _remote(item).delete(item.path, recursive=item.is_folder):
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
        _remote(item).delete(item.path, recursive=False)

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
            _remote(item).chmod(item.path, after)
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


def _remote(item: Item) -> RemoteSide:
    if not isinstance(item.side, RemoteSide):
        raise Fault(f"{item}: only paths on HDFS")
    return item.side
