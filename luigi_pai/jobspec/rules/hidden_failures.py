"""Rules about failures that a shell hides, because another program decides how a command ends.

The shells of OpenPAI 0.7 to 0.14 have neither ``errexit`` nor ``pipefail``. A v1 job keeps this on later
servers, and job protocols have it on 0.15 and 0.16.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from luigi_pai.jobspec.schema_problems import Finding, cut, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.jobspec.paths import Path

_CONTINUED = re.compile(r"\\\n|(?:&&|\|\||\|&?)\s*\n\s*")
_PART = re.compile(r"([^;&|\n]+)([;\s]+|&&|\|\||\|&?|&)?")
_PROGRAM = re.compile(r"\s*(?:(?:[-!]\S*|\w+\+?=\S*|sudo|time|env|nohup)\s+)*([^\s=]+)(?!\S)")
_COMPOUND = re.compile(r"(?:^|[;&|\n])\s*(?:if|for|while|until|case|select)\s|[{}]")

_LOOP = re.compile(r"\bfor\s[^;\n]*[;\n]\s*do\s((?:(?!\b(?:do|if|case|exit|break)\b)[^|&])*?)[;\n]\s*done\b")
"""A loop whose commands all run, and whose last one decides, but for each round only in the last round."""

_PIPEFAIL = re.compile(r"\bpipefail\b|\bPIPESTATUS\b")
_ERREXIT = re.compile(
    r"\bset\s(?:[^;&|\n]*\s)?[-+](?:\w*e|\w*o\s+errexit)|\btrap\s|\$\?|[;\n]\s*exit\b[^;&|\n]*\s*$"
)
"""A command in which it is found decides by itself what a failure leads to."""

_SOURCE = r"echo|printf|cat|yes|true|:|ls|env|ps|seq|date|hostname|grep"
_HARMLESS = {
    "pipe": re.compile(_SOURCE),
    "sequence": re.compile(
        rf"{_SOURCE}|cd|export|set|shopt|source|\.|ulimit|umask|unset|alias|declare|local|readonly|mkdir|rm|touch"
        r"|sleep|pwd|read|exit|exec|test|\[\[?|nvidia-smi|kill|wait"
    ),
}
"""Programs whose failure matters little on the left of a pipe, and before other commands."""

_WHY = {
    "pipe": "a pipe returns the exit code of its last program; add set -o pipefail; at the start",
    "sequence": "only the last command decides; join the commands with &&",
    "loop": "only the last round of a loop decides; add || exit 1 after it",
}


def hidden_failure_findings(
    path: Path, role: object, command: str, bare: str, remedy: str = ""
) -> Iterator[Finding]:
    """Yield a warning about the first program whose failure a pipe hides, and the first in a sequence.

    Of commands with compound statements, only a loop is read, and of it only the program that ends a round.
    Programs before ``||`` are left out.

    Args:
        path: of the command.
        role: name of the task role.
        command: with LF as its line breaks.
        bare: see ``Ending``.
        remedy: besides a change of the command; it is added to the message.
    """
    bare = _CONTINUED.sub(lambda found: re.sub(r"[\\\n]", " ", found[0]), bare).rstrip("; \n")
    pipes_hide, sequences_hide = not _PIPEFAIL.search(command), not _ERREXIT.search(command)
    if _COMPOUND.search(bare):
        loop = _LOOP.search(bare) if sequences_hide else None
        last = _PROGRAM.match(re.split(r"[;\n]", loop[1])[-1]) if loop else None
        if last and not last[1].startswith("_") and not _HARMLESS["sequence"].fullmatch(last[1]):
            text = f"role {role!r} succeeds even if {cut(last[1])} fails, because {_WHY['loop']}"
            yield warning(path, f"{text}{remedy}")
        return
    hidden: dict[str, str] = {}
    then = ""  # what follows the and-or list
    for part in reversed(list(_PART.finditer(bare))):
        separator = (part[2] or "").strip() or "\n"
        if part[2] and separator not in ("&&", "|", "|&"):
            then = separator
        how = "pipe" if pipes_hide and separator in ("|", "|&") else "sequence"
        found = _PROGRAM.match(part[1])
        is_hidden = then not in ("||", "&") and (how == "pipe" or (then and sequences_hide))
        if found and is_hidden and not _HARMLESS[how].fullmatch(found[1]):
            at = part.start() + found.start(1)
            shown = "(...)" if command[at] == "(" else cut(command[at : at + len(found[1])])
            line = f" (line {command.count(chr(10), 0, at) + 1})" if "\n" in command else ""
            hidden[how] = f"role {role!r} succeeds even if {shown}{line} fails"
    for how, text in hidden.items():
        yield warning(path, f"{text}, because {_WHY[how]}{remedy}")
