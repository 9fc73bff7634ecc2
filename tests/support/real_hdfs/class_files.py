"""Java class files: the names and numbers in them."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["renamed", "with_long"]

_HEAD = 10  # bytes: magic number, version, and the number of constants plus one
_TEXT = 1
_LONG = 5
_TWO_ENTRIES = (_LONG, 6)  # a long and a double count as two constants
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4}


def renamed(code: bytes, package: str, becomes: str) -> bytes:
    """Return a class file in which a Java package has another name.

    Names of classes stand with slashes, alone or within a signature; and with dots, where a class is
    looked up by name. Other texts, which may have their length beside them, stay as they are.

    Args:
        code: the class file (Java Virtual Machine Specification, chapter 4).
        package: with dots.
        becomes: its new name.
    """
    with_slashes = re.compile(rf"(?<![^L]){package.replace('.', '/')}(?=/)".encode())
    with_dots = re.compile(rf"{re.escape(package)}((\.[\w$]+)+)".encode())
    parts = [code[:_HEAD]]
    for constant in _constants(code):
        if constant[0] != _TEXT:
            parts.append(constant)
            continue
        text = with_slashes.sub(becomes.replace(".", "/").encode(), constant[3:])
        if found := with_dots.fullmatch(text):
            text = becomes.encode() + found[1]
        parts.append(struct.pack(">BH", _TEXT, len(text)) + text)
    return b"".join([*parts, _after_constants(code)])


def with_long(code: bytes, value: int, becomes: int) -> bytes:
    """Return a class file in which a number of type long is another one.

    Raises:
        ValueError: it has no such number.
    """
    old, new = (struct.pack(">Bq", _LONG, number) for number in (value, becomes))
    constants = list(_constants(code))
    if old not in constants:
        raise ValueError(f"the class file has no constant {value} of type long")
    replaced = [new if constant == old else constant for constant in constants]
    return b"".join([code[:_HEAD], *replaced, _after_constants(code)])


def _constants(code: bytes) -> Iterator[bytes]:
    """Yield the constants of a class file, each with its kind."""
    at, index = _HEAD, 1
    (count,) = struct.unpack_from(">H", code, _HEAD - 2)
    while index < count:
        kind = code[at]
        size = 3 + struct.unpack_from(">H", code, at + 1)[0] if kind == _TEXT else 1 + _SIZES[kind]
        yield code[at : at + size]
        at += size
        index += 2 if kind in _TWO_ENTRIES else 1


def _after_constants(code: bytes) -> bytes:
    return code[_HEAD + sum(map(len, _constants(code))) :]
