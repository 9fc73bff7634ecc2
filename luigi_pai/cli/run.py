"""``luigi-pai run``: a task with a quiet console, and a progress line on a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import IO, TYPE_CHECKING, Any

import click

from luigi_pai.cli.failures import EXIT_FAILED
from luigi_pai.cli.job_argument import on_cluster
from luigi_pai.cli.luigi_process import PARENT
from luigi_pai.cli.tables import is_terminal
from luigi_pai.cli.task_argument import TaskCommand
from luigi_pai.console import PROGRESS_FD, progress_pipe
from luigi_pai.durations import duration
from luigi_pai.python_process import python_command
from luigi_pai.redaction import printable
from luigi_pai.tasks.signals import ENDING, handled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
_REDRAWN = 1.0
_BAR = 20  # characters


@click.command(
    cls=TaskCommand,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@click.argument("module")
@click.argument("task")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--param VALUE]...")
@on_cluster
def run(module: str, task: str, arguments: Sequence[str]) -> None:
    """Run TASK of MODULE as `luigi --module MODULE TASK ...` does, and show what its jobs do.

    A line for each change of a job, and on a terminal a progress line below; a failure is shown
    by the job's own error. Ctrl-C, SIGTERM or SIGHUP ends Luigi: jobs go on, or are stopped, as on_kill
    says, and the next run takes them over. --cluster stands before MODULE: after it, it is a parameter of
    TASK. Exit code 0: all is done; 1: a job failed, or the task did; 2: there is no such module,
    task or parameter, or no scheduler of Luigi; 4: something could not be run.
    """
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)  # noqa: FBT003  a positional argument of os
    environment = {**os.environ, PROGRESS_FD: progress_pipe(writing), PARENT: str(os.getpid())}
    command = python_command("luigi_pai.cli.luigi_process", "--module", module, task, *arguments)
    with subprocess.Popen(  # noqa: S603  Luigi, with the user's own words
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(writing,),
    ) as luigi:
        os.close(writing)
        with open(reading, "rb", buffering=0) as events:  # noqa: PTH123  a file descriptor
            assert luigi.stdout is not None
            with _signals_left_to(luigi):
                _show(luigi, luigi.stdout, events)
                code = luigi.wait()
    sys.exit(code if code >= 0 else EXIT_FAILED)


@contextlib.contextmanager
def _signals_left_to(luigi: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave Ctrl-C to Luigi, to which a terminal sends it too, and pass SIGTERM and SIGHUP on to it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    before = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    for number in handled(ENDING):
        before[number] = signal.signal(number, lambda number, _frame: luigi.send_signal(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(luigi: subprocess.Popen[bytes], output: IO[bytes], events: IO[bytes]) -> None:
    """Copy lines to standard output until Luigi has ended, with the progress below them on a terminal."""
    progress = _Progress()
    streams = {output.fileno(): progress.above, events.fileno(): progress.note}
    rest = dict.fromkeys(streams, b"")
    with selectors.DefaultSelector() as selector:
        for number in streams:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(_REDRAWN)
            for key, _ in ready:
                part = os.read(key.fd, 65536)
                *lines, rest[key.fd] = (rest[key.fd] + part).split(b"\n")
                for line in lines:
                    streams[key.fd](line)
                if not part:
                    selector.unregister(key.fd)
            progress.draw()
            if luigi.poll() is not None and not ready:
                break  # a job of the user's own may hold the pipes open
    if rest[output.fileno()]:  # a last line without its end
        progress.above(rest[output.fileno()])
    progress.clear()


class _Progress:
    """The progress line: how many jobs are in which state, and a bar for each sweep."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._sweeps: dict[str, dict[str, Any]] = {}
        self._began = time.monotonic()
        self._shown = ""

    def note(self, event: bytes) -> None:
        """Take the change of a job, or where a sweep stands."""
        change = json.loads(event)
        if "sweep" in change:
            self._sweeps[change["sweep"]] = change
        else:
            self._states[change["job"]] = change["state"]

    def above(self, line: bytes) -> None:
        """Print a line above the progress line."""
        self.clear()
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    def draw(self) -> None:
        """Draw the line anew, on a terminal."""
        if not is_terminal() or not (self._states or self._sweeps):
            return
        states = list(self._states.values())
        counts = {"done": states.count("SUCCEEDED")}
        counts["failed"] = states.count("FAILED") + states.count("STOPPED")
        counts["waiting"] = states.count("WAITING")
        counts["running"] = sum(state not in (*_ENDED, "WAITING") for state in states)
        parts = [f"{count} {what}" for what, count in counts.items() if count]
        parts += [_bar(sweep) for sweep in self._sweeps.values()]
        width = shutil.get_terminal_size().columns - 1
        text = f"{duration(time.monotonic() - self._began)}: {printable(', '.join(parts))}"[:width]
        if text != self._shown:
            self.clear()
            sys.stdout.write(text)
            sys.stdout.flush()
            self._shown = text

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            sys.stdout.write(f"\r{' ' * len(self._shown)}\r")
            sys.stdout.flush()
            self._shown = ""


def _bar(sweep: Mapping[str, Any]) -> str:
    """Return where a sweep stands: ``Study [####------] 40/100, 8 running, best accuracy 0.97``."""
    ended, total = sweep["done"] + sweep["failed"] + sweep["pruned"], sweep["total"]
    filled = round(_BAR * ended / total) if total else 0
    bar = f" [{'#' * filled}{'-' * (_BAR - filled)}] {ended}/{total}" if total else f" {ended} ended"
    counts = [f"{sweep[what]} {what}" for what in ("running", "waiting", "failed", "pruned") if sweep[what]]
    return ", ".join([f"{sweep['sweep']}{bar}", *counts, *filter(None, [sweep["best"]])])
