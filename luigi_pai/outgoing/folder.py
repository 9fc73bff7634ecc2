"""Selects the files in a folder to send, for uploads and for a PaiPythonTask's packages."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import Problem
from luigi_pai.outgoing.never_sent import NeverSent, is_listed, leads_to_listed

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pathspec import GitIgnoreSpec

OURS = ".luigi-pai-"
"""The prefix of files that this package keeps in folders for itself. These files are not sent."""
CACHES = ("__pycache__/", "*.pyc", ".venv/")
"""Rules for files that nobody needs, which are not sent. The ignore file can override these rules."""

_IGNORE_FILE = ".paiignore"
_FOLDER_MATCHED = "ps_d"  # the group in pathspec's regular expressions that matches the "/" after a folder


@dataclass(frozen=True)
class Contents:
    """A folder's content to send.

    Attributes:
        files: Name -> file. Names are paths relative to the folder, with ``/``; ``stat()`` is cached.
        folders: The names of all subfolders, parents first.
        left_out: The files and folders that are never sent, because they may contain credentials.
        problems: The files that cannot be sent.
    """

    files: dict[str, os.DirEntry[str]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def folder_contents(
    folder: Path, *, caches: Sequence[str] = CACHES, check_name: Callable[[str], Iterable[str]] | None = None
) -> Contents:
    """Return a folder's content, without ignored files and files that are never sent.

    Args:
        folder: The folder's path.
        caches: Rules for ignored files. The rules in the folder's ignore file are added to them.
        check_name: A function that yields why a file or folder with a given name cannot be sent.
    """
    found = Contents()
    never = NeverSent()
    if why := never.problem(folder):
        found.problems.append(Problem(shown(str(folder)), why))
        return found
    try:
        ignored = _ignored(folder, caches)
    except (OSError, ValueError) as error:  # ValueError: the file is not UTF-8, or contains an invalid rule
        found.problems.append(Problem(_IGNORE_FILE, str(error)))
        return found
    root = folder.resolve()
    _Walk(root, ignored, never, check_name or (lambda _name: ()), found).walk("", (root,))
    return found


def shown(name: str) -> str:
    """Return a name in printable form."""
    return name.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True)
class _Walk:
    root: Path
    ignored: GitIgnoreSpec
    never: NeverSent
    check_name: Callable[[str], Iterable[str]]
    found: Contents

    def walk(self, above: str, way: tuple[Path, ...]) -> None:
        """Add the contents of a folder and its subfolders to ``found``.

        ``above`` is the folder's name with a trailing ``/``. ``way`` has the resolved folders on its path.
        """
        try:
            entries = sorted(os.scandir(way[-1]), key=lambda entry: entry.name)
        except OSError as error:
            self.found.problems.append(Problem(shown(above) or ".", f"it cannot be read ({error.strerror})"))
            return
        for entry in entries:
            name = f"{above}{entry.name}"
            # os.path.isdir() is False for a broken link, but too slow to call for 10,000 files
            is_folder = os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()  # noqa: PTH112
            if entry.name.startswith(OURS) or name == _IGNORE_FILE:
                continue
            if _is_ignored(self.ignored, f"{name}/" if is_folder else name):
                continue
            if is_listed(f"{way[-1].name}/{entry.name}"):
                self.found.left_out.append(name)
                continue
            reasons = [*self._name_problems(entry.name), *self._access_problems(entry, way)]
            if reasons:
                self.found.problems.extend(Problem(shown(name), why) for why in reasons)
            elif self._has_credentials(entry, is_folder=is_folder):
                self.found.left_out.append(name)
            elif is_folder:
                self.found.folders.append(name)
                self.walk(f"{name}/", (*way, Path(entry.path).resolve()))
            else:
                self.found.files[name] = entry

    def _has_credentials(self, entry: os.DirEntry[str], *, is_folder: bool) -> bool:
        """Return whether a file contains credentials, or is a link to a file that is never sent."""
        if entry.is_symlink() and leads_to_listed(Path(entry.path).resolve().relative_to(self.root)):
            return True
        return not is_folder and self.never.has_credentials(entry)

    def _name_problems(self, name: str) -> Iterator[str]:
        yield from self.check_name(name)
        try:
            name.encode()
        except UnicodeEncodeError:
            yield "its name is not UTF-8"

    def _access_problems(self, entry: os.DirEntry[str], way: tuple[Path, ...]) -> Iterator[str]:
        """Yield why a folder's entry cannot be sent. Also caches ``entry.stat()``."""
        try:
            entry.stat()
        except OSError as error:
            yield "it is a broken link" if entry.is_symlink() else f"{error.strerror}"
            return
        path = Path(entry.path)
        goal = path.resolve() if entry.is_symlink() else path
        if goal != self.root and self.root not in goal.parents:
            yield f"it is a link out of the folder, to {shown(str(goal))}"
        elif goal in way:
            yield f"it is a link to a folder that contains it, {shown(str(goal))}"
        elif not entry.is_dir() and not entry.is_file():
            yield "it is neither a file nor a folder"
        elif not os.access(path, os.R_OK):
            yield f"it cannot be read ({os.strerror(errno.EACCES)})"


def _ignored(folder: Path, caches: Sequence[str]) -> GitIgnoreSpec:
    """Return the rules for ignored files: the built-in rules, then the ignore file's rules."""
    from pathspec import GitIgnoreSpec  # noqa: PLC0415  needed only to send a folder

    file = folder / _IGNORE_FILE
    lines = file.read_text("utf-8").splitlines() if os.path.lexists(file) else []
    return GitIgnoreSpec.from_lines([*caches, *lines])


def _is_ignored(rules: GitIgnoreSpec, name: str) -> bool:
    """Return whether a file or folder is ignored. The last rule that matches its name decides.

    A folder's ``name`` ends with ``/``. In pathspec, a rule that matches a folder also matches everything
    below it. As in git, such a match does not count here, because the walk has already checked the folder.
    With the rules ``*``, ``!*/``, ``!*.py``, therefore, ``a/b.py`` is sent, but ``a/c`` is not. (Do not use
    GitIgnoreSpec's methods: since pathspec 1.0, they ignore the folder ``a/`` under these rules.)
    """
    deciding = [rule.include for rule in rules.patterns if rule.regex and _is_about(rule.regex, name)]
    return bool(deciding and deciding[-1])


def _is_about(regex: re.Pattern[str], name: str) -> bool:
    matches = regex.finditer(name)
    if _FOLDER_MATCHED not in regex.groupindex:
        return any(matches)
    return any(match.end(_FOLDER_MATCHED) in (-1, len(name)) for match in matches)
