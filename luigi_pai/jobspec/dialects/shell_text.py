"""Parses the part of the shell's grammar that decides how a command ends: quotes, comments, here-documents.

A rest-server appends text to a command, so the end of the command decides how the shell reads both. This
parser does only what that requires: like bash, it finds where a quote, a comment, a here-document or a
parenthesis starts and ends, but it does not know keywords.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import re
from dataclasses import dataclass
from typing import Final

_DELIMITER = r"""(?:\\.|'[^'\n]*'|"[^"\n]*"|[^\s'"\\;&|<>()])+"""
_BACKQUOTED = r"`(?:\\[\s\S]|[^`\\])*`"  # bash only looks for the closing backquote
_ANY = r"""(?P<open>\$\(\(|\$\(|\$\{|") | (?P<other>[\s\S])"""
_COMMAND = re.compile(
    rf"""(?P<word>[^\s\\'"`$();|&<>\#]+) |
    (?P<blank>[ \t\r]+|\\\n) | (?P<escape>\\[\s\S]) | (?P<backslash>\\) |
    (?P<quoted>\$'(?:\\[\s\S]|[^'\\])*'|'[^']*'|{_BACKQUOTED}) |
    (?P<unclosed>\$?'|`) |
    (?P<bracket>\(\(?) | (?P<newline>\n) |
    (?P<redirection><<<|&>>?|[<>]&|>\|) | <<(?P<tabs>-?)[ \t]*(?P<here>{_DELIMITER}) |
    (?P<operator>&&|\|\||\|&|;;&?|;&|[&|]) | (?P<semicolon>;) | (?P<hash>\#) | {_ANY}""",
    re.VERBOSE,
)
_QUOTED = re.compile(rf"""(?P<word>[^\\"`$]+|\\[\s\S]|{_BACKQUOTED}) | {_ANY}""", re.VERBOSE)
_PARAMETER = re.compile(rf"""(?P<word>[^\\'"`$}}]+|\\[\s\S]|'[^']*'|{_BACKQUOTED}) | {_ANY}""", re.VERBOSE)
_ARITHMETIC = re.compile(
    rf"""(?P<word>[^\\"`$()]+|\\[\s\S]|{_BACKQUOTED}) | (?P<bracket>\() | {_ANY}""", re.VERBOSE
)
_INSIDE: Final = {
    "$((": ("))", _ARITHMETIC),
    "((": ("))", _ARITHMETIC),
    "$(": (")", _COMMAND),
    "(": (")", _COMMAND),
    "${": ("}", _PARAMETER),
    '"': ('"', _QUOTED),
}
"""Opening token -> closing token and the tokens inside."""
_CARRIAGE_RETURN = re.compile(r"\r+(?=\n|\Z)")
_STATUS = "\n(exit $?)"
_STRICT = "bash -e -o pipefail -c $'"


@dataclass(frozen=True)
class Ending:
    """How a command ends.

    Attributes:
        end: The index after the last word or operator; blanks, ``;``, line breaks and comments may follow.
        operator: The last token if it is ``&``, ``|``, ``|&``, ``&&``, ``||`` or a backslash; else empty.
        unclosed: The unclosed token, such as ``'``, ``$(`` or ``<<EOF``; empty if every token is closed.
        is_here_document: Whether the last line ends a here-document.
        bare: The command with ``_`` for each character in quoted strings and parentheses, and blanks for
            comments and here-documents. Indexes are the same as in the command.
    """

    end: int
    operator: str
    unclosed: str
    is_here_document: bool
    bare: str


def ending(command: str) -> Ending:
    """Return how a command ends. The command's lines must end with LF."""
    return _Reader(command).read()


def with_line_feeds(command: str) -> str:
    """Replace CR LF with LF in a command, because the shell does not ignore CR."""
    return _CARRIAGE_RETURN.sub("", command) if "\r" in command else command


def repaired(command: str) -> str:
    """Return an equivalent command to which 0.7 and 0.8 servers can append `` || exit $?``.

    Line breaks, ``;`` and comments at the end are removed. A here-document's last line stays on its own line.
    All other commands are returned unchanged.
    """
    command = with_line_feeds(command)
    if "#" not in command and "<<" not in command and command.rstrip(" \t")[-1:] not in ("\n", ";"):
        return command
    last = ending(command)
    if not last.end or last.unclosed or last.operator not in ("", "&"):
        return command
    if last.is_here_document:
        return command if last.operator else command[: last.end] + _STATUS
    return command[: last.end] if command[last.end :].strip(" \t") else command


def strict(command: str) -> str:
    """Wrap a command in a one-line command that runs it under ``set -e -o pipefail`` on every release.

    In the script of 0.9 to 0.14, ``set -e`` has no effect, so the command runs in a separate bash.
    """
    escaped = json.dumps(with_line_feeds(command), ensure_ascii=False)[1:-1].replace("'", r"\'")
    return f"{_STRICT}{escaped}'"


def strict_command(command: str) -> str | None:
    """Undo ``strict``: return the original command, or None if ``strict`` did not produce this one."""
    escaped = command.removeprefix(_STRICT)[:-1].replace(r"\'", "'")
    with contextlib.suppress(ValueError):  # for similar commands that users write
        found = str(json.loads(f'"{escaped}"'))
        return found if strict(found) == command else None
    return None


def packed(content: bytes) -> str:
    """Return a command that contains the content in compressed form and prints it."""
    data = base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")
    return f"echo {data} | base64 -d | gzip -d"


class _Reader:
    def __init__(self, command: str) -> None:
        self._command = command
        self._at = self._end = 0
        self._operator = ""
        self._open: list[tuple[str, str, re.Pattern[str]]] = []  # open tokens, the innermost last
        self._here: list[tuple[str, str]] = []  # here-documents that start on the next line
        self._is_here_document = self._in_word = False
        self._bare = ""

    def read(self) -> Ending:
        unclosed = ""
        while self._at < len(self._command) and not unclosed:
            unclosed = self._step()
            self._bare = self._bare.ljust(self._at, "_")
        if not unclosed and self._open:
            unclosed = self._open[-1][0]
        elif not unclosed and self._here:
            unclosed = f"<<{self._here[0][1]}"
        return Ending(self._end, self._operator, unclosed, self._is_here_document, self._bare)

    def _step(self) -> str:
        """Read a token; return it if it can never be closed, otherwise an empty string."""
        _opener, closer, pattern = self._open[-1] if self._open else ("", "", _COMMAND)
        if closer and self._command.startswith(closer, self._at):
            self._open.pop()
            self._take(self._at + len(closer), "_")
            return ""
        found = pattern.match(self._command, self._at)
        assert found is not None  # because the last alternative matches any character
        kind, piece = found.lastgroup or "", found[0]
        if kind in ("open", "bracket"):
            self._take(found.end(), "_")
            self._in_word = piece == "${"
            closer, inside = _INSIDE[piece]
            if pattern is _ARITHMETIC and kind == "bracket":
                inside = _ARITHMETIC
            self._open.append((piece, closer, inside))
        elif pattern is _COMMAND:
            return self._command_token(kind, piece, found)
        else:
            self._take(found.end(), "")
        return ""

    def _command_token(self, kind: str, piece: str, found: re.Match[str]) -> str:
        if kind == "newline":
            return self._line_break()
        if kind == "unclosed":
            return piece
        if kind == "hash" and not self._in_word:
            end = self._command.find("\n", self._at)
            self._at = len(self._command) if end < 0 else end
            self._bare = self._bare.ljust(self._at)
        elif kind in ("blank", "semicolon"):
            self._at = found.end()
            self._in_word = self._in_word and piece == "\\\n"
            self._note(piece)
        else:
            if kind == "here":
                self._here.append((found["tabs"], re.sub(r"['\"\\]", "", found["here"])))
            self._take(found.end(), piece if kind in ("word", "operator", "other") else "_")
            self._operator = piece if kind in ("operator", "backslash") else ""
            self._in_word = kind not in ("operator", "redirection")
        return ""

    def _take(self, end: int, bare: str) -> None:
        self._at = self._end = end
        self._operator, self._is_here_document, self._in_word = "", False, True
        self._note(bare)

    def _note(self, bare: str) -> None:
        if not self._open:
            self._bare += bare

    def _line_break(self) -> str:
        """Read a line break and the here-documents that start after it."""
        self._at += 1
        self._in_word = False
        self._note("\n")
        for tabs, delimiter in self._here:
            start = r"^\t*" if tabs else "^"
            last_line = re.compile(f"{start}{re.escape(delimiter)}$", re.MULTILINE)
            found = last_line.search(self._command, self._at)
            if found is None:
                return f"<<{delimiter}"
            self._at = self._end = found.end()
            self._bare = self._bare.ljust(self._at)
            self._is_here_document = True
        self._here.clear()
        return ""
