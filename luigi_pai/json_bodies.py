"""Reads a response's JSON body in a bounded amount of memory.

Parsed JSON can take 40 times the memory of its body, so limiting the bytes is not enough. An ordinary
document is at most 16 MiB, with 500,000 lists, objects and commas, which are counted before parsing.
Lists of jobs and files may be larger, because a v1 server sends all its jobs at once, and HDFS sends all
entries in a folder. Such a list is parsed one entry at a time, and only the converted entries are kept.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_MIB = 1024 * 1024
_LARGEST = 16 * _MIB  # bytes of a document that is parsed as a whole
_MOST_ITEMS = 500_000  # its lists, objects and commas; they take at most 130 bytes each
_SMALL = 4 * _MIB  # bytes of a list that is parsed as a whole
_LARGEST_LIST = 48 * _MIB  # bytes of a list; 100,000 jobs on OpenPAI 0.14 take 36 MB
_MOST_ENTRIES = 200_000
_OBJECTS = 3  # objects of an entry, on average; a body with more has too many entries
_LARGEST_KEPT = 80 * _MIB  # bytes of memory for the converted entries of a list
_WINDOW = _MIB  # bytes that are parsed at a time, and the longest entry
_LONGEST_FRAME = 1000  # bytes before and after the entries of a list
_DIGITS = 20  # maximum number of digits of an int; a longer whole number becomes a float
_DEEPEST = 100  # levels of lists and objects
_BLANKS = re.compile(r"[ \t\n\r]*")


class TooLarge(ValueError):
    """A document exceeds a limit."""


def _whole_number(digits: str) -> float:
    return int(digits) if len(digits) <= _DIGITS else float(digits)


_DECODER = json.JSONDecoder(parse_int=_whole_number)
_LONG_NUMBER = re.compile(rb"\d{%d}" % (_DIGITS + 1))


def parse_json(body: bytes, each: Callable[[Any], Any] | None = None) -> Any:
    """Parse the JSON of a body.

    Whole numbers with more than 20 digits, which are not valid in any field, become floats.

    Args:
        body: The body in UTF-8.
        each: A function that converts the entries of the list, for a body that is a list or contains one.
            Such a body may be up to 48 MiB, with 200,000 entries that take 80 MiB of memory.

    Raises:
        TooLarge: The document exceeds a limit.
        ValueError: The body is not JSON or is nested too deeply.
    """
    try:
        if each is not None and len(body) > _SMALL and b"[" in body[:_LONGEST_FRAME]:
            return _with_large_list(body, each)
        if len(body) > _MOST_ITEMS:  # shorter ones have fewer items
            check_size(body)
        decode = _DECODER.decode if _LONG_NUMBER.search(body) else json.loads
        document = decode(body.decode("utf-8-sig", "surrogatepass"))
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if body.count(b"[") + body.count(b"{") > _DEEPEST:
        _check_depth(document)
    return document if each is None else _changed(document, lambda entries: list(map(each, entries)))


def check_size(document: bytes | str) -> None:
    """Check a JSON document before it is parsed as a whole.

    Raises:
        TooLarge: It is larger than 16 MiB, or has more than 500,000 lists, objects and commas.
    """
    if len(document) > _LARGEST:
        raise TooLarge(f"it has more than {_LARGEST / _MIB:g} MiB")
    signs: Sequence[Any] = (b",", b"[", b"{") if isinstance(document, bytes) else (",", "[", "{")
    if sum(map(document.count, signs)) > _MOST_ITEMS:
        raise TooLarge(f"it has more than {_MOST_ITEMS:,} values")


def _with_large_list(body: bytes, each: Callable[[Any], Any]) -> Any:
    """Return a document with the converted entries of its list."""
    if len(body) > _LARGEST_LIST:
        raise TooLarge(f"its list has more than {_LARGEST_LIST / _MIB:g} MiB")
    if body.count(b"{") > _OBJECTS * _MOST_ENTRIES:
        _refuse_entries()
    try:
        check_size(body)
        is_small = True
    except TooLarge:
        is_small = False  # its entries may take more memory than an ordinary document
    start = body.index(b"[") + 1
    entries: list[Any] = []
    size = 0
    windows = _Windows(body, start)
    for entry in windows.entries():
        entries.append(each(entry))
        size += 0 if is_small else sum(map(sys.getsizeof, _values(entries[-1])))
        if len(entries) > _MOST_ENTRIES:
            _refuse_entries()
        if size > _LARGEST_KEPT:
            raise TooLarge(f"the entries of its list take more than {_LARGEST_KEPT / _MIB:g} MiB of memory")
    frame = f"{body[:start].decode()}]{windows.rest()}"
    if frame.count("[") > 1:
        _refuse()
    return _changed(_DECODER.decode(frame), lambda _empty: entries)


def _check_depth(document: Any) -> None:
    """Raise ValueError if a document is nested too deeply for functions that walk through it."""
    level, depth = [document], 0
    while level := [part for value in level for part in _parts(value) if isinstance(part, (dict, list))]:
        depth += 1
        if depth > _DEEPEST:
            raise ValueError(f"the JSON is nested more than {_DEEPEST} levels deep")


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _values(value: Any) -> Iterator[Any]:
    """Yield a value and the values in it that take memory, except keys and values that Python shares."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value is None or isinstance(value, (bool, Enum)):
            continue
        yield value
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
        else:
            waiting += [getattr(value, name) for name in getattr(value, "__slots__", ())]


def _changed(document: Any, change: Callable[[list[Any]], list[Any]]) -> Any:
    """Return a document in which the list (perhaps inside an object) is replaced."""
    if isinstance(document, dict):
        return {key: _changed(value, change) for key, value in document.items()}
    return change(document) if isinstance(document, list) else document


def _refuse_entries() -> NoReturn:
    raise TooLarge(f"its list has more than {_MOST_ENTRIES:,} entries")


def _refuse() -> NoReturn:
    raise ValueError("not a list of JSON objects")


class _Windows:
    """The characters of a body after a position, decoded one window at a time."""

    def __init__(self, body: bytes, start: int) -> None:
        self._body = body
        self._next = start
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
        self._text = ""
        self._at = 0

    def entries(self) -> Iterator[Any]:
        """Yield the entries of a list to its end."""
        if self._sign() == "]":
            self._at += 1
            return
        while True:
            yield self._value()
            sign = self._sign()
            self._at += 1
            if sign == "]":
                return
            if sign != ",":
                _refuse()

    def rest(self) -> str:
        """Return the characters after the list."""
        if len(self._text) - self._at + len(self._body) - self._next > _LONGEST_FRAME:
            _refuse()
        return self._text[self._at :] + self._decoder.decode(self._body[self._next :], final=True)

    def _sign(self) -> str:
        """Return the next character that is not a blank without consuming it."""
        while True:
            self._at = _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]  # matches always
            if self._at < len(self._text):
                return self._text[self._at]
            self._read()

    def _value(self) -> Any:
        """Return the next value. A value at the end of the window may be truncated, so parse it again."""
        while True:
            start = _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]  # as above
            try:
                value, end = _DECODER.raw_decode(self._text, start)
            except ValueError:
                end = len(self._text)
            if end < len(self._text):
                _check_depth(value)
                self._at = end
                return value
            self._read()

    def _read(self) -> None:
        """Append the next window to the characters that have not been parsed yet."""
        if len(self._text) - self._at > _WINDOW:
            raise TooLarge(f"an entry of its list has more than {_WINDOW / _MIB:g} MiB")
        part = self._body[self._next : self._next + _WINDOW]
        if not part:
            _refuse()
        self._next += len(part)
        self._text = self._text[self._at :] + self._decoder.decode(part)
        self._at = 0
