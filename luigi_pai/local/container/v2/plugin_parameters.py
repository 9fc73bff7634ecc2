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


def read_parameters(parameters: Any, view: Mapping[str, Any]) -> Any:
    """Return the parameters of a plugin; references to secrets are checked, and stay.

    Args:
        parameters: as they stand in the protocol; an empty text where there are none.
        view: what references stand for in the role that the plugin runs in (`Views`).

    Raises:
        ValueError: the runtime fails over them. The message gives the reason, and no value.
    """

    def filled(tag: re.Match[str]) -> str:
        name = f"${tag[1].rstrip()}"
        value = mustache.look_up(view, mustache.steps(name))
        if value is mustache.ABSENT:
            raise ValueError(f"<% {mustache.shown(name)} %> refers to nothing")
        if not isinstance(value, str):
            raise ValueError(f"<% {mustache.shown(name)} %> is no text, and in a plugin it must be one")  # noqa: TRY004
        return tag[0] if name.startswith("$secrets") else value

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
