"""HTML without injection: all text that is not `Html` yet is escaped."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PRODUCT = "luigi-pai local"
_VOID = ("input", "link", "meta")
_REFRESH_SECONDS = 3


class Html(str):
    """Text that is markup; only this module makes it."""

    __slots__ = ()


def tag(name: str, /, *content: object, **attributes: object) -> Html:
    """Return an element.

    Args:
        name: its name.
        content: what is in it; texts are escaped.
        attributes: ``class_`` is class, ``data_live`` is data-live; True is
            an attribute without a value, None and False are none.
    """
    shown = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{shown}>" if name in _VOID else f"<{name}{shown}>{join(content)}</{name}>")


def join(parts: Iterable[object]) -> Html:
    """Return parts one after the other; texts are escaped, None is nothing."""
    return Html(
        "".join(part if isinstance(part, Html) else escape(str(part)) for part in parts if part is not None)
    )


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table; where it is too wide it scrolls, and on a narrow screen each row is a block.

    The first cell of a row is its heading.
    """
    head = tag("tr", *(tag("th", word, scope="col") for word in heads))
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(tag("td", cell, data_label=word) for word, cell in zip(heads[1:], row[1:], strict=True)),
        )
        for row in rows
    ]
    inner = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    return tag("div", inner, class_="scroll", role="region", aria_label=caption, tabindex="0")


def page(title: str, *content: object, live: bool = False) -> str:
    """Return a whole page, whose title is also its heading.

    With ``live`` the script updates parts of it; a browser without scripts loads it again every few seconds.
    """
    again = tag("noscript", tag("meta", http_equiv="refresh", content=_REFRESH_SECONDS)) if live else None
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} - {_PRODUCT}"),
        tag("link", rel="icon", href="data:,"),
        tag("link", rel="stylesheet", href="/assets/page.css"),
        tag("script", src="/assets/page.js", defer=True),
        again,
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag(
            "header",
            tag("span", _PRODUCT, class_="product"),
            tag("span", "OpenPAI on this machine", class_="about"),
            tag("nav", tag("a", "All jobs", href="/"), aria_label="Pages"),
        ),
        tag(
            "main",
            tag("h1", title),
            tag("p", id="trouble", role="status", class_="trouble"),
            *content,
            id="content",
            tabindex="-1",
            data_live=live,
        ),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def time_of_day(milliseconds: int | None) -> str:
    """Return a moment as people of this machine read it, or nothing."""
    if milliseconds is None:
        return ""
    moment = datetime.fromtimestamp(milliseconds / 1000, timezone.utc).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def duration(begin: int | None, end: int | None) -> str:
    """Return how long something took, as ``0:01:30``, or nothing while it has not begun or ended."""
    if begin is None or end is None:
        return ""
    return str(timedelta(seconds=max(0, end - begin) // 1000))
