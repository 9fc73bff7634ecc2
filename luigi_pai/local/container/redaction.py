"""Secrets in the logs of tasks, redacted before a part of a log is shown as the reason of a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.spec.templates.secrets import mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["redactor"]

_SHORTEST_LINE = 6  # shorter lines of a secret, such as a brace, tell nothing and are everywhere


def redactor(secrets: Mapping[str, Any]) -> Callable[[str], str]:
    """Return a function that redacts secrets in a text: each as a whole, and each longer line of it.

    A part of a log may begin within a secret, and commands write a key's lines one by one, so the
    lines of a secret are as secret as the whole.
    """
    redacted = {"secrets": [secrets, *_lines(secrets)]}
    return lambda text: mask(text, redacted)


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _lines(item)
    elif isinstance(value, str):
        lines = value.strip().splitlines()
        yield from (line.strip() for line in lines if len(lines) == 1 or len(line.strip()) >= _SHORTEST_LINE)
