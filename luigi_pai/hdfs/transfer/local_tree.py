"""What of a local file or folder is to be sent to HDFS."""

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
from luigi_pai.hdfs.transfer.pool import READ_AT_ONCE

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from pathspec import GitIgnoreSpec

__all__ = ["IGNORE_FILE", "LocalFile", "LocalTree"]

IGNORE_FILE = ".paiignore"
_NOT_SENT = (  # unless the ignore file says otherwise
    "__pycache__/",
    "*.pyc",
    ".venv/",
    "luigi.cfg",  # it holds the password, and what is on HDFS others can read
    "luigi.toml",
)
_FOLDER_MATCHED = "ps_d"  # pathspec's name for the "/" of the folder that a rule is about
_REFUSED = ":"  # in a name on HDFS


@dataclass(frozen=True)
class LocalFile:
    """A file that is to be sent.

    Attributes:
        name: its path in the folder, with ``/``.
        place: where it is.
        size: in bytes.
    """

    name: str
    place: Path
    size: int

    def parts(self) -> Iterator[bytes]:
        """Yield what is in it, part by part.

        Raises:
            TransferError: it cannot be read, or it was written to meanwhile. What was
                read may then be the beginning of one version and the end of another.
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
            raise self._wrong("it was written to while it was read; send it when nothing writes to it")

    def sha256(self) -> str:
        """Return the checksum of what is in it, in hex; raises as ``parts()``."""
        digest = hashlib.sha256()
        for part in self.parts():
            digest.update(part)
        return digest.hexdigest()

    def _wrong(self, reason: str) -> TransferError:
        return TransferError("not everything was sent", [Problem(_shown(str(self.place)), reason)])


@dataclass(frozen=True)
class LocalTree:
    """The files of a folder, or one file, that are to be sent.

    Attributes:
        files: by name.
        folders: all that are below the folder, empty ones too.
        is_file: whether it is one file.
    """

    files: dict[str, LocalFile]
    folders: frozenset[str] = frozenset()
    is_file: bool = False

    @classmethod
    def of(cls, place: Path, name: str) -> LocalTree:
        """Return what is at a place; a file is to be called ``name``.

        Raises:
            TransferError: naming everything that cannot be sent.
        """
        try:
            found = place.stat()
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            why = "there is no such file or folder" if missing else f"it cannot be read ({error.strerror})"
            raise TransferError("nothing was sent", [Problem(_shown(str(place)), why)]) from None
        if place.is_dir():
            return cls.of_folder(place)
        _check(place, [Problem(_shown(name), why) for why in _wrong_with(name)])
        return cls({name: LocalFile(name, place, found.st_size)}, is_file=True)

    @classmethod
    def of_folder(cls, folder: Path) -> LocalTree:
        """Return what is in a folder, without what its ignore file says; raises as ``of()``."""
        files: dict[str, LocalFile] = {}
        folders: set[str] = set()
        problems: list[Problem] = []
        root = folder.resolve()
        for name, entry in _walk(root, "", _ignored(folder), (root,), problems):
            if entry.is_dir():
                folders.add(name)
            else:
                files[name] = LocalFile(name, Path(entry.path), entry.stat().st_size)
        _check(folder, problems)
        return cls(files, frozenset(folders))


def _walk(
    root: Path, above: str, ignored: GitIgnoreSpec, way: tuple[Path, ...], problems: list[Problem]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield name and entry of what is below the last folder of ``way``; note what cannot be sent.

    ``way`` are the folders from the root to this one, links followed; ``above`` is its name, with ``/``.
    """
    try:
        entries = sorted(os.scandir(way[-1]), key=lambda entry: entry.name)
    except OSError as error:
        problems.append(Problem(_shown(above) or ".", f"it cannot be read ({error.strerror})"))
        return
    for entry in entries:
        name = f"{above}{entry.name}"
        is_folder = os.path.isdir(entry.path)  # noqa: PTH112  False where a link leads nowhere
        if entry.name in (MANIFEST, ".git") or is_temporary(entry.name) or name == IGNORE_FILE:
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
    """Yield why HDFS cannot take a name."""
    if _REFUSED in name:
        yield "HDFS takes no ':' in a name"
    try:
        name.encode()
    except UnicodeEncodeError:
        yield "its name is not UTF-8"


def _wrong_at(entry: os.DirEntry[str], root: Path, way: tuple[Path, ...]) -> Iterator[str]:
    """Yield why an entry of a folder cannot be sent. What was found of it is kept in the entry."""
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
        yield f"it is a link to a folder that it is in, {goal}"
    elif not entry.is_dir() and not entry.is_file():
        yield "it is neither a file nor a folder"
    elif not os.access(place, os.R_OK):
        yield f"it cannot be read ({os.strerror(errno.EACCES)})"


def _ignored(folder: Path) -> GitIgnoreSpec:
    """Return what is not sent: what never is, then what the ignore file says."""
    from pathspec import GitIgnoreSpec  # noqa: PLC0415  needed only where a folder is sent

    file = folder / IGNORE_FILE
    try:
        lines = file.read_text("utf-8").splitlines() if os.path.lexists(file) else []
        return GitIgnoreSpec.from_lines([*_NOT_SENT, *lines])
    except (OSError, ValueError) as error:  # also where it is not UTF-8
        raise TransferError(f"{folder} was not sent", [Problem(IGNORE_FILE, str(error))]) from None


def _is_ignored(rules: GitIgnoreSpec, name: str) -> bool:
    """Return whether the last rule that is about a file, or a folder with ``/`` at its end, leaves it out.

    A rule of pathspec's also matches all that is below a folder. Here that folder has been looked at already,
    and by git's rules what is said of it says nothing of what is in it: ``*``, ``!*/``, ``!*.py``
    sends ``a/b.py`` and not ``a/c``. (GitIgnoreSpec itself leaves ``a/`` out, since 1.0.)
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
    """Return a name in a form that can be printed."""
    return name.encode("utf-8", "backslashreplace").decode()
