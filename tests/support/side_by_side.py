"""Run targets of the Makefile side by side, and say at the end what came of each, and how long it took.

``side_by_side.py TARGET...`` runs ``make TARGET`` (``$MAKE``) for each. Its output goes to build/TARGET.log,
and is shown when it has ended, without the dots of pytest's progress. A test that fails is named at once. The
exit code is 1 if any target failed. SIGTERM ends the targets, and the tests that failed are listed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_LOGS = Path("build")
_PROGRESS = re.compile(r"^[.sxXFER]+\s*(\[\s*\d+%\])?$\n?", re.MULTILINE)
_COUNTS = re.compile(r"^=* ?((?:\d+ \w+(?:, )?)+) in [\d.]+s.*$", re.MULTILINE)  # of pytest
_FAILURE = re.compile(r"^(?:FAILED|ERROR) \S+::.*$", re.MULTILINE)  # of pytest
_PAUSE = 0.1  # seconds
_PATIENCE = 3.0  # seconds until a target that does not end is killed


@dataclass
class Part:
    """A target that runs.

    Attributes:
        name: of the target.
        process: of make.
        log: what it writes to.
        seconds: that it took; None while it runs.
        failures: the lines of its tests that failed.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    seconds: float | None = None
    failures: list[str] = field(default_factory=list)

    def new_failures(self) -> list[str]:
        """Return the lines of tests that have failed since the last call."""
        written = self.log.read_text(errors="replace")
        lines = _FAILURE.findall(written[: written.rfind("\n") + 1])
        new = [line for line in dict.fromkeys(lines) if line not in self.failures]
        self.failures += new
        return new

    def end(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def summary(self) -> str:
        """Return one line: its name, verdict, time, and pytest's counts."""
        verdict = "passed" if self.process.returncode == 0 else "FAILED"
        minutes, seconds = divmod(round(self.seconds or 0), 60)
        counts = _COUNTS.findall(self.log.read_text(errors="replace"))
        return f"{self.name:<12} {verdict}  {minutes}:{seconds:02} min  {', '.join(counts)}".rstrip()


def main(targets: list[str]) -> int:
    """Run the targets and return the exit code."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # ends the targets first
    _LOGS.mkdir(exist_ok=True)
    _say(f"== {', '.join(targets)} side by side; to follow them: tail -f {_LOGS}/*.log")
    began = time.monotonic()
    parts = [_start(target) for target in targets]
    try:
        while any(part.seconds is None for part in parts):
            for part in parts:
                for line in part.new_failures():
                    _say(f"{part.name}: {line}")
                if part.seconds is None and part.process.poll() is not None:
                    part.seconds = time.monotonic() - began
                    _say(
                        f"\n== {part.name}\n{_PROGRESS.sub('', part.log.read_text(errors='replace')).strip()}"
                    )
            time.sleep(_PAUSE)
    except (KeyboardInterrupt, SystemExit) as ended:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end(parts)
        return ended.code if isinstance(ended, SystemExit) and isinstance(ended.code, int) else 130
    _say("\n== summary\n" + "\n".join(part.summary() for part in parts))
    return int(any(part.process.returncode != 0 for part in parts))


def _end(parts: list[Part]) -> None:
    """End the targets that run, and list what has failed."""
    for part in parts:
        part.end(signal.SIGTERM)
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and any(part.process.poll() is None for part in parts):
        time.sleep(_PAUSE)
    for part in parts:
        part.end(signal.SIGKILL)
        part.new_failures()
    failed = [f"{part.name}: {line}" for part in parts for line in part.failures]
    _say("\n== interrupted\n" + ("\n".join(failed) or "no test has failed so far"))


def _start(target: str) -> Part:
    log = _LOGS / f"{target}.log"
    output: IO[bytes]
    with log.open("wb") as output:
        command = [os.environ.get("MAKE", "make"), "--no-print-directory", target]
        return Part(target, _started(command, output), log)


def _started(command: list[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a command in a group of its own, so that a signal reaches all its processes."""
    return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
