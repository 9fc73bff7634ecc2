"""The process of Luigi that ``luigi-pai run`` starts."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

from luigi_pai.cli.failures import EXIT_USAGE, give_up, plain_failures
from luigi_pai.cli.tables import tell
from luigi_pai.cli.task_argument import check_scheduler, task_named
from luigi_pai.console import install
from luigi_pai.tasks.signals import ENDING, end_with_parent, handled

if TYPE_CHECKING:
    from types import TracebackType

PARENT = "LUIGI_PAI_RUN_PID"
"""Environment variable: the pid of ``luigi-pai run``; no argument, as Luigi locks the command line."""

_LONGEST_END = 10.0  # seconds; on_kill = stop takes 5
_RETCODES = {
    "already_running": 4,
    "missing_data": 4,
    "not_run": 4,
    "task_failed": 1,
    "scheduling_error": 4,
    "unhandled_exception": 4,
}
_LOCKED = (
    "luigi-pai run: nothing was run, because this command already runs in this folder, as the process above. "
    "Wait for its end, or end it with kill. With --no-lock both run; each job is still submitted once"
)


def main() -> None:
    """Run Luigi, quietly, with the arguments of this process, until its parent has ended."""
    parent = int(os.environ.pop(PARENT))
    sys.excepthook = _without_interrupts
    sys.argv[0] = "luigi-pai run"
    with plain_failures("run", "stopped"):  # a luigi.cfg that cannot be read, say
        import luigi.configuration  # noqa: PLC0415  the first that reads it
        import luigi.retcodes  # noqa: PLC0415

        warnings.filterwarnings("ignore", ".*no_configure_logging")  # of Luigi 3.2, which does read it
        config = luigi.configuration.get_config()
        config.set("core", "no_configure_logging", "true")
        for name, code in _RETCODES.items():
            config.set("retcode", name, str(code))
        task_named("run", sys.argv[2], sys.argv[3:])  # or the command ends here, in one line
        check_scheduler("run", sys.argv[3:])
        _set_lock_folder(config)

    install()
    _end_workers_at(handled(ENDING))
    end_with_parent(parent)
    try:
        luigi.retcodes.run_with_retcodes(sys.argv[1:])
    except SystemExit as end:
        if isinstance(end.__context__, luigi.interface.PidLockAlreadyTakenExit):
            tell(_LOCKED, err=True)
        raise


def _without_interrupts(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if kind is not KeyboardInterrupt:
        sys.__excepthook__(kind, error, trace)


def _set_lock_folder(config: Any) -> None:
    """Lock this command in this folder for this user, and not, as Luigi does, its text for the whole machine.

    Luigi writes its pid into a file of a folder in /tmp that any user may make, and follows links there.
    """
    configured = any(config.has_option("core", key) for key in ("lock_pid_dir", "lock-pid-dir"))
    if configured or "--no-lock" in sys.argv:
        return
    from luigi_pai.private_folder import private_folder  # noqa: PLC0415  unless there is a lock

    try:
        name = hashlib.sha256(os.fsencode(os.getcwd())).hexdigest()[:32]  # noqa: PTH109  bytes
        config.set("core", "lock_pid_dir", str(private_folder() / f"run-{name}"))
    except OSError as error:
        text = f"no lock can be held: {error}. Remove it, set TMPDIR to another folder, or add --no-lock"
        give_up("run", text, EXIT_USAGE)


def _end_workers_at(numbers: list[signal.Signals]) -> None:
    """Let signals end the worker processes of this Luigi too, and wait for them, before this one ends."""

    def end(number: int, _frame: Any) -> None:
        for each in numbers:  # further signals, as from a closed terminal, are ignored
            signal.signal(each, signal.SIG_IGN)
        workers = multiprocessing.active_children()
        for worker in workers:
            worker.terminate()
        deadline = time.monotonic() + _LONGEST_END
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def restore() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)

    for number in numbers:
        signal.signal(number, end)
    os.register_at_fork(after_in_child=restore)
