"""Fetch a real HDFS, serve it, or run a command beside it."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, TextIO

from real_hdfs import HADOOP_2, HADOOPS, Hadoop, Missing, RealHdfs, Software, installed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_VARIABLES = ("URL", "FS_URI", "USER", "BIN")
FETCH = "make fetch-real-hdfs"
_PATIENT, _HASTY = 1800.0, 180.0  # seconds to fetch in: when asked for, and on the way to the tests


def main() -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="fetch its software, if it is not there")
    serve = commands.add_parser("serve", help="serve until Ctrl-C")
    run = commands.add_parser("run", help="run a command with HDFS_TEST_URL, _FS_URI, _USER and _BIN set")
    run.add_argument("--optional", action="store_true", help="run it without where there is no real HDFS")
    versions = [hadoop.version for hadoop in HADOOPS]
    serve.add_argument("--hadoop", choices=versions, default=HADOOP_2.version, help="default: %(default)s")
    for command in (fetch, run):
        command.add_argument("--hadoop", choices=versions, help="default: each")
    for command in (serve, run):
        command.add_argument("--datanodes", type=int, default=1, metavar="N")
        command.add_argument("--as-shipped", action="store_true", help="with all of Hadoop's own waits")
    run.add_argument("argv", nargs="+", metavar="COMMAND", help="after --")
    asked = parser.parse_args()
    hadoops = [hadoop for hadoop in HADOOPS if asked.hadoop in (None, hadoop.version)]

    def make(software: Software) -> RealHdfs:
        return RealHdfs(software, datanodes=asked.datanodes, as_shipped=asked.as_shipped)

    if asked.command == "run":
        return _run(asked.argv, hadoops, make, optional=asked.optional)
    found = installed(hadoops, _PATIENT)
    missing = {hadoop: why for hadoop, why in found.items() if isinstance(why, Missing)}
    for hadoop, why in missing.items():
        _say(f"No real HDFS {hadoop.version}: {why}", sys.stderr)
    for software in found.values():
        if isinstance(software, Software):
            if asked.command == "serve":
                return _serve(software.hadoop, make(software))
            runs_on = f"{software.java} is Java {software.java_version}"
            _say(f"HDFS {software.hadoop.version} is in {software.jars}; {runs_on}.")
    return 1 if missing else 0


def _serve(hadoop: Hadoop, hdfs: RealHdfs) -> int:
    _end_on_signals()
    with hdfs:
        _say("\n".join(f"{key}={value}" for key, value in _environment(hadoop, hdfs).items()))
        while True:
            time.sleep(3600)


def _run(
    argv: list[str], hadoops: Sequence[Hadoop], make: Callable[[Software], RealHdfs], *, optional: bool
) -> int:
    settings = [hadoop.variable(name) for hadoop in HADOOPS for name in ("URL", "MISSING")]
    if any(os.environ.get(name) for name in settings):  # there is one around this, or none can be had
        return _end_of(argv, _without([hadoop for hadoop in HADOOPS if hadoop not in hadoops]))
    _end_on_signals()
    environment: dict[str, str] = {}
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as running:
        for hadoop, software in installed(hadoops, _HASTY if optional else _PATIENT).items():
            try:
                if isinstance(software, Missing):
                    raise software
                hdfs = running.enter_context(make(software))
            except (Missing, OSError, RuntimeError) as error:
                _say(f"== no real HDFS {hadoop.version}: {error}", sys.stderr)
                missing[hadoop.version] = reason = str(error).splitlines()[0]
                environment[hadoop.variable("MISSING")] = f"no real HDFS {hadoop.version}: {reason} ({FETCH})"
            else:
                _say(f"== real HDFS {hadoop.version} {hdfs.fs_uri}, WebHDFS {hdfs.url}")
                environment |= _environment(hadoop, hdfs)
        if missing and not optional:
            return 1
        if missing:
            _say(f"== what needs it is skipped; to have it: {FETCH}", sys.stderr)
        code = _end_of(argv, environment)
    for version, reason in missing.items():
        _say(f"== without a real HDFS {version}: {reason}", sys.stderr)
    return code


def _without(hadoops: Sequence[Hadoop]) -> dict[str, str]:
    """Return variables that hide versions from a command."""
    names = {hadoop.variable(name) for hadoop in hadoops for name in _VARIABLES}
    return dict.fromkeys(names & os.environ.keys(), "")


def _environment(hadoop: Hadoop, hdfs: RealHdfs) -> dict[str, str]:
    values = (hdfs.url, hdfs.fs_uri, hdfs.user, str(hdfs.bin))
    return {hadoop.variable(name): value for name, value in zip(_VARIABLES, values, strict=True)}


def _end_of(argv: list[str], more: dict[str, str]) -> int:
    """Run a command and return its exit code, 128 + N where signal N ended it."""
    with subprocess.Popen(argv, env=os.environ | more) as process:
        while True:
            try:
                code = process.wait()
            except KeyboardInterrupt:  # the terminal has sent it to the command, too
                continue
            except SystemExit:
                process.terminate()
                raise
            return code if code >= 0 else 128 - code


def _say(text: str, stream: TextIO = sys.stdout) -> None:
    stream.write(f"{text}\n")
    stream.flush()


def _end_on_signals() -> None:
    """Let a signal that would end this process end what it has started first."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
