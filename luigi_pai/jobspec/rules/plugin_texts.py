"""Texts in a plugin's parameters that the runtime misreads.

The runtime of 1.x writes the parameters with Python's ``repr``, fills in
references, and reads the result as YAML (``replace_ref`` in its initializer).
Most texts stay the same; some with line breaks, backslashes or both kinds of
quotes do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from luigi_pai.errors import Level
from luigi_pai.jobspec.schema_problems import Finding
from luigi_pai.jobspec.templates.references import plugin_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_AWKWARD = frozenset("'\"\\")  # and what is not printable; any other text survives
_MESSAGE = (
    "has line breaks, backslashes or both kinds of quotes; servers accept it, and their runtime misreads "
    "such a text in a plugin's parameters: write each line as a command of its own, use one kind of quotes, "
    "or call a script"
)


def plugin_text_findings(document: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the texts that a plugin would receive changed. No text is shown."""
    for _, path, text in plugin_texts(document):
        if (not text.isprintable() or _AWKWARD.intersection(text)) and not _survives(text):
            yield Finding(path, _MESSAGE, Level.STRICTER)


def _survives(text: str) -> bool:
    """Return whether the runtime reads a text as it was written."""
    try:
        return bool(yaml.safe_load(repr([text])) == [text])
    except (yaml.YAMLError, ValueError):
        return False
