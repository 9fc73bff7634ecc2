"""The progress line of ``luigi-pai run``: how many jobs are in which state, and a bar for each sweep."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING, Any, TextIO

from luigi_pai.console import report_progress_to
from luigi_pai.durations import duration
from luigi_pai.redaction import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
_REDRAWN = 1.0  # seconds
_BAR = 20  # characters


@contextlib.contextmanager
def progress_line() -> Iterator[None]:
    """Draw the progress of this process and its forks below all that they print on the terminal."""
    terminal = sys.stdout
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    over = threading.Event()
    drawing = threading.Thread(target=_draw, args=(reading, terminal, over), daemon=True)
    drawing.start()
    report_progress_to(writing)
    try:
        with (
            contextlib.redirect_stdout(_AboveProgress(terminal)),
            contextlib.redirect_stderr(_AboveProgress(sys.stderr)),
        ):
            yield
    finally:
        over.set()
        drawing.join()


def _draw(reading: int, terminal: TextIO, over: threading.Event) -> None:
    """Draw the line anew after each event and each second, and remove it at the end."""
    progress, shown = Progress(), ""
    with open(reading, "rb", buffering=0) as pipe:
        while not over.is_set():
            if select.select([pipe], [], [], _REDRAWN)[0]:
                for line in os.read(reading, 65536).splitlines():
                    progress.note(json.loads(line))
            if (text := progress.text()) != shown:
                terminal.write(f"{_cleared()}{textwrap.shorten(text, _columns(), placeholder=' ...')}")
                terminal.flush()
                shown = text
    terminal.write(_cleared() if shown else "")
    terminal.flush()


def _columns() -> int:
    return shutil.get_terminal_size().columns - 1


def _cleared() -> str:
    return f"\r{' ' * _columns()}\r"


class _AboveProgress:
    """A stream whose lines replace the progress line, which is drawn anew below them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begins_line = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text; if it begins a line, remove the progress line first."""
        before = _cleared() if self._begins_line else ""
        self._begins_line = text.endswith("\n")
        return self._stream.write(before + text)


class Progress:
    """The states of the jobs, and the progress of each sweep."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._sweeps: dict[str, dict[str, Any]] = {}
        self._began = time.monotonic()

    def note(self, change: dict[str, Any]) -> None:
        """Record the new state of a job, or the progress of a sweep."""
        if "sweep" in change:
            self._sweeps[change["sweep"]] = change
        else:
            self._states[change["job"]] = change["state"]

    def text(self) -> str:
        """Return the line; empty before the first change."""
        if not (self._states or self._sweeps):
            return ""
        states = list(self._states.values())
        counts = {"done": states.count("SUCCEEDED")}
        counts["failed"] = states.count("FAILED") + states.count("STOPPED")
        counts["waiting"] = states.count("WAITING")
        counts["running"] = sum(state not in (*_ENDED, "WAITING") for state in states)
        parts = [f"{count} {what}" for what, count in counts.items() if count]
        parts += [_bar(sweep) for sweep in self._sweeps.values()]
        return f"{duration(time.monotonic() - self._began)}: {printable(', '.join(parts))}"


def _bar(sweep: Mapping[str, Any]) -> str:
    """Return the progress of a sweep: ``Study [####------] 40/100, 8 running, best accuracy 0.97``."""
    ended, total = sweep["done"] + sweep["failed"] + sweep["pruned"], sweep["total"]
    filled = round(_BAR * ended / total) if total else 0
    bar = f" [{'#' * filled}{'-' * (_BAR - filled)}] {ended}/{total}" if total else f" {ended} ended"
    counts = [f"{sweep[what]} {what}" for what in ("running", "waiting", "failed", "pruned") if sweep[what]]
    return ", ".join([f"{sweep['sweep']}{bar}", *counts, *filter(None, [sweep["best"]])])
