"""Java class files: the names in them."""

from __future__ import annotations

import re
import struct

__all__ = ["renamed"]

_HEAD = 10  # bytes: magic number, version, and the number of constants plus one
_TEXT = 1
_TWO_ENTRIES = (5, 6)  # a long and a double count as two constants
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
    parts, at, index = [code[:_HEAD]], _HEAD, 1
    (count,) = struct.unpack_from(">H", code, _HEAD - 2)
    while index < count:
        kind = code[at]
        if kind == _TEXT:
            (size,) = struct.unpack_from(">H", code, at + 1)
            text = with_slashes.sub(becomes.replace(".", "/").encode(), code[at + 3 : at + 3 + size])
            if found := with_dots.fullmatch(text):
                text = becomes.encode() + found[1]
            parts.append(struct.pack(">BH", _TEXT, len(text)) + text)
            at += 3 + size
        else:
            parts.append(code[at : at + 1 + _SIZES[kind]])
            at += 1 + _SIZES[kind]
        index += 2 if kind in _TWO_ENTRIES else 1
    return b"".join([*parts, code[at:]])
