r"""The parameters of a runtime plugin as OpenPAI 1.8's runtime reads them.

It writes them as Python's ``repr`` has them, puts what references name into
that text as it is, and reads the result as YAML (``replace_ref`` and
``init_plugins`` in its initializer). So a text with both kinds of quotes, or a
reference to a number, fails the task, and a line break may become ``\n``.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from luigi_pai.spec.dialects import mustache
from luigi_pai.spec.templates.secrets import replaced

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["fill_plugin_secrets", "read_parameters"]

_REFERENCE = re.compile(r"<%\s*\$([\s\S]*?)%>")
_SECRET = re.compile(r"<%\s*(\$secrets\b[^%]*)%>")
_INDEX = re.compile(r"\[\s*([0-9]+)\s*\]")
_SHOWN = 60


def read_parameters(parameters: Any, document: Mapping[str, Any], role: str) -> Any:
    """Return the parameters of a plugin; references to secrets are checked, and stay.

    Args:
        parameters: as they stand in the protocol; an empty text where there are none.
        document: the protocol, with its secrets.
        role: the role that the plugin runs in, by the protocol's own name.

    Raises:
        ValueError: the runtime fails over them. The message gives the reason, and no value.
    """

    def filled(tag: re.Match[str]) -> str:
        name = tag[1].rstrip()
        value = _referred(name, document, role)
        if not isinstance(value, str):
            raise ValueError(f"{_tag(name)} is no text, and in a plugin it must be one")  # noqa: TRY004
        return tag[0] if name.startswith("secrets") else value

    return _read(replaced(_REFERENCE, filled, str(parameters)))


def fill_plugin_secrets(value: Any, secrets: Mapping[str, Any]) -> Any:
    """Return parameters in whose texts the references to secrets are filled in, exactly."""
    if isinstance(value, dict):
        return {key: fill_plugin_secrets(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_plugin_secrets(item, secrets) for item in value]
    if not isinstance(value, str):
        return value

    def filled(tag: re.Match[str]) -> str:
        found = mustache.look_up({"$secrets": secrets}, mustache.steps(tag[1].rstrip()))
        return found if isinstance(found, str) else tag[0]

    return _SECRET.sub(filled, value)


@lru_cache(maxsize=16)  # the same plugin in many roles
def _read(text: str) -> Any:
    import yaml  # noqa: PLC0415  heavy, and only needed here

    try:
        return json.loads(json.dumps(yaml.safe_load(text), default=str))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        raise ValueError(
            "1.8's runtime cannot read them back: a text has both kinds of quotes, perhaps by a reference"
        ) from None


def _referred(name: str, document: Mapping[str, Any], role: str) -> Any:
    """Return what a reference names, ``parameters.a.b[0]``; raises ValueError where there is nothing."""
    first, *steps = name.split(".")
    try:
        value = _begin(first, document, role)
        for step in steps:
            end = 0
            for index in _INDEX.finditer(step):
                value = value[step[end : index.start()]] if index.start() > end else value
                value, end = value[int(index[1])], index.end()
            value = value if end else value[step]  # the runtime passes over what follows the last index
    except (LookupError, TypeError):
        raise ValueError(f"{_tag(name)} refers to nothing") from None
    return value


def _begin(first: str, document: Mapping[str, Any], role: str) -> Any:
    if first in ("parameters", "secrets"):
        return document[first]
    if first in ("script", "output", "data"):
        chosen = document["taskRoles"][role][first]
        for item in document.get("prerequisites") or ():
            if (item["type"], item["name"]) == (first, chosen):
                return item
    raise LookupError(first)


def _tag(name: str) -> str:
    return f"<% ${name if len(name) <= _SHOWN else name[:_SHOWN] + '...'} %>"
