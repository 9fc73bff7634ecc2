"""Parses YAML's nodes and scalars with PyYAML, but as the servers' js-yaml does.

Three methods of PyYAML's scanner are overridden to handle tabs between tokens, tabs within plain scalars, and
blanks before a line break within quotes. Characters that PyYAML and js-yaml treat differently are replaced
before PyYAML reads the document and restored afterwards.

OpenPAI 0.15 to 1.8 and LTP 1.0 use js-yaml 3; LTP 1.1 and later use js-yaml 4. Scalars that these two read
differently are rejected. The patterns for scalars are js-yaml's (``lib/type/int.js``, ``float.js`` and
``timestamp.js``). Messages never quote the document, because it may contain a secret.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from datetime import date
from typing import TYPE_CHECKING, Any

import yaml

from luigi_pai.errors import Level, Problem
from luigi_pai.jobspec.dialects.javascript_text import javascript_number
from luigi_pai.jobspec.hints import ODD, name_of
from luigi_pai.jobspec.paths import path_text

if TYPE_CHECKING:
    from luigi_pai.jobspec.paths import Path

MAX_DEPTH = 100
"""Maximum number of nested levels in a document."""

TOO_DEEP = f"this is nested more than {MAX_DEPTH} levels deep, which no job is; it is not read further"
"""Message for a part nested more than ``MAX_DEPTH`` levels deep."""

BAD_TAG = (
    "this value does not fit its tag, or the tag is none of !!str, !!int, !!float, !!bool and !!null; leave "
    "the tag out, or put a string that starts with '!' in quotes"
)
"""Message for a tag that is unknown or does not fit its value."""

QUOTE_STRING = "if you mean a string, put it in quotes"
"""Advice for a value that servers do not read as a string."""

_OPEN_QUOTE = "the quote that starts here is never closed"
_KEY_WITHOUT_COLON = "a key needs ': ' after it, on the same line and within 1,024 characters"
_ANCHOR = (
    "'&' gives a value a name of letters, digits, '-' and '_', and '*' refers to it; put a string that "
    "starts with one of them in quotes"
)
_INDENTATION = (
    "this does not fit the lines above; look at its indentation, and at quotes and brackets before it"
)
_AT_CONTEXT = (_OPEN_QUOTE, _KEY_WITHOUT_COLON, _ANCHOR)
"""Messages for mistakes that PyYAML notices late; the mistake is at the error's ``context_mark``."""

_MESSAGES = (
    (
        "mapping values are not allowed",
        (
            "this line contains a second ': ', is indented incorrectly, or has a key of more than 1,024 "
            "characters; put a string with ': ' in quotes"
        ),
    ),
    ("sequence entries are not allowed", "'- ' cannot start a list here; put it on a separate line"),
    ("could not find expected ':'", _KEY_WITHOUT_COLON),
    ("but found '<block mapping start>'", _INDENTATION),
    ("expected <block end>", _INDENTATION),
    ("expected '<document start>'", _INDENTATION),
    ("expected ',' or", "',' or the closing bracket is missing before this"),
    ("found unexpected end of stream", _OPEN_QUOTE),
    ("found unexpected document separator", _OPEN_QUOTE),
    ("unknown escape", "there is no such escape; write a backslash as \\\\ in \"...\", or use '...'"),
    ("expected alphabetic or numeric character", _ANCHOR),
    ("found undefined alias", _ANCHOR),
    ("but found another document", "a second document starts here; a job is one document"),
)
"""Part of a PyYAML message -> our message. ``_from_pyyaml`` has a message for other cases."""


class YamlError(Exception):
    """A problem that ends the parsing of a document."""

    def __init__(self, message: str, line: int, column: int = 0, path: Path = ()) -> None:
        self.problem = yaml_problem(message, line, column, path)
        super().__init__(str(self.problem))


def yaml_problem(message: str, line: int, column: int, path: Path, level: Level = Level.REFUSED) -> Problem:
    """Return a problem at a line and column, counted from 1; column 0 means only the line is known."""
    where = f"column {column}: " if column else ""
    return Problem(path_text(path), f"{where}{message}", level, line)


def place_of(mark: Any) -> tuple[int, int]:
    """Return the line and column of one of PyYAML's marks, counted from 1."""
    return mark.line + 1, mark.column + 1


def _from_pyyaml(error: Any, document: str) -> YamlError:
    """Convert a PyYAML error to a YamlError. If the last two lines have an odd character, point there."""
    found = error.problem or ""
    mark = error.problem_mark or error.context_mark
    message = next((message for part, message in _MESSAGES if part in found), None)
    if message in _AT_CONTEXT:
        mark = error.context_mark or mark
    line, column = place_of(mark) if mark else (1, 1)
    message = message or f"YAML does not allow this here; remove it or, {QUOTE_STRING}"
    for number in range(max(line - 1, 1), line + 1):
        if found := ODD.search(document.split("\n")[number - 1]):
            message = f"{name_of(found)} is here; else look at line {line}, column {column}: {message}"
            return YamlError(message, number, found.start() + 1)
    return YamlError(message, line, column)


_REPLACED = re.compile(
    "[\x85\u2028\u2029]"  # line breaks for PyYAML, but not for js-yaml
    r"|\?(?![ \t\r\n])|(?<=[^ \t\r\n,\[\]{}])\?"  # a ? in a string, which PyYAML may take for a key indicator
)


class _Loader(yaml.SafeLoader):
    """PyYAML's composer, with different tags for nodes that have no tag in the document.

    The tag is ``!`` for a scalar in quotes or in a block (``|``, ``>``), and empty for any other node.
    """

    def __init__(self, document: str) -> None:
        found = sorted({match[0] for match in _REPLACED.finditer(document)})
        free = (chr(code) for code in range(0xF0000, 0xFFFFE) if chr(code) not in document)
        replacements = dict(zip(found, free, strict=False))
        self._originals = str.maketrans({new: original for original, new in replacements.items()})
        self._depth = 0
        super().__init__(_REPLACED.sub(lambda match: replacements[match[0]], document))

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node. Reject the tag ``!`` and nodes that are nested too deeply."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's
        if getattr(event, "tag", None) == "!":
            raise YamlError(BAD_TAG, *place_of(event.start_mark))
        if self._depth > MAX_DEPTH:
            raise YamlError(TOO_DEEP, *place_of(event.start_mark))
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_scalar_node(self, anchor: Any) -> Any:
        """Compose a scalar, and restore the replaced characters."""
        node = super().compose_scalar_node(anchor)
        node.value = node.value.translate(self._originals)
        return node

    def resolve(self, kind: Any, _value: Any, implicit: Any) -> Any:
        """Return the tag for a node without a tag in the document."""
        return "!" if kind is yaml.ScalarNode and not implicit[0] else ""

    def scan_to_next_token(self) -> None:
        """Skip tabs, as well as the characters that PyYAML skips. Reject tabs in the indentation."""
        if self.flow_level > MAX_DEPTH:  # here too, because PyYAML scans nested [ before it composes nodes
            raise YamlError(TOO_DEEP, *place_of(self))
        super().scan_to_next_token()
        while self.peek() == "\t":
            self._check_indentation()
            self.forward(len(self._blanks()))
            super().scan_to_next_token()

    def scan_plain_spaces(self, indent: int, start_mark: Any) -> Any:
        """Keep tabs between the words of a plain scalar; drop tabs before a line break."""
        blanks = self._blanks()
        if "\t" not in blanks:
            return super().scan_plain_spaces(indent, start_mark)
        self.forward(len(blanks))
        return super().scan_plain_spaces(indent, start_mark) if self.peek() in "\r\n" else [blanks]

    def scan_flow_scalar_spaces(self, double: Any, start_mark: Any) -> Any:
        """Keep the blanks before a line break within quotes."""
        blanks = self._blanks()
        if self.peek(len(blanks)) not in "\r\n":
            return super().scan_flow_scalar_spaces(double, start_mark)
        self.forward(len(blanks))
        return [blanks, *super().scan_flow_scalar_spaces(double, start_mark)]

    def _blanks(self) -> str:
        """Return the blanks and tabs that come next in the document."""
        length = 0
        while self.peek(length) in " \t":
            length += 1
        return str(self.prefix(length))

    def _check_indentation(self) -> None:
        """Reject the tab that comes next in the document if it is part of the indentation."""
        line_before = self.buffer[self.pointer - self.column : self.pointer]
        if (
            not self.flow_level
            and not line_before.strip(" ")
            and self.peek(len(self._blanks())) not in "\r\n#"
        ):
            message = "this is indented with a tab, which servers read differently; use spaces"
            raise YamlError(message, *place_of(self))


def compose(document: str) -> Any:
    """Return PyYAML's root node for the only document in ``text``; None if there is no document.

    Raises:
        YamlError: ``text`` is not YAML, has several documents, or contains a character that servers reject.
    """
    document = document.removeprefix("\ufeff")
    if document and document[-1] not in "\r\n":
        document += "\n"
    line = 0
    try:
        loader = _Loader(document)
        try:
            return loader.get_single_node()
        finally:
            line = loader.line + 1
    except yaml.MarkedYAMLError as error:
        raise _from_pyyaml(error, document) from None
    except yaml.reader.ReaderError as error:
        before = re.sub("\r\n?", "\n", document[: error.position])
        code = f"U+{ord(document[error.position]):04X}"
        message = f'jobs cannot contain this character ({code}); remove it, or write it as an escape in "..."'
        position = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise YamlError(message, *position) from None
    except (ValueError, OverflowError):
        message = "an escape in this string is not a character; replace it"
        raise YamlError(message, line) from None


MERGE = "<<"
"""The plain key whose value is merged into the mapping that contains it."""

_WORDS = {
    **dict.fromkeys(("~", "null", "Null", "NULL", ""), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_FIRST_OF_NUMBERS = "+-.0123456789"  # and of dates
_EXPONENT = r"(?:[eE][-+]?[0-9]+)?"
_DIFFERENT = re.compile(
    rf"""[-+]?(?:0[0-9_]+(?:\.[0-9_]*)?{_EXPONENT}
      | 0o[0-7_]+
      | [1-9][0-9_]*(?::[0-5]?[0-9])+
      | [0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)""",
    re.VERBOSE,
)
_DATE = re.compile(r"(?!00)[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"""00[0-9]{2}-[0-9]{2}-[0-9]{2}  # JavaScript reads the year 00YY as 19YY
      | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?
        (?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?""",
    re.VERBOSE,
)
_INTEGER = re.compile(
    r"""([-+]?)(?:0b(?P<binary>[01_]*[01])
      | 0x(?P<hexadecimal>[0-9a-fA-F_]*[0-9a-fA-F])
      | (?P<decimal>0+|[1-9][0-9_]*(?<!_)))""",
    re.VERBOSE,
)
_BASES = {"binary": 2, "hexadecimal": 16, "decimal": 10}
_REAL = re.compile(
    rf"""(?:\.[0-9_]+{_EXPONENT}
      | [-+]?\.(?:inf|Inf|INF)
      | \.(?:nan|NaN|NAN)
      | [-+]?(?:0|[1-9][0-9_]*)(?:\.[0-9_]*)?{_EXPONENT})(?<!_)""",
    re.VERBOSE,
)


class UnclearScalarError(ValueError):
    """A scalar that OpenPAI and LTP, or servers and people, read differently. The message omits the value."""


def plain_value(scalar: str, *, js_yaml_4: bool | None = None) -> tuple[Any, bool]:
    """Return the value of a scalar without quotes or tag, and whether it is a date.

    ``js_yaml_4`` is whether js-yaml 4 reads it instead of js-yaml 3; None if this is unknown.

    Raises:
        UnclearScalarError: js-yaml 3 and 4 read the scalar differently and the version is unknown, or it is
            a date with a time, a date that does not exist, or a date before the year 100.
    """
    if scalar in _WORDS:
        return _WORDS[scalar], False
    if scalar[0] not in _FIRST_OF_NUMBERS:
        return scalar, False
    if _DIFFERENT.fullmatch(scalar) and scalar.strip("+-0"):
        if js_yaml_4 is not None:
            return _as_read_by(scalar, js_yaml_4=js_yaml_4), False
        raise UnclearScalarError(
            f"OpenPAI reads this as one value, and LTP 1.1 and later as another; {QUOTE_STRING}; "
            "for a number, write decimal digits without a leading 0"
        )
    is_date = _DATE.fullmatch(scalar) is not None
    if is_date:
        with contextlib.suppress(ValueError):  # a value such as 2024-02-30 is rejected below
            return f"{date.fromisoformat(scalar)}T00:00:00.000Z", True
    if is_date or _TIME.fullmatch(scalar):
        raise UnclearScalarError(f"the server reads this as a time, and converts it to UTC; {QUOTE_STRING}")
    number = _number(scalar)
    return (scalar if number is None else number), False


def _as_read_by(scalar: str, *, js_yaml_4: bool) -> Any:
    """Return what js-yaml 3 or 4 reads for a scalar that they read differently."""
    digits, base = scalar.lstrip("+-").replace("_", ""), 8
    parts = list(digits.removeprefix("0o"))
    is_number = js_yaml_4
    if ":" in digits:
        parts, base, is_number = digits.split(":"), 60, not js_yaml_4
    elif not js_yaml_4:
        is_number = re.fullmatch(r"[0-7]+", digits) is not None
    elif not digits.startswith("0o"):
        parts = [digits]
    if scalar[-1] == "_" or not is_number:
        return scalar
    value = functools.reduce(lambda total, part: total * base + float(part), parts, 0.0)
    return javascript_number(-value if scalar[0] == "-" else value)


def _number(scalar: str) -> int | float | None:
    if match := _INTEGER.fullmatch(scalar):
        kind = str(match.lastgroup)
        digits = match[kind].replace("_", "")
        try:  # unlike int(), float() does not limit the number of digits
            value = float(digits) if kind == "decimal" else float(int(digits, _BASES[kind]))
        except OverflowError:
            value = math.inf
        return javascript_number(-value if match[1] == "-" else value)
    if not _REAL.fullmatch(scalar):
        return None
    digits = scalar.replace("_", "").lower()
    if digits.startswith((".e", ".nan")):
        return math.nan
    return javascript_number(float(digits.replace(".inf", "inf")))
