"""Rules about commands that servers accept, but that make a job fail, or succeed without its result.

0.7 and 0.8 servers write ``COMMAND || exit $?`` and ``exit 0`` to a script. 0.9 to 0.14 servers write
``eval COMMAND || exit $?``, with a backslash before each special character
(``rest-server/src/templates/dockerContainerScript.mustache``, ``config/index.js``). Later servers write a
role's commands as the last lines of a script; 0.15 and 0.16 join the commands with ``&&``.

The shells of OpenPAI 0.7 to 0.14 set neither ``errexit`` nor ``pipefail``. The same is true of v1 jobs on
later servers, and of job protocols on 0.15 and 0.16.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from luigi_pai.jobspec.dialects.mustache import SPACES
from luigi_pai.jobspec.dialects.shell_text import Ending, ending, repaired, strict_command, with_line_feeds
from luigi_pai.jobspec.hints import ODD, closest, name_of
from luigi_pai.jobspec.releases import release_number, release_title
from luigi_pai.jobspec.schema_problems import Finding, cut, warning
from luigi_pai.runtime import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from luigi_pai.jobspec.paths import Path

    Commands = Sequence[tuple[Path, str]]

_FIRST_EVAL, _FIRST_V2, _FIRST_SCRIPT = (0, 9), (0, 15), (0, 17)
_VARIABLE = re.compile(r"\$\{?((?:LUIGI_)?PAI_\w+)")
_SET = re.compile(r"(?<![$\w{])(?:LUIGI_)?PAI_\w+")  # variables that PAI_X=... or `read PAI_X` sets
_FOLDER_OF_V1 = re.compile(r"\$(?:\{PAI_(?:OUTPUT|DATA|CODE)_DIR[}/%#]|PAI_(?:OUTPUT|DATA|CODE)_DIR\b)")
_LOCAL_MOUNTS = "LUIGI_PAI_MOUNTS"  # only the local server sets it; commands use it as ${LUIGI_PAI_MOUNTS:-}
_PARAMETER, _PYTHON = "<% $parameters.KEY %>", "a Python f-string"
_GETS_IT = "; the command gets it unchanged: use {use}"
_REPAIRED = "luigi-pai fixes this in jobs that it submits"

_CONTROLS = {"\n": "a line break", "\t": "a tab"}
_LETTERS = {"\n": "n", "\t": "t", "\r": "r", "\a": "a", "\b": "b", "\v": "v", "\f": "f", "\x1b": "E"}
"""Control character -> the letter with which the scripts of 0.9 to 0.14 replace it."""


class _Rule(NamedTuple):
    """A pattern in commands that is probably a mistake.

    ``message`` is a format string for the matching piece, the pattern's group and the values that
    ``_table_findings`` adds.
    """

    message: str
    pattern: str  # a match with an empty group does not count
    is_bare: bool = False  # whether only pieces outside quotes count
    unless: str = r"(?!)"  # pattern for words in which such a piece is correct


_RULES = (  # about the servers' mustache, Python and bash (3.1.2 "Quoting", 3.5.3 "Parameter Expansion")
    _Rule(
        f"has {{0}}, which no OpenPAI release fills in{_GETS_IT}",
        r"\{\{-?\s*[A-Za-z_][\w.]*\s*(?:\|[^{}]*)?-?\}\}",
    ),
    _Rule(
        f"has {{0}}, which Python fills in only with an f before the string's quotes{_GETS_IT}",
        r"(?<![\w$\\])\{self\.\w[^{}]*\}",
    ),
    _Rule(  # matches a quoted word, not a quoted command such as bash -c '...'
        "has '{1}', which the shell does not expand inside single quotes; the command gets it unchanged: "
        'use "{1}"',
        r""""(?:\\.|[^"\\])*"|\\.|(?<!c )'([^'\s]*\$\{?(?:LUIGI_)?PAI_[^'\s]*)'|'[^']*'""",
        unless="<<|envsubst|eval",
    ),
    _Rule(
        f"has {{0}}, which Python fills in only with % (...) after the string{_GETS_IT}",
        r"(?<=[ =])%(?:\.?\d+)?[sdfgr](?!\w)",
        is_bare=True,
        unless=r"\b(?:printf|date|stat|find|git|curl|ps|format)\b",
    ),
    _Rule(
        "has {0}, which Python fills in only with .format() after the string, or an f before its quotes"
        + _GETS_IT,
        r"(?<![$\\@^{])\{(?:\w+(?::[^{}\s]*)?)?\}",
        is_bare=True,
        unless=r"\b(?:find|xargs|parallel|exec)\b",
    ),
    _Rule("has a blank after the backslash at the end of line {line}; remove it", r"(?<!\\)\\[ \t]+\n"),
    _Rule(
        "has {0}, in which the shell reads {1} as a variable; leave $ out (in a Python f-string, write "
        "{{x}}, not ${{x}})",
        r"(?<!\\)(\$\d)\d*(?:\.\d|e[-+]?\d)[\d.e+-]*",
    ),
    _Rule(
        "has {name} at character {at}, outside quotes, where the shell reads it as a letter; type the "
        "character again",
        ODD.pattern,
        is_bare=True,
    ),
    _Rule(
        "has lines that end with CR LF, as on Windows; the shell reads CR as part of the last word; write "
        f"LF. {_REPAIRED}",
        r"\S\s*?\r(?=\n|\Z)",
    ),
)

_RULES_OF_V1 = (
    *_RULES,
    _Rule("has {0}, which only job protocols fill in; use a Python f-string", r"<%\s*\$[^%]*%>"),
)

_RULES_OF_EVAL = (
    _Rule(
        "has {control}, which is {effect} on {releases}; write the command in one line, or run a script of "
        "codeDir",
        r"[\x00-\x1f\x7f]",
    ),
    _Rule(
        "has set -e, which has no effect on {releases}, where the command is part of a || list; join the "
        "commands with &&, or run them with bash -ec '...'",
        r"(?:^|[\n;&|{])\s*set\s+(?:-\w+\s+)*-(?:\w*e|\w*o\s+errexit)",
        is_bare=True,
    ),
)

_CONTINUED = re.compile(r"\\\n|(?:&&|\|\||\|&?)\s*\n\s*")
_PART = re.compile(r"([^;&|\n]+)([;\s]+|&&|\|\||\|&?|&)?")
_PROGRAM = re.compile(r"\s*(?:(?:[-!]\S*|\w+\+?=\S*|sudo|time|env|nohup)\s+)*([^\s=]+)(?!\S)")
_COMPOUND = re.compile(r"(?:^|[;&|\n])\s*(?:if|for|while|until|case|select)\s|[{}]")

_LOOP = re.compile(r"\bfor\s[^;\n]*[;\n]\s*do\s((?:(?!\b(?:do|if|case|exit|break)\b)[^|&])*?)[;\n]\s*done\b")
"""A loop in which every command runs, but only the last command in the last round decides."""

_PIPEFAIL = re.compile(r"\bpipefail\b|\bPIPESTATUS\b")
_OWN_DECISION = re.compile(
    r"\bset\s(?:[^;&|\n]*\s)?[-+](?:\w*e|\w*o\s+errexit)|\btrap\s|\$\?|[;\n]\s*exit\b[^;&|\n]*\s*$"
)
"""A command that matches handles failures itself."""

_SOURCE = r"echo|printf|cat|yes|true|:|ls|env|ps|seq|date|hostname|grep"
_HARMLESS = {
    "pipe": re.compile(_SOURCE),
    "sequence": re.compile(
        rf"{_SOURCE}|cd|export|set|shopt|source|\.|ulimit|umask|unset|alias|declare|local|readonly|mkdir|rm|touch"
        r"|sleep|pwd|read|exit|exec|test|\[\[?|nvidia-smi|kill|wait"
    ),
}
"""Programs whose failure hardly matters to the left of a pipe or before other commands."""

_WHY = {
    "pipe": "a pipe returns the exit code of its last program; add set -o pipefail; at the start",
    "sequence": "only the last command decides; join the commands with &&",
    "loop": "only the last round of a loop decides; add || exit 1 after it",
}
_IN_A_TASK = ", or set strict_shell = True in the PaiTask"


def config_command_findings(
    path: Path, role: object, command: str, environment: Iterable[object], release: str | None
) -> Iterator[Finding]:
    """Yield warnings about a role's command in a v1 job config.

    ``environment`` has the names of the containers' variables other than OpenPAI's. ``release`` is the
    cluster's release; if it is None, the warnings name the releases to which they apply.
    """
    sent, script = repaired(command), strict_command(command)
    yield from _variable_findings([(path, script or command)], environment)
    yield from _table_findings(_RULES_OF_V1, path, script or command, use=_PYTHON)
    if script:
        yield from _last_findings(path, ending(script))
    elif sent.strip():
        number, last = (0,) if release is None else release_number(release), ending(sent)
        title = release and release_title(release)
        appends = (title or "OpenPAI 0.7 and 0.8") if number < _FIRST_EVAL else ""
        if appends and not last.operator and sent != with_line_feeds(command):
            yield warning(path, _why_repaired(with_line_feeds(command), appends))
        yield from _last_findings(path, last, f" (it is a syntax error on {appends})" if appends else "")
        yield from _hidden_failure_findings(path, role, sent, last.bare, _IN_A_TASK)
        if release is None or _FIRST_EVAL <= number < _FIRST_V2:
            yield from _table_findings(_RULES_OF_EVAL, path, sent, releases=title or "OpenPAI 0.9 to 0.14")


def protocol_command_findings(
    role: str, commands: Commands, release: tuple[int, ...] | None
) -> Iterator[Finding]:
    """Yield warnings about a role's commands in a job protocol, in the order in which they run."""
    yield from _variable_findings(commands, folders_are_set=False)
    for path, command in commands:
        yield from _table_findings(_RULES, path, command, use=_PARAMETER)
    sent = [with_line_feeds(command).strip(SPACES) for _, command in commands]
    if commands:
        yield from _last_findings(commands[-1][0], ending("\n".join(sent)))
    if commands and release is not None and release < _FIRST_SCRIPT:
        joined = " && ".join(sent)
        yield from _hidden_failure_findings(commands[0][0][:-1], role, joined, ending(joined).bare)
        broken = [
            (path, how)
            for (path, _), command in zip(commands[:-1], sent, strict=False)
            if (how := _how_it_ends(command, ending(command)))
        ]
        for path, how in broken[:1]:
            more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
            message = (
                f"ends with {how}{more}, after which OpenPAI 0.15 and 0.16 append && and the next command"
            )
            yield warning(path, f"{message}, and the job fails or does not run it; write both as one")


def _variable_findings(
    commands: Commands, environment: Iterable[object] = (), *, folders_are_set: bool = True
) -> Iterator[Finding]:
    """Yield warnings about OpenPAI variables that neither OpenPAI nor these commands set."""
    known = {
        _LOCAL_MOUNTS,
        *environment,
        *(name for _, command in commands for name in _SET.findall(command)),
    }
    for path, command in commands:
        for name in dict.fromkeys(_VARIABLE.findall(command)):
            if name not in known and not _variables().fullmatch(name):
                near = closest(name, _names(), likeness=0.8)
                hint = f"did you mean ${near}?" if near else "the commands do not set it either"
                yield warning(path, f"${name} is set by no release of OpenPAI, and is empty; {hint}")
        found = None if folders_are_set else _FOLDER_OF_V1.search(command)
        if found and found[0].strip("${}/%#") not in known:
            message = f"{found[0]} is not set in a job protocol, so the command fails with 'unbound variable'"
            yield warning(path, f"{message}; export it first, or give a task the attribute output_dir")


def _table_findings(
    rules: Sequence[_Rule], path: Path, command: str, *, use: str = "", releases: str = ""
) -> Iterator[Finding]:
    """For each rule, yield a warning about the first piece of a command to which it applies."""
    for rule in rules:
        if found := _found(rule, command):
            first = found[0][0]
            details = {
                "line": command.count("\n", 0, found.start()) + 1,
                "at": found.start() + 1,
                "name": name_of(found),
                "control": _CONTROLS.get(first, f"the character {first!r}"),
                "effect": f"replaced by the letter {_LETTERS[first]}" if first in _LETTERS else "removed",
            }
            message = rule.message.format(found[0], *found.groups(), **details, use=use, releases=releases)
            yield warning(path, message)


def _found(rule: _Rule, command: str) -> re.Match[str] | None:
    """Return the first piece of a command to which a rule applies."""
    pattern = re.compile(rule.pattern, re.DOTALL)
    if not pattern.search(command) or re.search(rule.unless, command):
        return None
    matches = pattern.finditer(ending(command).bare if rule.is_bare else command)
    return next((match for match in matches if all(match.groups())), None)


@cache
def _names() -> tuple[str, ...]:
    """Return the names of all variables, with ``{}`` fields for roles, indexes and labels."""
    return tuple(dict.fromkeys(name for row in VARIABLES.values() for name in (*row.v1, *row.v2)))


@cache
def _variables() -> re.Pattern[str]:
    return re.compile("|".join(re.sub(r"\{\w+\}", r"\\w+", name) for name in _names()))


# ---------------------------------------------------------------- ends of commands


def _last_findings(path: Path, last: Ending, on_background: str = "") -> Iterator[Finding]:
    if last.unclosed.startswith("<<"):
        word = last.unclosed[2:]
        yield warning(path, f"has no line that is only {word}, which ends the here-document; write this line")
    elif last.unclosed:
        yield warning(path, f"does not close {last.unclosed}, which is a syntax error of the shell; close it")
    elif last.operator == "&":
        message = "ends with &, so the task does not wait for the program; remove &"
        yield warning(path, message + on_background)
    elif last.operator == "\\":
        yield warning(path, "ends with a backslash, which the shell passes to the program; remove it")
    elif last.operator:
        yield warning(path, f"ends with {last.operator}, which is a syntax error of the shell; remove it")


def _why_repaired(command: str, appends: str) -> str:
    """Return why a command fails, or hides its failure, on releases that append ``|| exit $?`` to it."""
    how = _how_it_ends(command, ending(command)) or "a line break"
    effect = {
        "a comment": "so the job succeeds even if the command fails",
        "a here-document": "so its last line is not recognized",
    }.get(how, "which is a syntax error")
    return f"ends with {how}; on {appends}, || exit $? follows it, {effect}; {_REPAIRED}"


def _how_it_ends(command: str, last: Ending) -> str:
    """Return how a command ends if nothing can be appended to it; empty for other commands."""
    if last.is_here_document:
        return "a here-document"
    rest = command[last.end :].strip(" \t")
    return "a comment" if "#" in rest else ";" if ";" in rest else last.unclosed or last.operator


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
            message = f"role {role!r} succeeds even if {cut(last[1])} fails, because {_WHY['loop']}"
            yield warning(path, f"{message}{remedy}")
        return
    hidden: dict[str, str] = {}
    then = ""  # the token that follows the and-or list
    for part in reversed(list(_PART.finditer(bare))):
        separator = (part[2] or "").strip() or "\n"
        if part[2] and separator not in ("&&", "|", "|&"):
            then = separator
        how = "pipe" if pipes_hide and separator in ("|", "|&") else "sequence"
        found = _PROGRAM.match(part[1])
        is_hidden = then not in ("||", "&") and (how == "pipe" or (then and sequences_hide))
        if found and is_hidden and not _HARMLESS[how].fullmatch(found[1]):
            start = part.start() + found.start(1)
            shown = "(...)" if command[start] == "(" else cut(command[start : start + len(found[1])])
            line = f" (line {command.count(chr(10), 0, start) + 1})" if "\n" in command else ""
            hidden[how] = f"role {role!r} succeeds even if {shown}{line} fails"
    for how, message in hidden.items():
        yield warning(path, f"{message}, because {_WHY[how]}{remedy}")
