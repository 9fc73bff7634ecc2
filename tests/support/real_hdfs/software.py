"""The software of a real HDFS: fetching what is not there yet, and the command that runs it.

The jars of all versions are kept in ``$XDG_CACHE_HOME/luigi_pai/hadoop`` (``~/.cache/...``), for all
clones of the tree; a jar that several versions have is there once. For 2.7.4 some 205 MB are downloaded
and 30 MB are kept, for both versions 275 MB and 70 MB.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from real_hdfs.sources import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from real_hdfs.hadoops import Hadoop
    from real_hdfs.sources import Renamed, Source

__all__ = ["Software", "installed"]

_MODULES_SINCE = 9


@dataclass(frozen=True)
class Software:
    """What runs a real HDFS.

    Attributes:
        hadoop: its version.
        java: the command.
        java_version: its first number, 8 for 1.8.
        jars: the folder that holds its jars, among others.
    """

    hadoop: Hadoop
    java: str
    java_version: int
    jars: Path

    def command(self, class_path: Sequence[Path], main: str, *arguments: str, heap: int = 256) -> list[str]:
        """Return the command that runs a class of Hadoop's.

        Args:
            class_path: folders that come before the jars.
            main: the class, below ``org.apache.hadoop``.
            *arguments: of the class.
            heap: the most memory for its objects, in MiB.
        """
        modules = [
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        ]
        return [
            self.java,
            "-Djava.net.preferIPv4Stack=true",
            f"-Xmx{heap}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            *(modules if self.java_version >= _MODULES_SINCE else ()),
            "-cp",
            ":".join(str(path) for path in [*class_path, *_paths(self.hadoop, self.jars)]),
            f"org.apache.hadoop.{main}",
            *arguments,
        ]

    def class_file(self, name: str) -> bytes:
        """Return a class of a jar; its name is with slashes.

        Raises:
            LookupError: no jar has it.
        """
        for path in _paths(self.hadoop, self.jars):
            with zipfile.ZipFile(path) as jar, contextlib.suppress(KeyError):
                return jar.read(f"{name}.class")
        raise LookupError(f"no jar of Hadoop {self.hadoop.version} has {name}")


def installed(hadoops: Iterable[Hadoop], timeout: float) -> dict[Hadoop, Software | Missing]:
    """Return the software of each version, or why it is missing; fetches what is not there yet.

    Args:
        hadoops: the versions.
        timeout: seconds that fetching may take.
    """
    found: dict[Hadoop, Software | Missing] = {}
    jars = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "luigi_pai" / "hadoop"
    for hadoop in hadoops:
        try:
            found[hadoop] = Software(hadoop, *_java_for(hadoop), jars)
        except Missing as missing:
            found[hadoop] = missing
    failed = _fetch([hadoop for hadoop, one in found.items() if isinstance(one, Software)], jars, timeout)
    return found | failed


def _java_for(hadoop: Hadoop) -> tuple[str, int]:
    """Return a Java that can run a version, and which it is."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not java or not os.access(java, os.X_OK):
        raise Missing("there is no Java; on Debian and Ubuntu: sudo apt install openjdk-17-jre-headless")
    version = _java_version(java)
    if not hadoop.oldest_java <= version <= hadoop.newest_java:
        raise Missing(
            f"Hadoop {hadoop.version} runs on Java {hadoop.oldest_java} to {hadoop.newest_java}, "
            f"{java} is Java {version}: name another one in JAVA_HOME"
        )
    return java, version


def _java_version(java: str) -> int:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{java} does not run: {error}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    if not found:
        raise Missing(f"{java} -version does not say a version: {told.stderr.strip() or told.returncode}")
    return int(found[1])


def _paths(hadoop: Hadoop, jars: Path) -> list[Path]:
    names = [name for names in hadoop.jars.values() for name in names]
    names += [each.name for each in hadoop.renamed]
    return [jars / f"{name}.jar" for name in names]


def _fetch(hadoops: list[Hadoop], jars: Path, timeout: float) -> dict[Hadoop, Missing]:
    """Fetch the jars that are missing; return the versions for which that failed, and why."""
    deadline = time.monotonic() + timeout
    incomplete = [hadoop for hadoop in hadoops if not _is_complete(hadoop, jars)]
    if not incomplete:
        return {}
    try:
        jars.mkdir(parents=True, exist_ok=True)
        with _alone(jars.with_name(f"{jars.name}.lock"), deadline):
            wanted = _wanted(incomplete, jars)  # another process may have fetched them meanwhile
            with ThreadPoolExecutor(len(wanted) or 1) as pool:
                said = dict(
                    zip(
                        wanted,
                        pool.map(lambda source: _take(source, wanted[source], jars, deadline), wanted),
                        strict=True,
                    )
                )
            failures: dict[Hadoop, Missing] = {}
            for hadoop in incomplete:
                for source in hadoop.jars:
                    if missing := said.get(source):
                        failures.setdefault(hadoop, missing)
                if hadoop not in failures:
                    for each in hadoop.renamed:
                        _make(each, jars)
            return failures
    except Missing as missing:
        return dict.fromkeys(incomplete, missing)
    except OSError as error:
        return dict.fromkeys(incomplete, Missing(f"its software cannot be kept in {jars}: {error}"))


def _is_complete(hadoop: Hadoop, jars: Path) -> bool:
    return all(path.exists() for path in _paths(hadoop, jars))


def _wanted(hadoops: list[Hadoop], jars: Path) -> dict[Source, set[str]]:
    """Return the names of the jars that are missing, by where they come from."""
    wanted: dict[Source, set[str]] = {}
    for hadoop in hadoops:
        for source, names in hadoop.jars.items():
            if missing := {name for name in names if not (jars / f"{name}.jar").exists()}:
                wanted.setdefault(source, set()).update(missing)
    return wanted


def _take(source: Source, names: set[str], jars: Path, deadline: float) -> Missing | None:
    """Have the jars of a source appear, each whole; return why that failed."""
    with tempfile.TemporaryDirectory(dir=jars, prefix="fetching-") as work:
        try:
            for name, content in source.take(names, Path(work), deadline):
                made = Path(work, "made")
                made.write_bytes(content)
                made.rename(jars / f"{name}.jar")
        except Missing as missing:
            return missing
    return None


def _make(jar: Renamed, jars: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jars, prefix="making-") as work:
        made = Path(work, "made")
        jar.make(jars / f"{jar.original}.jar", made)
        made.rename(jars / f"{jar.name}.jar")


@contextlib.contextmanager
def _alone(lock: Path, deadline: float) -> Iterator[None]:
    """Wait until no other process fetches."""
    with lock.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Missing("another process has been fetching it all the time") from None
                time.sleep(0.2)
        yield
