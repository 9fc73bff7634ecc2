"""Fills a job protocol's secrets into commands, and redacts them in strings and documents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.dialects import mustache
from luigi_pai.jobspec.dialects.javascript_text import javascript_text
from luigi_pai.jobspec.paths import item_of, leaves, list_of, mapped
from luigi_pai.redaction import MASK, logged_forms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_RUNTIME_TAG = re.compile(r"<%([\s\S]+?)%>")


def fill_secrets(text: str, secrets: Mapping[str, Any] | None) -> str:
    """Render a command as the runtime does when a task starts, after the rest-server has rendered it.

    Without secrets, the command is unchanged. With secrets, each ``<% $secrets.x %>`` is replaced with the
    secret, and every other reference is removed.
    """
    if not secrets:
        return text

    def filled(tag: re.Match[str]) -> str:
        value = mustache.look_up({"$secrets": secrets}, mustache.steps(tag[1].strip()))
        return "" if value is mustache.ABSENT else str(value)

    return replaced(_RUNTIME_TAG, filled, text)


def replaced(tag: re.Pattern[str], filled: Callable[[re.Match[str]], str], text: str) -> str:
    """Fill in the tags in a string. The part after the last ``%>`` has no complete tag, so it is skipped."""
    end = text.rfind("%>") + len("%>") if "%>" in text else 0
    return tag.sub(filled, text[:end]) + text[end:]


def masked(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a document in which every value under ``secrets`` and ``auth`` is ``******``.

    References in these values are kept, because they do not reveal a secret.
    """
    copy = dict(document)
    if "secrets" in copy:
        copy["secrets"] = mapped(copy["secrets"], _masked_value)
    prerequisites = copy.get("prerequisites")
    if isinstance(prerequisites, list):
        copy["prerequisites"] = [
            {**item, "auth": mapped(item["auth"], _masked_value)}
            if isinstance(item, dict) and "auth" in item
            else item
            for item in prerequisites
        ]
    return copy


def _masked_value(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"\s*<%\s*\$[\w.\[\]-]+\s*%>\s*", value):
        return value
    return MASK


def mask(text: str, document: Mapping[str, Any]) -> str:
    """Replace a document's secrets and ``auth`` values in a string with ``******``, except references."""
    values = {javascript_text(value) for value in _hidden_values(document)} - {""}
    secret = [value for value in values if not value.lstrip().startswith("<%")]
    pattern = "|".join(map(re.escape, sorted(secret, key=len, reverse=True)))
    return re.sub(pattern, MASK, text) if secret else text


def is_masked(document: Mapping[str, Any]) -> bool:
    """Return whether any value under a document's ``secrets`` or ``auth`` is ``******``."""
    return any(MASK in str(value) for value in _hidden_values(document))


def secret_values(document: Mapping[str, Any]) -> Iterator[Any]:
    """Yield every value under ``secrets``, and every password under ``auth`` that is not a reference."""
    yield from _values(document.get("secrets"))
    for item in list_of(document, "prerequisites"):
        password = item_of(item_of(item, "auth"), "password")
        if not (isinstance(password, str) and password.lstrip().startswith("<%")):
            yield from _values(password)


def logged_secrets(document: Mapping[str, Any]) -> list[str]:
    """Return a document's secrets in every form that a log may contain; empty for a v1 job config."""
    return list(logged_forms(map(str, secret_values(document))))


def _hidden_values(document: Mapping[str, Any]) -> Iterator[Any]:
    """Yield every value under ``secrets`` and ``auth``, including references."""
    auths = [item_of(item, "auth") for item in list_of(document, "prerequisites")]
    return _values([document.get("secrets"), auths])


def _values(value: Any) -> Iterator[Any]:
    """Yield the strings and numbers in a value."""
    yield from (leaf for _, leaf in leaves(value) if leaf is not None and not isinstance(leaf, bool))
