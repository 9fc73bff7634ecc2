"""Parser of the template language of commands: mustache 2.3 with ``<% %>`` as tags.

The server fills in names and removes every other kind of tag: sections with
their content, partials, comments, unescaped names. A tag that is not closed
makes it fail.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

__all__ = [
    "ABSENT",
    "SPACES",
    "Tag",
    "TemplateError",
    "Text",
    "look_up",
    "parse",
    "shown",
    "steps",
]

SPACES: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""White space to JavaScript, in patterns and when a text is trimmed."""

_SPACE = f"[{SPACES}]"
_RUN = re.compile(f"\n|(?:(?!\n){_SPACE})+|[^{SPACES}]+")  # the end of a line, blanks, anything else
_SPACES_BEFORE = f"(?:(?<!{_SPACE}){_SPACE}+)?"  # from their first one: not tried again from each
_EQUALS = re.compile(f"{_SPACES_BEFORE}=")
_INDEX = re.compile(r"\[([0-9]+)\]")
_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_OPENING_KINDS = ("#", "^", "/", ">", "{", "&", "=", "!")


class Absent:
    """The type of ``ABSENT``."""


ABSENT: Final = Absent()
"""The value of a name that refers to nothing."""


class TemplateError(ValueError):
    """A template on which the server fails.

    Attributes:
        at: the offset of the tag at fault.
    """

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True)
class Text:
    """Text between tags; ``at`` is its offset in the template."""

    value: str
    at: int


@dataclass(frozen=True)
class Tag:
    """A tag.

    Attributes:
        kind: ``name``, or the character that a tag of another kind begins with.
        value: what stands in it.
        at: its offset in the template.
    """

    kind: str
    value: str
    at: int


class _Marks(NamedTuple):
    """The patterns of the tags that are in force."""

    opening: re.Pattern[str]
    closing: re.Pattern[str]
    closing_curly: re.Pattern[str]


def parse(template: str) -> list[Text | Tag]:
    """Break a template into text and tags, without those within sections.

    Raises:
        TemplateError: a tag or a section is not closed, or was not opened.
    """
    if "<%" not in template:
        return [Text(template, 0)] if template else []
    return _outermost(_Parser(template).pieces())


class _Parser:
    """One pass over a template.

    A line that holds nothing but white space and tags other than names goes, with its end.
    """

    def __init__(self, template: str) -> None:
        self._template = template
        self._marks = _marks("<%", "%>")
        self._pieces: list[Text | Tag | None] = []
        self._blanks: list[int] = []  # white space of this line, where in the pieces
        self._tag_on_line = False
        self._more_on_line = False
        self._sections: list[Tag] = []

    def pieces(self) -> list[Text | Tag]:
        at = 0
        while at < len(self._template):
            opening = self._marks.opening.search(self._template, at)
            self._take_text(at, opening.start() if opening else len(self._template))
            if opening is None:
                break
            at = self._take_tag(opening)
        if self._sections:
            section = self._sections[-1]
            raise TemplateError(
                f"the section <% {section.kind}{shown(section.value)} %> is not closed", section.at
            )
        return [piece for piece in self._pieces if piece is not None]

    def _take_text(self, start: int, end: int) -> None:
        for run in _RUN.finditer(self._template, start, end):
            if run[0][0] in SPACES:
                self._blanks.append(len(self._pieces))
            else:
                self._more_on_line = True
            self._pieces.append(Text(run[0], run.start()))
            if run[0] == "\n":
                self._end_line()

    def _end_line(self) -> None:
        if self._tag_on_line and not self._more_on_line:
            for index in self._blanks:
                self._pieces[index] = None
        self._blanks.clear()
        self._tag_on_line = self._more_on_line = False

    def _take_tag(self, opening: re.Match[str]) -> int:
        """Take the tag that opens here, and return the offset of its end."""
        template, at = self._template, opening.end()
        self._tag_on_line = True
        kind = template[at] if template[at : at + 1] in _OPENING_KINDS else "name"
        if kind != "name":
            at = _past_spaces(template, at + 1)
        until = {"=": _EQUALS, "{": self._marks.closing_curly}.get(kind, self._marks.closing)
        stop = until.search(template, at)
        closing = self._marks.closing.search(template, _end_of_value(template, kind, stop)) if stop else None
        if stop is None or closing is None:
            end = {"=": "=%>", "{": "}%>"}.get(kind, "%>")
            raise TemplateError(
                f"{end!r} is missing: the tag {shown(template[opening.start() :])} is not closed",
                opening.start(),
            )
        tag = Tag("&" if kind == "{" else kind, template[at : stop.start()], opening.start())
        self._pieces.append(tag)
        self._follow(tag)
        return closing.end()

    def _follow(self, tag: Tag) -> None:
        if tag.kind in ("#", "^"):
            self._sections.append(tag)
        elif tag.kind == "/":
            if not self._sections:
                raise TemplateError(f"<% /{tag.value} %> closes a section that was not opened", tag.at)
            section = self._sections.pop()
            if section.value != tag.value:
                raise TemplateError(f"<% /{tag.value} %> closes the section {section.value}", tag.at)
        elif tag.kind in ("name", "&"):
            self._more_on_line = True
        elif tag.kind == "=":
            marks = re.split(f"{_SPACE}+", tag.value)[:2]
            if len(marks) < 2:  # noqa: PLR2004  one that opens and one that closes
                raise TemplateError(f"<%= {tag.value} =%> does not name two marks", tag.at)
            self._marks = _marks(*marks)


def _marks(opening: str, closing: str) -> _Marks:
    return _Marks(
        re.compile(f"{re.escape(opening)}{_SPACE}*"),
        re.compile(f"{_SPACES_BEFORE}{re.escape(closing)}"),
        re.compile(f"{_SPACES_BEFORE}{re.escape('}' + closing)}"),
    )


def _end_of_value(template: str, kind: str, stop: re.Match[str]) -> int:
    if kind == "=":
        return stop.end()
    return template.index("}", stop.start()) + 1 if kind == "{" else stop.start()


def _past_spaces(text: str, at: int) -> int:
    while at < len(text) and text[at] in SPACES:
        at += 1
    return at


def shown(text: str) -> str:
    """Return enough of a tag to find it by: its first line, cut."""
    line = text.split("\n", 1)[0]
    return line if len(line) <= 40 else f"{line[:40]}..."  # noqa: PLR2004  enough to find it by


def _outermost(pieces: list[Text | Tag]) -> list[Text | Tag]:
    """Return the pieces that are in no section, runs of text joined."""
    found: list[Text | Tag] = []
    run: list[Text] = []
    depth = 0
    for piece in pieces:
        if isinstance(piece, Text):
            if depth == 0:
                run.append(piece)
            continue
        if run:
            found.append(Text("".join(text.value for text in run), run[0].at))
            run = []
        if depth == 0:
            found.append(piece)
        depth += {"#": 1, "^": 1, "/": -1}.get(piece.kind, 0)
    if run:
        found.append(Text("".join(text.value for text in run), run[0].at))
    return found


def steps(name: str) -> list[str]:
    """Return the steps of a name: ``$data.uri[0]`` -> ``["$data", "uri", "0"]``."""
    name = _INDEX.sub(r".\1", name)
    return name.split(".") if name.find(".") > 0 else [name]


def look_up(view: Any, path: list[str]) -> Any:
    """Return what stands under a path as JavaScript finds it, or ``ABSENT``.

    A list has its indexes and ``length``, a text too, other plain values nothing.
    """
    value: Any = view
    for step in path:
        value = _property(value, step)
        if value is ABSENT or value is None:
            break
    return value


def _property(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name, ABSENT)
    if isinstance(value, str):
        units = value.encode("utf-16-le", "surrogatepass")
        items: Any = [
            units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)
        ]
    elif isinstance(value, list):
        items = value
    else:
        return ABSENT
    if name == "length":
        return len(items)
    if _ARRAY_INDEX.fullmatch(name) and len(name) <= len(str(len(items))) and int(name) < len(items):
        return items[int(name)]
    return ABSENT
