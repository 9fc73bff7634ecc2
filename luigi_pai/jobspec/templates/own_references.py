"""References of a prerequisite to its own keys: ``<% this.parameters.key %>`` in ``callbacks`` and ``uri``.

OpenPAI's issue 5145 proposed such references, but no release fills them in; if they were sent, the shell
would get them unchanged. So this module fills them in before the job is sent.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.dialects import mustache
from luigi_pai.jobspec.hints import nearest
from luigi_pai.jobspec.paths import mapped, texts
from luigi_pai.jobspec.schema_problems import Finding, stricter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from luigi_pai.jobspec.paths import Path

_PLACES = ("uri", "callbacks")
_NOT_REFERRED_TO = ("callbacks", "require", "plugin", "failurePolicy")
_REFERENCE = re.compile(r"<%\s*this\.(?P<name>[^%]*?)\s*%>")
_PREFIX = "parameters."


def filled(prerequisite: Mapping[str, Any]) -> dict[str, Any]:
    """Return a prerequisite with the references in its callbacks and URI filled in.

    A reference to a missing key stays unchanged.
    """

    def value_of(match: re.Match[str]) -> str:
        value = _looked_up(match["name"], prerequisite)
        return match[0] if value is mustache.ABSENT else _shown(value)

    def change(value: Any) -> Any:
        return _REFERENCE.sub(value_of, value) if isinstance(value, str) else value

    return {key: mapped(each, change) if key in _PLACES else each for key, each in prerequisite.items()}


def reference_to_self_problems(prerequisite: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Yield a problem for each wrong reference of the prerequisite at this path, such as to a missing key."""
    for place in _PLACES:
        for at, text in texts(prerequisite.get(place), (*path, place)):
            for match in _REFERENCE.finditer(text):
                message = _wrong(match["name"], prerequisite)
                if message:
                    yield stricter(
                        at, f"<% this.{match['name']} %>: {message}; the server would leave it as text"
                    )


def _wrong(name: str, prerequisite: Mapping[str, Any]) -> str:
    if not name.startswith(_PREFIX):
        return f"write <% this.parameters.{name} %>"
    value = _looked_up(name, prerequisite)
    if value is mustache.ABSENT:
        key = name.removeprefix(_PREFIX)
        known = [each for each in prerequisite if each not in _NOT_REFERRED_TO]
        return f"the prerequisite has no {key!r}{nearest(key, known)}"
    if _REFERENCE.search(_shown(value)):
        return "the value of this key contains a reference; write the value out"
    return ""


def _looked_up(name: str, prerequisite: Mapping[str, Any]) -> Any:
    """Return the value of ``this.NAME``, or ``ABSENT``."""
    if not name.startswith(_PREFIX):
        return mustache.ABSENT
    return mustache.look_up(prerequisite, mustache.steps(name.removeprefix(_PREFIX)))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
