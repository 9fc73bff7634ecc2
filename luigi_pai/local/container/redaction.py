"""Secrets in what tasks wrote, masked before any of it is shown as the reason of a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.spec.templates.secrets import mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["hider"]

_LINE = 6  # shorter lines of a secret, such as a brace, say nothing and are everywhere


def hider(secrets: Mapping[str, Any]) -> Callable[[str], str]:
    """Return what masks secrets in a text: each as a whole, and each longer line of it by itself.

    A log ends anywhere, and commands write a key's lines one by one: a part of
    a secret is as secret as the whole.
    """
    hidden = {"secrets": [secrets, *_lines(secrets)]}
    return lambda text: mask(text, hidden)


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _lines(item)
    elif isinstance(value, str):
        lines = value.strip().splitlines()
        yield from (line.strip() for line in lines if len(lines) == 1 or len(line.strip()) >= _LINE)
