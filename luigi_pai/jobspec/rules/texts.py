"""Rules about strings that servers accept, but with which a job fails or succeeds without its result.

They find commands with variables that no OpenPAI has or with braces that are never filled in, and images and
folders that cannot exist. The rules apply to v1 job configs and job protocols.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from luigi_pai.errors import Level
from luigi_pai.jobspec.dialects.shell_text import ending
from luigi_pai.jobspec.hints import ODD, closest, name_of, not_ascii
from luigi_pai.jobspec.schema_problems import Finding, stricter, warning
from luigi_pai.runtime import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from luigi_pai.jobspec.paths import Path

_VARIABLE = re.compile(r"\$\{?((?:LUIGI_)?PAI_\w+)")
_SET = re.compile(r"(?<![$\w{])(?:LUIGI_)?PAI_\w+")  # variables set by PAI_X=... or by `read PAI_X`
_FOLDER_OF_V1 = re.compile(r"\$(?:\{PAI_(?:OUTPUT|DATA|CODE)_DIR[}/%#]|PAI_(?:OUTPUT|DATA|CODE)_DIR\b)")
_LOCAL_MOUNTS = "LUIGI_PAI_MOUNTS"  # set only by the local server; commands use it as ${LUIGI_PAI_MOUNTS:-}
_IMAGE_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_]*(?:/|$)")  # such as HDFS_URI/code, which somebody fills in
_NO_HDFS = re.compile(r"(?:https?|ftp|file|git|ssh)://|[A-Za-z]:\\|(?![/$<]|[A-Za-z][\w+.-]*://)")
_PARAMETER, _PYTHON = "<% $parameters.KEY %>", "an f-string of Python"
_GETS_IT = "; the command gets it as it is: use {use}"


class _Rule(NamedTuple):
    """A piece of a command that is probably a mistake.

    Attributes:
        message: The message of the warning: a format string for the piece, the first group of the pattern and
            the values that ``command_findings`` adds.
        pattern: The pattern of the piece. A match with an empty first group does not count.
        formats: The formats of the jobs to which the rule applies.
        is_bare: Whether only a piece outside of quotes counts.
        unless: The pattern of the words for which such a piece is correct.
    """

    message: str
    pattern: str
    formats: tuple[str, ...] = ("v1", "v2")
    is_bare: bool = False
    unless: str = r"(?!)"


_RULES = (  # of the servers' mustache, of Python, of bash (3.1.2 "Quoting", 3.5.3 "Parameter Expansion")
    _Rule(
        f"has {{0}}, which no OpenPAI fills in{_GETS_IT}",
        r"\{\{-?\s*[A-Za-z_][\w.]*\s*(?:\|[^{}]*)?-?\}\}",
    ),
    _Rule(
        f"has {{0}}, which Python fills in only with an f before the text's quotes{_GETS_IT}",
        r"(?<![\w$\\])\{self\.\w[^{}]*\}",
    ),
    _Rule(  # as one word, besides a command in quotes, as in bash -c '...'
        "has '{1}', which the shell does not fill in between single quotes; the command gets it as it is: "
        'use "{1}"',
        r""""(?:\\.|[^"\\])*"|\\.|(?<!c )'([^'\s]*\$\{?(?:LUIGI_)?PAI_[^'\s]*)'|'[^']*'""",
        unless="<<|envsubst|eval",
    ),
    _Rule(
        f"has {{0}}, which Python fills in only with % (...) after the text{_GETS_IT}",
        r"(?<=[ =])%(?:\.?\d+)?[sdfgr](?!\w)",
        is_bare=True,
        unless=r"\b(?:printf|date|stat|find|git|curl|ps|format)\b",
    ),
    _Rule(
        "has {0}, which Python fills in only with .format() after the text, or an f before its quotes"
        + _GETS_IT,
        r"(?<![$\\@^{])\{(?:\w+(?::[^{}\s]*)?)?\}",
        is_bare=True,
        unless=r"\b(?:find|xargs|parallel|exec)\b",
    ),
    _Rule("has a blank after the backslash at the end of line {line}; remove it", r"(?<!\\)\\[ \t]+\n"),
    _Rule(
        "has {0}, in which the shell takes {1} for a variable; leave $ out (in an f-string of Python, write "
        "{{x}}, not ${{x}})",
        r"(?<!\\)(\$\d)\d*(?:\.\d|e[-+]?\d)[\d.e+-]*",
    ),
    _Rule("has {0}, which only job protocols fill in; use an f-string of Python", r"<%\s*\$[^%]*%>", ("v1",)),
    _Rule(
        "has {name} at character {at}, outside quotes, where the shell takes it for a letter; type the "
        "character again",
        ODD.pattern,
        is_bare=True,
    ),
)


def command_findings(
    commands: Sequence[tuple[Path, str]], environment: Iterable[object] = (), *, references: bool = False
) -> Iterator[Finding]:
    """Yield warnings about the commands of a role.

    Args:
        commands: Pairs of path and command, in the order in which the commands run.
        environment: The names of variables of the containers in addition to OpenPAI's variables.
        references: Whether the job's format has references, such as ``<% $parameters.KEY %>``.
    """
    own = {_LOCAL_MOUNTS, *environment, *(name for _, text in commands for name in _SET.findall(text))}
    for path, text in commands:
        for name in dict.fromkeys(_VARIABLE.findall(text)):
            if name not in own and not _variables().fullmatch(name):
                near = closest(name, _names(), likeness=0.8)
                hint = f"did you mean ${near}?" if near else "the commands do not set it either"
                yield warning(path, f"${name} is set by no release of OpenPAI, and is empty; {hint}")
        if references and (found := _FOLDER_OF_V1.search(text)) and found[0].strip("${}/%#") not in own:
            what = f"{found[0]} is not set in a job protocol, and ends the command with 'unbound variable'"
            yield warning(path, f"{what}; export it first, or give a task the attribute output_dir")
        for rule in _RULES:
            if ("v2" if references else "v1") in rule.formats and (found := _found(rule, text)):
                line, use = text.count("\n", 0, found.start()) + 1, _PARAMETER if references else _PYTHON
                details = {"line": line, "at": found.start() + 1, "name": name_of(found), "use": use}
                yield warning(path, rule.message.format(found[0], *found.groups(), **details))


def _found(rule: _Rule, text: str) -> re.Match[str] | None:
    """Return the first piece of a command to which a rule applies."""
    searched = re.compile(rule.pattern, re.DOTALL)
    if not searched.search(text) or re.search(rule.unless, text):
        return None
    found = searched.finditer(ending(text).bare if rule.is_bare else text)
    return next((each for each in found if all(each.groups())), None)


def image_findings(path: Path, image: object) -> Iterator[Finding]:
    """Yield a finding if Docker cannot pull an image with this name."""
    if not isinstance(image, str) or not image.strip():
        return
    if scheme := _IMAGE_SCHEME.match(image.strip()):
        name = image.strip()[scheme.end() :]
        why = f"begins with {scheme[0]}, and is not the name of a Docker image; write {name!r}"
    elif not image.isascii():
        why = f"{image!r} is not the name of a Docker image{not_ascii(image)}; type the character again"
    elif any(map(str.isspace, image)):
        why = f"{image!r} has a blank, and is not the name of a Docker image; write it without"
    else:
        repository = image.rpartition("/")[2].partition("@")[0].partition(":")[0]
        if repository != repository.lower():
            small = repository.lower()
            yield warning(path, f"{image!r} has capitals in {repository!r}; Docker knows {small!r} only")
        return
    yield stricter(path, f"{why}. Servers accept it, and the job fails when it starts")


def folder_findings(path: Path, folder: object, what: str, level: Level) -> Iterator[Finding]:
    """Yield a finding if a folder is not on the cluster's file system.

    The message calls it ``what``, such as ``code folder``.
    """
    if isinstance(folder, str) and folder and _NO_HDFS.match(folder):
        text = f"{folder!r} is not a path on the cluster's file system, where the {what} of a job is"
        remedy = "write $PAI_DEFAULT_FS_URI/PATH, and copy local files there with uploads or luigi-pai put"
        yield Finding(path, f"{text}; {remedy}", Level.WARNING if _PLACEHOLDER.match(folder) else level)


@cache
def _names() -> tuple[str, ...]:
    """Return the names of all variables; names that depend on a role, index or label have ``{}`` fields."""
    return tuple(dict.fromkeys(name for row in VARIABLES.values() for name in (*row.v1, *row.v2)))


@cache
def _variables() -> re.Pattern[str]:
    return re.compile("|".join(re.sub(r"\{\w+\}", r"\\w+", name) for name in _names()))
