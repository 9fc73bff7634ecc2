"""The local files and folders that an upload sends."""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import Problem
from luigi_pai.hdfs.errors import TransferError
from luigi_pai.hdfs.temporary import is_temporary
from luigi_pai.hdfs.transfer.destination import MANIFEST
from luigi_pai.hdfs.transfer.pool import READ_AT_ONCE, Tree

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from pathspec import GitIgnoreSpec

_IGNORE_FILE = ".paiignore"
_NOT_SENT = (  # rules for files that are not sent; rules in the ignore file can override them
    "__pycache__/",
    "*.pyc",
    ".venv/",
    "luigi.cfg",  # contains the password, and others can read files on HDFS
    "luigi.toml",
)
_FOLDER_MATCHED = "ps_d"  # the group in pathspec's regular expressions that matches the "/" after a folder
_REFUSED = ":"  # in names on HDFS


@dataclass(frozen=True)
class LocalFile:
    """A local file to send.

    Attributes:
        name: its path in the folder that is sent, with ``/``; its new name if only this file is sent.
        place: its path on this machine.
        size: in bytes.
    """

    name: str
    place: Path
    size: int

    def parts(self) -> Iterator[bytes]:
        """Yield the content in parts.

        Raises:
            TransferError: the file cannot be read, or was changed while it was read, so that the parts may be
                of different versions.
        """
        try:
            with self.place.open("rb") as opened:
                before = os.fstat(opened.fileno())
                while part := opened.read(READ_AT_ONCE):
                    yield part
                after = os.fstat(opened.fileno())
        except OSError as error:
            raise self._wrong(error.strerror or str(error)) from error
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise self._wrong("it was changed while it was read; send it when no program writes to it")

    def sha256(self) -> str:
        """Return the checksum of the content in hex; raises what ``parts()`` raises."""
        digest = hashlib.sha256()
        for part in self.parts():
            digest.update(part)
        return digest.hexdigest()

    def _wrong(self, reason: str) -> TransferError:
        return TransferError("not everything was sent", [Problem(_shown(str(self.place)), reason)])


def local_tree(place: Path, name: str) -> Tree[LocalFile]:
    """Return the tree of a local file or folder; a file gets the name ``name``.

    Raises:
        TransferError: some files cannot be sent; its ``problems`` have all of them.
    """
    try:
        found = place.stat()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        why = "there is no such file or folder" if missing else f"it cannot be read ({error.strerror})"
        raise TransferError("nothing was sent", [Problem(_shown(str(place)), why)]) from None
    if place.is_dir():
        return folder_tree(place)
    _check(place, [Problem(_shown(name), why) for why in _wrong_with(name)])
    return Tree({name: LocalFile(name, place, found.st_size)}, [], is_file=True)


def folder_tree(folder: Path) -> Tree[LocalFile]:
    """Return the tree of a folder without ignored files; raises as ``local_tree``."""
    tree: Tree[LocalFile] = Tree({}, [])
    problems: list[Problem] = []
    root = folder.resolve()
    for name, entry in _walk(root, "", _ignored(folder), (root,), problems):
        if entry.is_dir():
            tree.folders.append(name)
        else:
            tree.files[name] = LocalFile(name, Path(entry.path), entry.stat().st_size)
    _check(folder, problems)
    return tree


def _walk(
    root: Path, above: str, ignored: GitIgnoreSpec, way: tuple[Path, ...], problems: list[Problem]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield name and entry of everything in a folder and its subfolders; add errors to ``problems``.

    ``above`` is the folder's name with a final ``/``. ``way`` has the resolved folders from ``root`` to it.
    """
    try:
        entries = sorted(os.scandir(way[-1]), key=lambda entry: entry.name)
    except OSError as error:
        problems.append(Problem(_shown(above) or ".", f"it cannot be read ({error.strerror})"))
        return
    for entry in entries:
        name = f"{above}{entry.name}"
        is_folder = os.path.isdir(entry.path)  # noqa: PTH112  False for a broken link
        if entry.name in (MANIFEST, ".git") or is_temporary(entry.name) or name == _IGNORE_FILE:
            continue
        if _is_ignored(ignored, f"{name}/" if is_folder else name):
            continue
        wrong = [*_wrong_with(entry.name), *_wrong_at(entry, root, way)]
        if wrong:
            problems += (Problem(_shown(name), why) for why in wrong)
            continue
        yield name, entry
        if is_folder:
            yield from _walk(root, f"{name}/", ignored, (*way, Path(entry.path).resolve()), problems)


def _wrong_with(name: str) -> Iterator[str]:
    """Yield the reasons why HDFS rejects a name."""
    if _REFUSED in name:
        yield "HDFS takes no ':' in a name"
    try:
        name.encode()
    except UnicodeEncodeError:
        yield "its name is not UTF-8"


def _wrong_at(entry: os.DirEntry[str], root: Path, way: tuple[Path, ...]) -> Iterator[str]:
    """Yield the reason why an entry of a folder cannot be sent. Caches ``entry.stat()`` for later calls."""
    try:
        entry.stat()
    except OSError as error:
        yield "it is a link that leads nowhere" if entry.is_symlink() else f"{error.strerror}"
        return
    place = Path(entry.path)
    goal = place.resolve() if entry.is_symlink() else place
    if goal != root and root not in goal.parents:
        yield f"it is a link out of the folder, to {goal}"
    elif goal in way:
        yield f"it is a link to a folder that contains it, {goal}"
    elif not entry.is_dir() and not entry.is_file():
        yield "it is neither a file nor a folder"
    elif not os.access(place, os.R_OK):
        yield f"it cannot be read ({os.strerror(errno.EACCES)})"


def _ignored(folder: Path) -> GitIgnoreSpec:
    """Return the rules for ignored files: the built-in rules, followed by the rules of the ignore file."""
    from pathspec import GitIgnoreSpec  # noqa: PLC0415  needed only where a folder is sent

    file = folder / _IGNORE_FILE
    try:
        lines = file.read_text("utf-8").splitlines() if os.path.lexists(file) else []
        return GitIgnoreSpec.from_lines([*_NOT_SENT, *lines])
    except (OSError, ValueError) as error:  # ValueError: the file is not UTF-8, or has a wrong rule
        raise TransferError(f"{folder} was not sent", [Problem(_IGNORE_FILE, str(error))]) from None


def _is_ignored(rules: GitIgnoreSpec, name: str) -> bool:
    """Return whether a file or folder is ignored, which the last rule that matches its name decides.

    ``name`` ends with ``/`` for a folder. In pathspec, a rule that matches a folder also matches everything
    below it. As in git, such a match does not count here, because ``_walk`` has checked the folder before. So
    with the rules ``*``, ``!*/``, ``!*.py``, ``a/b.py`` is sent, but ``a/c`` is not. (The methods of
    GitIgnoreSpec are not used, because since pathspec 1.0 they ignore the folder ``a/`` by these rules.)
    """
    deciding = [rule.include for rule in rules.patterns if rule.regex and _is_about(rule.regex, name)]
    return bool(deciding and deciding[-1])


def _is_about(regex: re.Pattern[str], name: str) -> bool:
    matches = regex.finditer(name)
    if _FOLDER_MATCHED not in regex.groupindex:
        return any(matches)
    return any(match.end(_FOLDER_MATCHED) in (-1, len(name)) for match in matches)


def _check(place: Path, problems: list[Problem]) -> None:
    if problems:
        raise TransferError(f"nothing of {place} was sent", problems)


def _shown(name: str) -> str:
    """Return a printable form of a name."""
    return name.encode("utf-8", "backslashreplace").decode()
