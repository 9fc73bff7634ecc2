"""Run targets of the Makefile side by side, and say at the end what came of each, and how long it took.

``side_by_side.py TARGET...`` runs ``make TARGET`` (``$MAKE``) for each. Its output goes to build/TARGET.log,
and is shown when it has ended, without the dots of pytest's progress. The exit code is 1 if any failed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_LOGS = Path("build")
_PROGRESS = re.compile(r"^[.sxXFER]+\s*(\[\s*\d+%\])?$\n?", re.MULTILINE)
_COUNTS = re.compile(r"^=* ?((?:\d+ \w+(?:, )?)+) in [\d.]+s.*$", re.MULTILINE)  # of pytest
_PAUSE = 0.1  # seconds


@dataclass
class Part:
    """A target that runs.

    Attributes:
        name: of the target.
        process: of make.
        log: what it writes to.
        seconds: that it took; None while it runs.
    """

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    seconds: float | None = None

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
                if part.seconds is None and part.process.poll() is not None:
                    part.seconds = time.monotonic() - began
                    _say(
                        f"\n== {part.name}\n{_PROGRESS.sub('', part.log.read_text(errors='replace')).strip()}"
                    )
            time.sleep(_PAUSE)
    except KeyboardInterrupt:  # the terminal has sent it to the targets, too
        for part in parts:
            part.process.wait()
        return 130
    except BaseException:
        for part in parts:
            part.process.terminate()
        raise
    _say("\n== summary\n" + "\n".join(part.summary() for part in parts))
    return int(any(part.process.returncode != 0 for part in parts))


def _start(target: str) -> Part:
    log = _LOGS / f"{target}.log"
    output: IO[bytes]
    with log.open("wb") as output:
        command = [os.environ.get("MAKE", "make"), "--no-print-directory", target]
        return Part(target, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT), log)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
