"""Rules about the ends of commands, line breaks in them, and failures that a shell hides.

Servers of 0.7 and 0.8 write ``COMMAND || exit $?`` and ``exit 0`` to a script. Servers of 0.9 to 0.14 write
``eval COMMAND || exit $?``, with a backslash before each special character
(``rest-server/src/templates/dockerContainerScript.mustache``, ``config/index.js``). Later servers write the
commands of a role as the last lines of a script; 0.15 and 0.16 join them with ``&&``.

The shells of OpenPAI 0.7 to 0.14 have neither ``errexit`` nor ``pipefail``. A v1 job keeps this on later
servers, and job protocols have it on 0.15 and 0.16.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from luigi_pai.jobspec.dialects.mustache import SPACES
from luigi_pai.jobspec.dialects.shell_text import (
    Ending,
    ending,
    repaired,
    strict_command,
    with_line_feeds,
)
from luigi_pai.jobspec.releases import release_number, release_title
from luigi_pai.jobspec.schema_problems import Finding, cut, warning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from luigi_pai.jobspec.paths import Path

_FIRST_EVAL, _FIRST_V2, _FIRST_SCRIPT = (0, 9), (0, 15), (0, 17)
_IN_A_TASK = ", or set strict_shell = True in the PaiTask"
_REPAIRED = "luigi-pai repairs this in jobs that it submits"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LETTERS = {"\n": "n", "\t": "t", "\r": "r", "\a": "a", "\b": "b", "\v": "v", "\f": "f", "\x1b": "E"}
_ERREXIT = re.compile(r"(?:^|[\n;&|{])\s*set\s+(?:-\w+\s+)*-(?:\w*e|\w*o\s+errexit)")
_CONTINUED = re.compile(r"\\\n|(?:&&|\|\||\|&?)\s*\n\s*")
_PART = re.compile(r"([^;&|\n]+)([;\s]+|&&|\|\||\|&?|&)?")
_PROGRAM = re.compile(r"\s*(?:(?:[-!]\S*|\w+\+?=\S*|sudo|time|env|nohup)\s+)*([^\s=]+)(?!\S)")
_COMPOUND = re.compile(r"(?:^|[;&|\n])\s*(?:if|for|while|until|case|select)\s|[{}]")

_LOOP = re.compile(r"\bfor\s[^;\n]*[;\n]\s*do\s((?:(?!\b(?:do|if|case|exit|break)\b)[^|&])*?)[;\n]\s*done\b")
"""A loop in which all commands run, but only the last command of the last round decides."""

_PIPEFAIL = re.compile(r"\bpipefail\b|\bPIPESTATUS\b")
_OWN_DECISION = re.compile(
    r"\bset\s(?:[^;&|\n]*\s)?[-+](?:\w*e|\w*o\s+errexit)|\btrap\s|\$\?|[;\n]\s*exit\b[^;&|\n]*\s*$"
)
"""A command with a match handles failures by itself."""

_SOURCE = r"echo|printf|cat|yes|true|:|ls|env|ps|seq|date|hostname|grep"
_HARMLESS = {
    "pipe": re.compile(_SOURCE),
    "sequence": re.compile(
        rf"{_SOURCE}|cd|export|set|shopt|source|\.|ulimit|umask|unset|alias|declare|local|readonly|mkdir|rm|touch"
        r"|sleep|pwd|read|exit|exec|test|\[\[?|nvidia-smi|kill|wait"
    ),
}
"""Programs whose failure hardly matters on the left of a pipe or before other commands."""

_WHY = {
    "pipe": "a pipe returns the exit code of its last program; add set -o pipefail; at the start",
    "sequence": "only the last command decides; join the commands with &&",
    "loop": "only the last round of a loop decides; add || exit 1 after it",
}


def config_ending_findings(path: Path, role: object, command: str, release: str | None) -> Iterator[Finding]:
    """Yield warnings about the command of a role of a v1 job config.

    ``role`` is the role's name. ``release`` is the cluster's release. If it is None, the warnings name the
    releases that they apply to.
    """
    sent, number = repaired(command), (0,) if release is None else release_number(release)
    if not sent.strip():
        return
    if script := strict_command(sent):
        yield from _last_findings(path, ending(script))
        return
    last = ending(sent)
    appends = number < _FIRST_EVAL and ("OpenPAI 0.7 and 0.8" if release is None else release_title(release))
    if with_line_feeds(command) != command:
        yield _line_ends(path)
    if appends and not last.operator and sent != with_line_feeds(command):
        yield warning(path, _why_repaired(with_line_feeds(command), appends))
    yield from _last_findings(path, last, f" (it is a syntax error on {appends})" if appends else "")
    yield from _hidden_failure_findings(path, role, sent, last.bare, _IN_A_TASK)
    if release is None or _FIRST_EVAL <= number < _FIRST_V2:
        evaluates = "OpenPAI 0.9 to 0.14" if release is None else release_title(release)
        yield from _eval_findings(path, sent, last, evaluates)


def _eval_findings(path: Path, command: str, last: Ending, evaluates: str) -> Iterator[Finding]:
    if found := _CONTROL.search(command):
        what = {"\n": "a line break", "\t": "a tab"}.get(found[0], f"the character {found[0]!r}")
        letter = _LETTERS.get(found[0])
        does = f"replaced by the letter {letter}" if letter else "removed"
        text = f"has {what}, which is {does} on {evaluates}"
        yield warning(path, f"{text}; write the command in one line, or run a script of codeDir")
    if _ERREXIT.search(last.bare):
        text = f"has set -e, which has no effect on {evaluates}, where the command is part of a || list"
        yield warning(path, f"{text}; join the commands with &&, or run them with bash -ec '...'")


def protocol_ending_findings(
    role: str, commands: Sequence[tuple[Path, str]], release: tuple[int, ...] | None
) -> Iterator[Finding]:
    """Yield warnings about the commands of a role of a job protocol, in the order in which they run."""
    for path, command in commands:
        if with_line_feeds(command) != command:
            yield _line_ends(path)
    texts = [with_line_feeds(command).strip(SPACES) for _, command in commands]
    if commands:
        yield from _last_findings(commands[-1][0], ending("\n".join(texts)))
    if commands and release is not None and release < _FIRST_SCRIPT:
        joined = " && ".join(texts)
        yield from _hidden_failure_findings(commands[0][0][:-1], role, joined, ending(joined).bare)
        found = [
            (path, _how_it_ends(text, ending(text))) for (path, _), text in zip(commands, texts, strict=True)
        ]
        broken = [(path, how) for path, how in found[:-1] if how]
        for path, how in broken[:1]:
            more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
            wrong = f"ends with {how}{more}, after which OpenPAI 0.15 and 0.16 append && and the next command"
            yield warning(path, f"{wrong}, and the job fails or does not run it; write both as one")


def _last_findings(path: Path, last: Ending, of_background: str = "") -> Iterator[Finding]:
    if last.unclosed.startswith("<<"):
        word = last.unclosed[2:]
        yield warning(path, f"has no line that is only {word}, which ends the here-document; write this line")
    elif last.unclosed:
        yield warning(path, f"does not close {last.unclosed}, which is a syntax error of the shell; close it")
    elif last.operator == "&":
        text = "ends with &, so that the task does not wait for what it starts; remove &"
        yield warning(path, text + of_background)
    elif last.operator == "\\":
        text = "ends with a backslash, which the shell passes to the program; remove it"
        yield warning(path, text)
    elif last.operator:
        text = f"ends with {last.operator}, which is a syntax error of the shell; remove it"
        yield warning(path, text)


def _why_repaired(command: str, appends: str) -> str:
    """Return why a command fails or hides its failure on releases that append ``|| exit $?`` to it."""
    how = _how_it_ends(command, ending(command)) or "a line break"
    does = {
        "a comment": "so that the job succeeds even if the command fails",
        "a here-document": "so that its last line is not recognized",
    }.get(how, "which is a syntax error")
    return f"ends with {how}; on {appends}, || exit $? follows it, {does}; {_REPAIRED}"


def _how_it_ends(text: str, last: Ending) -> str:
    """Return the end of a command to which nothing can be appended; empty for other commands."""
    if last.is_here_document:
        return "a here-document"
    rest = text[last.end :].strip(" \t")
    return "a comment" if "#" in rest else ";" if ";" in rest else last.unclosed or last.operator


def _line_ends(path: Path) -> Finding:
    text = "has lines that end with CR LF, as on Windows; the shell takes CR for a part of the last word"
    return warning(path, f"{text}; write LF. {_REPAIRED}")


# ---------------------------------------------------------------- hidden failures


def _hidden_failure_findings(
    path: Path, role: object, command: str, bare: str, remedy: str = ""
) -> Iterator[Finding]:
    """Yield a warning about the first program whose failure a pipe hides, and the first in a sequence.

    Of the compound statements, only loops are checked, and only the program that ends a round. Programs
    before ``||`` are not checked. The lines of ``command`` end with LF; for ``bare``, see ``Ending``.
    ``remedy`` is appended to the message.
    """
    bare = _CONTINUED.sub(lambda found: re.sub(r"[\\\n]", " ", found[0]), bare).rstrip("; \n")
    pipes_hide, sequences_hide = not _PIPEFAIL.search(command), not _OWN_DECISION.search(command)
    if _COMPOUND.search(bare):
        loop = _LOOP.search(bare) if sequences_hide else None
        last = _PROGRAM.match(re.split(r"[;\n]", loop[1])[-1]) if loop else None
        if last and not last[1].startswith("_") and not _HARMLESS["sequence"].fullmatch(last[1]):
            text = f"role {role!r} succeeds even if {cut(last[1])} fails, because {_WHY['loop']}"
            yield warning(path, f"{text}{remedy}")
        return
    hidden: dict[str, str] = {}
    then = ""  # the token after the and-or list
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
