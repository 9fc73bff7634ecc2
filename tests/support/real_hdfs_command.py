"""Fetch a real HDFS, serve it, or run a command beside it."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from typing import TextIO

from real_hdfs import Missing, RealHdfs, Software, installed

FETCH = "make fetch-real-hdfs"
_PATIENT, _HASTY = 1800.0, 180.0  # seconds to fetch in: when asked for, and on the way to the tests


def main() -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch", help="fetch its software, if it is not there")
    serve = commands.add_parser("serve", help="serve until Ctrl-C")
    run = commands.add_parser("run", help="run a command with HDFS_TEST_URL, _FS_URI, _USER and _BIN set")
    run.add_argument("--optional", action="store_true", help="run it without where there is no real HDFS")
    for one in (serve, run):
        one.add_argument("--datanodes", type=int, default=1, metavar="N")
    run.add_argument("argv", nargs="+", metavar="COMMAND", help="after --")
    asked = parser.parse_args()
    if asked.command == "run":
        return _run(asked.argv, asked.datanodes, optional=asked.optional)
    try:
        software = installed(_PATIENT)
    except Missing as missing:
        _say(f"No real HDFS: {missing}", sys.stderr)
        return 1
    if asked.command == "serve":
        return _serve(software, asked.datanodes)
    _say(f"Its software is in {software.home}; {software.java} is Java {software.java_version}.")
    return 0


def _serve(software: Software, datanodes: int) -> int:
    _end_on_signals()
    with RealHdfs(software, datanodes=datanodes) as hdfs:
        _say("\n".join(f"{key}={value}" for key, value in _environment(hdfs).items()))
        while True:
            time.sleep(3600)


def _run(argv: list[str], datanodes: int, *, optional: bool) -> int:
    if os.environ.get("HDFS_TEST_URL") or os.environ.get("HDFS_TEST_MISSING"):  # there is one around this
        return _end_of(argv, {})
    try:
        software = installed(_HASTY if optional else _PATIENT)
        _end_on_signals()
        with RealHdfs(software, datanodes=datanodes) as hdfs:
            _say(f"== real HDFS {hdfs.fs_uri}, WebHDFS {hdfs.url}")
            return _end_of(argv, _environment(hdfs))
    except (Missing, OSError, RuntimeError) as error:
        _say(f"== no real HDFS: {error}", sys.stderr)
        if not optional:
            return 1
        _say(f"== what needs it is skipped; to have it: {FETCH}", sys.stderr)
        reason = str(error).splitlines()[0]
        code = _end_of(argv, {"HDFS_TEST_MISSING": f"no real HDFS: {reason} ({FETCH})"})
        _say(f"== without a real HDFS: {reason}", sys.stderr)
        return code


def _environment(hdfs: RealHdfs) -> dict[str, str]:
    return {
        "HDFS_TEST_URL": hdfs.url,
        "HDFS_TEST_FS_URI": hdfs.fs_uri,
        "HDFS_TEST_USER": hdfs.user,
        "HDFS_TEST_BIN": str(hdfs.bin),
    }


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
