"""``luigi-pai run``: runs a task with little console output and, on a terminal, a progress line.

The progress line shows the number of jobs in each state, and a bar for each sweep.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import shutil
import signal
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING, Any, TextIO

import click

from luigi_pai.cli.failures import EXIT_FAILED, complain, give_up, plain_failures
from luigi_pai.cli.job_argument import on_cluster
from luigi_pai.cli.tables import is_terminal
from luigi_pai.cli.task_argument import TaskCommand, check_scheduler, task_named
from luigi_pai.console import install, report_progress_to
from luigi_pai.durations import duration
from luigi_pai.private_folder import private_folder
from luigi_pai.redaction import printable
from luigi_pai.work.stopping import ENDING, end_with_main_process, handled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_RETCODES = {
    "already_running": 4,
    "missing_data": 4,
    "not_run": 4,
    "task_failed": 1,
    "scheduling_error": 4,
    "unhandled_exception": 4,
}
_LOCKED = (
    "nothing was run, because the process above is already running this command in this folder. "
    "Wait for it, or end it with kill. With --no-lock, both run; each job is still submitted once"
)


@click.command(cls=TaskCommand)
@click.argument("module")
@click.argument("task")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--param VALUE]...")
@on_cluster
def run(module: str, task: str, arguments: Sequence[str]) -> None:
    """Run TASK in MODULE like `luigi --module MODULE TASK ...`, and show the progress of its jobs.

    Each change in a job is one line; on a terminal, a progress line follows. If a job fails, its
    error is shown. Ctrl-C, SIGTERM or SIGHUP ends Luigi. If on_kill is leave, jobs continue,
    and the next run takes them over; if on_kill is stop, they are stopped. Put --cluster before
    MODULE; anything after MODULE is passed to TASK. Exit code: 0 if everything is done; 1 if a
    job or the task failed; 2 if the module, task, parameter or Luigi scheduler does not exist;
    4 if something could not be run.
    """
    words = [task, *arguments]
    sys.argv[0] = "luigi-pai run"
    with plain_failures():  # for example, if luigi.cfg cannot be read
        import luigi.configuration  # noqa: PLC0415  reads luigi.cfg
        import luigi.retcodes  # noqa: PLC0415

        config = luigi.configuration.get_config()
        for name, code in _RETCODES.items():
            config.set("retcode", name, str(code))
        task_named(module, words)  # exits if there is no such task
        check_scheduler(words)
        if "--no-lock" not in words:
            _set_lock_folder(config)

    _interrupt_at(handled(ENDING))
    luigi.Task.event_handler(luigi.Event.START)(lambda _task: end_with_main_process())
    try:
        with progress_line() if is_terminal() else contextlib.nullcontext():
            install()
            luigi.retcodes.run_with_retcodes(["--module", module, *words])
    except SystemExit as end:
        if isinstance(end.__context__, luigi.interface.PidLockAlreadyTakenExit):
            complain(_LOCKED)
        raise
    except KeyboardInterrupt:
        sys.exit(EXIT_FAILED)


def _set_lock_folder(config: Any) -> None:
    """Make Luigi's lock against a second run of the same command line apply to this user and folder only.

    By default, the lock applies to the whole machine: Luigi writes its pid to a folder in /tmp. Any user can
    create that folder, and Luigi follows symbolic links in it.
    """
    if any(config.has_option("core", key) for key in ("lock_pid_dir", "lock-pid-dir")):
        return
    try:
        name = hashlib.sha256(os.fsencode(os.getcwd())).hexdigest()[:32]  # noqa: PTH109  bytes
        config.set("core", "lock_pid_dir", str(private_folder() / f"run-{name}"))
    except OSError as error:
        problem = f"cannot lock this run: {error}. Remove it, set TMPDIR to another folder, or add --no-lock"
        give_up(problem)


def _interrupt_at(numbers: list[signal.Signals]) -> None:
    """Make the first of these signals act like Ctrl-C, so that Luigi stops its workers."""

    def interrupt(_number: int, _frame: Any) -> None:
        for each in numbers:  # ignore further signals, because a closed terminal may send several
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    def restore() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)

    for number in numbers:
        signal.signal(number, interrupt)
    os.register_at_fork(after_in_child=restore)


_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
_REDRAWN = 1.0  # seconds
_BAR = 20  # characters


@contextlib.contextmanager
def progress_line() -> Iterator[None]:
    """Draw the progress of this process and its forks below their output on the terminal."""
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
    """Redraw the line after each event and every second, and remove it at the end."""
    progress, shown = Progress(), ""
    with open(reading, "rb", buffering=0) as pipe:
        while not over.is_set():
            if select.select([pipe], [], [], _REDRAWN)[0]:
                for line in os.read(reading, 65536).splitlines():
                    progress.record(json.loads(line))
            if (latest := progress.line()) != shown:
                terminal.write(f"{_cleared()}{textwrap.shorten(latest, _columns(), placeholder=' ...')}")
                terminal.flush()
                shown = latest
    terminal.write(_cleared() if shown else "")
    terminal.flush()


def _columns() -> int:
    return shutil.get_terminal_size().columns - 1


def _cleared() -> str:
    return f"\r{' ' * _columns()}\r"


class _AboveProgress:
    """A stream whose output replaces the progress line, which is then redrawn below."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begins_line = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, string: str) -> int:
        """Write a string; if it starts a line, remove the progress line first."""
        before = _cleared() if self._begins_line else ""
        self._begins_line = string.endswith("\n")
        return self._stream.write(before + string)


class Progress:
    """The states of the jobs, and the progress of each sweep."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._sweeps: dict[str, dict[str, Any]] = {}
        self._began = time.monotonic()

    def record(self, change: dict[str, Any]) -> None:
        """Record the new state of a job, or the progress of a sweep."""
        if "sweep" in change:
            self._sweeps[change["sweep"]] = change
        else:
            self._states[change["job"]] = change["state"]

    def line(self) -> str:
        """Return the progress line; empty before the first change."""
        if not (self._states or self._sweeps):
            return ""
        states = list(self._states.values())
        counts = {"done": states.count("SUCCEEDED")}
        counts["failed"] = states.count("FAILED") + states.count("STOPPED")
        counts["waiting"] = states.count("WAITING")
        counts["running"] = sum(state not in (*_ENDED, "WAITING") for state in states)
        parts = [f"{count} {state}" for state, count in counts.items() if count]
        parts += [_bar(sweep) for sweep in self._sweeps.values()]
        return f"{duration(time.monotonic() - self._began)}: {printable(', '.join(parts))}"


def _bar(sweep: Mapping[str, Any]) -> str:
    """Return the progress of a sweep: ``Study [####------] 40/100, 8 running, best accuracy 0.97``."""
    ended, total = sweep["done"] + sweep["failed"] + sweep["pruned"], sweep["total"]
    filled = round(_BAR * ended / total) if total else 0
    bar = f" [{'#' * filled}{'-' * (_BAR - filled)}] {ended}/{total}" if total else f" {ended} ended"
    states = ("running", "waiting", "failed", "pruned")
    counts = [f"{sweep[state]} {state}" for state in states if sweep[state]]
    return ", ".join([f"{sweep['sweep']}{bar}", *counts, *filter(None, [sweep["best"]])])
