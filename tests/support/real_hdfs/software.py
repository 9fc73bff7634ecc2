"""What a real HDFS consists of: where it is fetched from, and where it is kept.

Hadoop 2.7.4 and most of its libraries are in the source distribution of pyspark 3.0.2 on PyPI;
Jersey 1, which Spark leaves out, is in Debian. Together some 205 MB are downloaded and 30 MB are
kept, in ``$XDG_CACHE_HOME/luigi_pai/hdfs-2.7.4`` (``~/.cache/...``), for all clones of the tree.

What PyPI sends has to have the SHA-256 that is written here; what Debian sends, those of its signed
lists, which apt checks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Missing", "Software", "installed"]

VERSION = "2.7.4"
_PYSPARK = "3.0.2"
_SHA256 = "d4f2ced43394ad773f7b516a4bbcb5821a940462a17b1a25f175c83771b62ebc"
_JARS_OF_PYSPARK = f"pyspark-{_PYSPARK}/deps/jars/"
_FROM_PYSPARK = """
    hadoop-annotations-2.7.4 hadoop-auth-2.7.4 hadoop-common-2.7.4 hadoop-hdfs-2.7.4
    jetty-6.1.26 jetty-util-6.1.26 jetty-sslengine-6.1.26 jsp-api-2.1 javax.servlet-api-3.1.0
    netty-all-4.1.47.Final htrace-core-3.1.0-incubating protobuf-java-2.5.0 guava-14.0.1
    httpclient-4.5.6 httpcore-4.4.12 jsr305-3.0.0 commons-cli-1.2 commons-codec-1.10
    commons-collections-3.2.2 commons-configuration-1.6 commons-io-2.4 commons-lang-2.6
    commons-logging-1.1.3 commons-math3-3.4.1 log4j-1.2.17 slf4j-api-1.7.30 slf4j-log4j12-1.7.30
    jackson-core-asl-1.9.13 jackson-mapper-asl-1.9.13 xmlenc-0.52 leveldbjni-all-1.8
    apacheds-i18n-2.0.0-M15 apacheds-kerberos-codec-2.0.0-M15 jaxb-api-2.2.2
"""
_FROM_DEBIAN = {  # package -> its jars
    "libjersey1-core-java": ("jersey1-core",),
    "libjersey1-server-java": ("jersey1-server",),
    "libjersey1-servlet-java": ("jersey1-servlet",),
    "libjsr311-api-java": ("jsr311-api",),
    "libcommons-daemon-java": ("commons-daemon",),
}
_OLDEST_JAVA, _NEWEST_JAVA = 8, 22  # Hadoop 2.7 uses what Java 23 no longer has
_MODULES_SINCE = 9
_TRIES = 2  # of pip, which itself tries to connect six times, but takes a file up once
_IS_ERROR = re.compile("E(RROR)?:")  # of apt-get and pip
_ACCOUNT = re.compile(r"(?<=://)[^/@\s]+@")  # of somebody at a package index, in an address
_NO_PAGES = '<web-app version="2.4" xmlns="http://java.sun.com/xml/ns/j2ee"></web-app>'


class Missing(Exception):
    """A real HDFS cannot be had here; the text says why, and what would help."""


@dataclass(frozen=True)
class Software:
    """What runs a real HDFS.

    Attributes:
        java: the command.
        home: the folder that holds ``lib`` and ``webapps``.
        java_version: its first number, 8 for 1.8.
    """

    java: str
    home: Path
    java_version: int

    def command(self, conf: Path, main: str, *arguments: str, heap: int = 256) -> list[str]:
        """Return the command that runs a class of Hadoop's.

        Args:
            conf: the folder of its configuration.
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
            # HttpServer2 looks for the folders webapps/hdfs and webapps/datanode on the class path
            "-cp",
            f"{conf}:{self.home}:{self.home}/lib/*",
            f"org.apache.hadoop.{main}",
            *arguments,
        ]


def installed(timeout: float) -> Software:
    """Return the software of a real HDFS; it is fetched if it is not there yet.

    Args:
        timeout: seconds that fetching may take.

    Raises:
        Missing: there is no Java that can run it, or it could not be fetched.
    """
    java = _java()
    home = _cache() / f"hdfs-{VERSION}"
    if not home.is_dir():
        _fetch(home, time.monotonic() + timeout)
    return Software(java, home, _java_version(java))


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "luigi_pai"


def _java() -> str:
    """Return a Java that can run Hadoop 2.7."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not java or not os.access(java, os.X_OK):
        raise Missing("there is no Java; on Debian and Ubuntu: sudo apt install openjdk-17-jre-headless")
    version = _java_version(java)
    if not _OLDEST_JAVA <= version <= _NEWEST_JAVA:
        raise Missing(
            f"Hadoop {VERSION} runs on Java {_OLDEST_JAVA} to {_NEWEST_JAVA}, {java} is Java {version}: "
            "name another one in JAVA_HOME"
        )
    return java


def _java_version(java: str) -> int:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{java} does not run: {error}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    if not found:
        raise Missing(f"{java} -version does not say a version: {told.stderr.strip() or told.returncode}")
    return int(found[1])


def _fetch(home: Path, deadline: float) -> None:
    """Fetch everything, and have it appear at ``home``, whole."""
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with _alone(home.with_name(f"{home.name}.lock"), deadline):
            if home.is_dir():  # another process has fetched it meanwhile
                return
            with tempfile.TemporaryDirectory(dir=home.parent, prefix="fetching-") as work:
                made = Path(work, "made")
                (made / "lib").mkdir(parents=True)
                _take_from_debian(Path(work), made / "lib", deadline)
                _take_from_pyspark(Path(work), made / "lib", deadline)
                for name in ("hdfs", "datanode"):
                    pages = made / "webapps" / name / "WEB-INF"
                    pages.mkdir(parents=True)
                    (pages / "web.xml").write_text(_NO_PAGES)
                (made / "webapps" / "static").mkdir()
                made.rename(home)
    except OSError as error:
        raise Missing(f"its software cannot be kept in {home}: {error}") from error


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


def _take_from_pyspark(work: Path, lib: Path, deadline: float) -> None:
    wanted = work / "requirements.txt"
    wanted.write_text(f"pyspark=={_PYSPARK} --hash=sha256:{_SHA256}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    pip += ["--no-deps", "--no-binary=pyspark", "--require-hashes", "--requirement", str(wanted)]
    for tries_left in reversed(range(_TRIES)):
        try:
            _run("pip download", pip, work, deadline)
            break
        except Missing:
            if not tries_left or time.monotonic() > deadline:
                raise
    with tarfile.open(work / f"pyspark-{_PYSPARK}.tar.gz") as archive:
        missing = {f"{_JARS_OF_PYSPARK}{name}.jar" for name in _FROM_PYSPARK.split()}
        for member in archive:
            if member.name in missing and (content := archive.extractfile(member)):
                (lib / Path(member.name).name).write_bytes(content.read())
                missing.discard(member.name)
                if not missing:
                    return
    raise Missing(f"pyspark {_PYSPARK} does not hold {', '.join(sorted(missing))}")


def _take_from_debian(work: Path, lib: Path, deadline: float) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Missing("a part of it (Jersey 1) comes from Debian or Ubuntu packages, and there is no apt-get")
    apt = ["apt-get", "-o", "Acquire::Retries=3"]
    if os.geteuid() == 0:
        apt += ["-o", "APT::Sandbox::User=root"]
    try:
        _run("apt-get download", [*apt, "download", *_FROM_DEBIAN], work, deadline)
    except Missing:
        if time.monotonic() > deadline:
            raise
        # a machine's lists may be missing, as in most containers, or name what is there no more: take our own
        (work / "lists" / "partial").mkdir(parents=True)
        apt += ["-o", f"Dir::State::lists={work}/lists", "-o", f"Dir::Cache={work}/cache"]
        _run("apt-get update", [*apt, "-o", "APT::Update::Error-Mode=any", "update"], work, deadline)
        _run("apt-get download", [*apt, "download", *_FROM_DEBIAN], work, deadline)
    for package in work.glob("*.deb"):
        _run("dpkg-deb", ["dpkg-deb", "-x", str(package), "unpacked"], work, deadline)
    for name in (name for names in _FROM_DEBIAN.values() for name in names):
        jar = work / "unpacked" / "usr" / "share" / "java" / f"{name}.jar"
        if not jar.exists():
            raise Missing(f"Debian's packages do not hold {name}.jar")
        shutil.copyfile(jar, lib / jar.name)


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
