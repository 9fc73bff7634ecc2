"""Secrets of a job protocol: filled into commands, and redacted in texts and documents."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.dialects import mustache
from luigi_pai.jobspec.dialects.javascript_text import javascript_text
from luigi_pai.jobspec.paths import item_of, list_of
from luigi_pai.redaction import MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["MASK", "fill_secrets", "mask", "masked", "replaced", "secret_values"]

_RUNTIME_TAG = re.compile(r"<%([\s\S]+?)%>")


def fill_secrets(text: str, secrets: Mapping[str, Any] | None, *, escape: bool = False) -> str:
    """Return a command with its secrets, as the runtime renders it when a task starts.

    Without secrets it stays unchanged. With secrets each ``<% $secrets.x %>`` becomes
    the secret, and every other reference becomes nothing.

    Args:
        text: the command, as the rest-server left it.
        secrets: the protocol's secrets.
        escape: escape ``&``, ``<``, ``>``, ``"`` and ``'`` as HTML, as the runtimes of 0.17 to 1.8 do (a
            defect of their pystache).
    """
    if not secrets:
        return text

    view = {"$secrets": _as_the_runtime_has(secrets)}

    def filled(tag: re.Match[str]) -> str:
        name = tag.group(1).strip()
        bare = (
            name.removeprefix("&")
            if name[:1] == "&"
            else name[1:-1]
            if name[:1] + name[-1:] == "{}"
            else None
        )
        value = _secret(view, name if bare is None else bare.strip())
        shown = "" if value is mustache.ABSENT else value if isinstance(value, str) else str(value)
        return html.escape(shown, quote=True) if escape and bare is None else shown

    return replaced(_RUNTIME_TAG, filled, text)


def replaced(tag: re.Pattern[str], filled: Callable[[re.Match[str]], str], text: str) -> str:
    """Return a text with its tags filled in; text after the last ``%>`` is not searched."""
    end = text.rfind("%>") + len("%>") if "%>" in text else 0
    return tag.sub(filled, text[:end]) + text[end:]


def _as_the_runtime_has(value: Any) -> Any:
    """Return secrets with each list as a mapping of its indexes, except lists in lists."""
    if isinstance(value, list):
        return {str(index): item for index, item in enumerate(value)}
    return (
        {key: _as_the_runtime_has(item) for key, item in value.items()} if isinstance(value, dict) else value
    )


def _secret(view: Mapping[str, Any], name: str) -> Any:
    """Return what the runtime finds under a name, or ``ABSENT``."""
    value: Any = view
    for step in mustache.steps(name) if name != "." else ():
        value = value.get(step, mustache.ABSENT) if isinstance(value, dict) else mustache.ABSENT
    return value


def masked(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a document in which every value under ``secrets`` and ``auth`` is ``******``.

    References among them stay: they reveal no secret.
    """
    copy = dict(document)
    if "secrets" in copy:
        copy["secrets"] = _masked_value(copy["secrets"])
    prerequisites = copy.get("prerequisites")
    if isinstance(prerequisites, list):
        copy["prerequisites"] = [
            {**item, "auth": _masked_value(item["auth"])}
            if isinstance(item, dict) and "auth" in item
            else item
            for item in prerequisites
        ]
    return copy


def _masked_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _masked_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked_value(item) for item in value]
    if isinstance(value, str) and re.fullmatch(r"\s*<%\s*\$[\w.\[\]-]+\s*%>\s*", value):
        return value
    return MASK


def mask(text: str, document: Mapping[str, Any]) -> str:
    """Return a text in which every secret of a document, and every value of an ``auth``, is ``******``."""
    values = set(_leaves(document.get("secrets")))
    for item in list_of(document, "prerequisites"):
        values.update(_leaves(item_of(item, "auth")))
    shown = sorted({javascript_text(value) for value in values} - {""}, key=len, reverse=True)
    secret = [value for value in shown if not value.lstrip().startswith("<%")]
    return re.sub("|".join(map(re.escape, secret)), MASK, text) if secret else text


def secret_values(document: Mapping[str, Any]) -> Iterator[Any]:
    """Yield every value under ``secrets``, and every password of an ``auth`` that is not a reference."""
    yield from _leaves(document.get("secrets"))
    for item in list_of(document, "prerequisites"):
        password = item_of(item_of(item, "auth"), "password")
        if not (isinstance(password, str) and password.lstrip().startswith("<%")):
            yield from _leaves(password)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif value is not None and not isinstance(value, bool):
        yield value
