"""Patterns of paths, as in Hadoop's commands."""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from luigi_pai.files.temporary import is_temporary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.files.volume import Volume

_BRACES = re.compile(r"\{([^{}]*)\}")
_PATTERN = re.compile(r"[*?]|\[[!^]?[^\]]+\]", re.DOTALL)


def glob(volume: Volume, pattern: str) -> list[tuple[str, dict[str, Any]]]:
    """Return path and FileStatus of everything that matches a pattern, sorted by path.

    Patterns are ``*``, ``?``, ``[a-c]``, ``[^a]`` and ``{a,b}``. No wildcard matches a temporary folder.
    """
    found: dict[str, dict[str, Any]] = {}
    for plain in _expanded(pattern):
        level: dict[str, dict[str, Any] | None] = {"/": None}
        for part in filter(None, plain.split("/")):
            level = dict(_matching(volume, level, part))
        for path, status in level.items():
            known = status or volume.status(path)
            if known:
                found[path] = known
    return sorted(found.items())


def _matching(
    volume: Volume, folders: dict[str, dict[str, Any] | None], part: str
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yield path and FileStatus of the entries of ``folders`` whose names match ``part``.

    If ``part`` has no wildcard, its paths are yielded without a look-up, and each FileStatus is None.
    """
    if not _PATTERN.search(part):
        yield from ((posixpath.join(folder, part), None) for folder in folders)
        return
    part = part.replace("[^", "[!")
    for folder, known in folders.items():
        found = known or volume.status(folder)
        if found and found["type"] == "DIRECTORY":
            for status in volume.list_folder(folder):
                name = status["pathSuffix"]
                if fnmatchcase(name, part) and not is_temporary(name):
                    yield posixpath.join(folder, name), status


def _expanded(pattern: str) -> Iterator[str]:
    """Yield the patterns without braces: ``a{b,c}`` yields ``ab`` and ``ac``."""
    braces = _BRACES.search(pattern)
    if not braces:
        yield pattern
        return
    for choice in braces[1].split(","):
        yield from _expanded(pattern[: braces.start()] + choice + pattern[braces.end() :])
