"""The commands of ``hdfs dfs`` that write files to the output: cat, text, tail."""

from __future__ import annotations

import bz2
import sys
import zlib
from typing import TYPE_CHECKING, Any

from luigi_pai.local.hdfs.command.file_systems import CHUNK, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.local.hdfs.command.paths import Item, Shell

__all__ = ["cat", "tail", "text"]

_GZIP = 31  # zlib: expect a gzip header
_TAIL = 1024  # bytes


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
            with item.fs.read(item.path, max(length - _TAIL, 0)) as stream:
                _write(iter(lambda: stream.read(CHUNK), b""))

    shell.each(shell.expand_all(arguments), show)


def _show(shell: Shell, arguments: list[str], chunks: Callable[[Any], Iterator[bytes]]) -> None:
    def show(item: Item) -> None:
        item.as_file()
        with item.fs.read(item.path) as stream:
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
