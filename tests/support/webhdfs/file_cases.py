"""Cases of tests of files as data: the rows and steps in ``tests/data/files``."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hdfs_backend import content, names, written
from places import ROOT

from luigi_pai import files
from luigi_pai.files import HdfsTarget
from luigi_pai.files.small_files import create_once, read_small
from luigi_pai.work.flag import CompletionFlag


@functools.cache
def _cases(file: str) -> dict[str, Any]:
    text = (ROOT / "tests" / "data" / "files" / f"{file}.yaml").read_text("utf-8")
    return dict(yaml.safe_load(text))


def table(section: str, names: str) -> pytest.MarkDecorator:
    """Run a test for each row of a section of tables.yaml."""
    return pytest.mark.parametrize(names.replace(" ", ","), _cases("tables")[section])


def steps(section: str) -> pytest.MarkDecorator:
    """Run a test for each case of a section of steps.yaml: a sentence, and its steps."""
    cases = _cases("steps")[section]
    return pytest.mark.parametrize("steps", [pytest.param(text, id=name) for name, text in cases.items()])


def sections(file: str) -> pytest.MarkDecorator:
    """Run a test for each section of a file, a sentence."""
    cases = _cases(file)
    return pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in cases.items()])


def calls(section: str) -> dict[str, Any]:
    """Return the calls of a section of steps.yaml by name."""
    return dict(_cases("steps")[section])


class Player:
    """Plays steps on a file system, one a line: ``METHOD ARGUMENT... [= RESULT]`` or ``... ! ERROR: TEXT``.

    METHOD is one of this class, of the file system, ``target.METHOD`` of a target or ``volume.METHOD`` of the
    volume; a user before it (``bob> exists ~/f``) is one of ``users``. Each key of ``words`` is replaced by
    its value; lists are compared as sorted words.
    """

    def __init__(self, fs: Any, here: Path | None = None, *, users: Any = None, **words: str) -> None:
        self.fs, self.here = fs, here or Path("/nonexistent")
        self._own, self._users = fs, users
        self._words = {"{here}": str(here), **{f"{{{key}}}": value for key, value in words.items()}}
        self._words["~"] = words.get("home", "~")

    def play(self, steps: str) -> None:
        """Play all steps."""
        for step in steps.splitlines():
            call, _, error = step.partition(" ! ")
            call, is_given, result = call.partition(" = ")
            if error:
                kind, _, message = self._said(error).partition(": ")
                with pytest.raises(getattr(files, kind), match=message or None):
                    self.call(call)
            else:
                found = self.call(call)
                assert not is_given or found == self._said(result.removeprefix("nothing")), step

    def call(self, call: str) -> str:
        """Return the result of a call as a string."""
        user, is_named, rest = call.partition("> ")
        self.fs, call = (self._users(user), rest) if is_named else (self._own, call)
        method, *words = shlex.split(call)
        options = dict(word.split("=") for word in words if "=" in word)
        given: list[Any] = [self._said(word) for word in words if "=" not in word]
        owner, _, method = method.rpartition(".")
        if owner == "target":
            work = getattr(HdfsTarget(given.pop(0), fs=self.fs), method)
        elif owner == "volume":
            work = getattr(self.fs.at("/")[0], method)
        else:
            work = getattr(self, method, None) or getattr(self.fs, method)
        found = work(*given, **{key: yaml.safe_load(value) for key, value in options.items()})
        return (
            found
            if isinstance(found, str)
            else " ".join(sorted(map(str, found)))
            if _is_many(found)
            else str(found)
        )

    def _said(self, text: str) -> str:
        for word, value in self._words.items():
            text = text.replace(word, value)
        return text

    def write(self, path: str, text: str = "text") -> None:
        r"""Write a file; a line of it ends with ``\n``."""
        written(self.fs, path, text.replace(r"\n", "\n"))

    def content(self, path: str) -> str:
        r"""Return the content of a file, in which each line ends with ``\n``."""
        return content(self.fs, path).replace("\n", r"\n")

    def small(self, path: str) -> bytes | None:
        """Return a small file."""
        return read_small(self.fs, path, 9)

    def once(self, path: str) -> bool:
        """Create a small file."""
        return create_once(self.fs, path, b"x")

    def append(self, path: str) -> None:
        """Append to a file."""
        self.fs.at("/")[0].append(path, b"x")

    def names(self, path: str) -> list[str]:
        """Return the paths below a folder."""
        return names(self.fs, path)

    def create(self, path: str) -> None:
        """Make an empty file, whatever its name."""
        self.fs.at("/")[0].create_file(path, b"")

    def local(self, name: str, text: str = "text") -> None:
        """Make a file or, with ``/`` at its end, a folder here."""
        place = self.here / name
        (place if name.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            place.write_text(text)

    def fetched(self, name: str) -> str:
        """Return the content of a file here, or the names in a folder."""
        place = self.here / name
        return (
            " ".join(sorted(each.name for each in place.iterdir())) if place.is_dir() else place.read_text()
        )

    def remove_here(self, name: str) -> None:
        """Remove a file or folder here."""
        place = self.here / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()

    def link(self, name: str, target: str) -> None:
        """Make a link here."""
        (self.here / name).symlink_to(target)

    def pipe(self, name: str) -> None:
        """Make a pipe here."""
        os.mkfifo(self.here / name)

    def is_pipe(self, name: str) -> bool:
        """Return whether a pipe is here."""
        return (self.here / name).is_fifo()

    def upload(self, local: str, path: str) -> str:
        """Upload a file or folder; return the summary."""
        return str(files.upload(self.fs, local, path))

    def download(self, path: str, local: str) -> str:
        """Download a file or folder; return the summary."""
        return str(files.download(self.fs, path, local))

    def under(self, name: str) -> list[str]:
        """Return the paths below a folder here, all levels."""
        return [str(each.relative_to(self.here / name)) for each in (self.here / name).rglob("*")]

    def flag(self, method: str, folder: str, job: str, **options: bool) -> object:
        """Call a method of the completion flag of a folder."""
        is_add = method == "add"
        return getattr(CompletionFlag(self.fs, folder), method)(
            job, **({"submitted_here": False} if is_add else {}), **options
        )

    def matches(self, pattern: str) -> str:
        """Return for which numbers of files ``glob_exists`` is true."""
        target = HdfsTarget(pattern, fs=self.fs)
        return " ".join(str(number) for number in range(8) if target.glob_exists(number))

    def temporary_path(self, path: str) -> None:
        """Make an empty file ``f`` at a temporary path of a folder, which becomes the folder."""
        with HdfsTarget(path, fs=self.fs).temporary_path() as temporary:
            self.fs.touchz(f"{temporary}f")

    def fill(self, path: str, size: str) -> None:
        """Write a file of a size."""
        written(self.fs, path, "x" * int(size))


def _is_many(found: object) -> bool:
    return hasattr(found, "__iter__") and not isinstance(found, (bytes, dict))
