"""Texts in a plugin's parameters that the runtime misreads.

The runtime of 1.x writes the parameters with Python's ``repr``, fills in
references, and reads the result as YAML (``replace_ref`` in its initializer).
Most texts stay the same; some with line breaks, backslashes or both kinds of
quotes do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level
from luigi_pai.jobspec.schema_problems import Finding
from luigi_pai.jobspec.templates.commands import Views
from luigi_pai.jobspec.templates.references import plugin_filled, plugin_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.jobspec.paths import Path

_AWKWARD = frozenset("'\"\\")  # and what is not printable; any other text survives


def plugin_text_findings(document: Mapping[str, Any]) -> list[Finding]:
    """Return the texts that a plugin would receive changed. No text is shown."""
    views = Views(document)
    found: dict[Path, Finding] = {}
    for roles, path, text in plugin_texts(document):
        for role in roles or [""]:
            wanted = plugin_filled(text, views.of(role))
            # of None, reference_findings says why
            if wanted is None or (wanted.isprintable() and not _AWKWARD.intersection(wanted)):
                continue
            read = _as_read(repr(text), views.of(role))
            if read != wanted:
                found[path] = _finding(path, fails=read is None)
                break
    return list(found.values())


def _as_read(written: str, view: Mapping[str, Any]) -> str | None:
    """Return what the runtime reads, or None where it fails."""
    import yaml  # noqa: PLC0415  heavy, and only needed here

    filled = plugin_filled(written, view)
    try:
        read = yaml.safe_load(f"[{filled}]")
    except (yaml.YAMLError, ValueError):
        return None
    return read[0] if isinstance(read, list) and len(read) == 1 and isinstance(read[0], str) else None


def _finding(path: Path, *, fails: bool) -> Finding:
    then = "every task fails when it starts" if fails else "the plugin gets another text"
    return Finding(
        path,
        "has line breaks, backslashes or both kinds of quotes, or a reference brings them in; servers accept "
        f"it, and their runtime misreads such a text in a plugin's parameters: {then}; write each line as a "
        "command of its own, use one kind of quotes, or call a script",
        Level.STRICTER,
    )
