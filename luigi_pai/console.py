"""A quiet console: a line for each change of a job, and failures as the job's own error.

One line of luigi.cfg does it for every ``luigi`` command, ``console = quiet`` in [OpenPai]; for a script,
``luigi_pai.console.install()`` before ``luigi.build``; ``luigi-pai run`` has it, with a progress line.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, TextIO

from luigi_pai.errors import PaiError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

__all__ = ["PROGRESS_FD", "Console", "install", "note_progress"]

PROGRESS_FD = "LUIGI_PAI_PROGRESS_FD"
"""Environment variable: number of a pipe, to which each change of a job is written as a line of JSON."""

_OF_LUIGI = "luigi-interface"
_INSTALLED = "_luigi_pai_console"


class Console(logging.StreamHandler[Any]):
    """Shows what luigi_pai and the user's tasks log, and everybody's warnings and errors.

    Args:
        stream: where to; standard output where not given.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream or sys.stdout)
        self.setFormatter(_Short("%(asctime)s  %(message)s", "%H:%M:%S"))

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is shown: Luigi's own only from WARNING on."""
        from_luigi = record.name == _OF_LUIGI and not hasattr(record, "job") and "/luigi/" in record.pathname
        return record.levelno > logging.INFO or not from_luigi

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record; a change of a job is written to the progress pipe, too, if there is one."""
        super().emit(record)
        job = getattr(record, "job", None)
        if isinstance(job, dict):
            note_progress(job)


def note_progress(event: Mapping[str, Any]) -> None:
    """Write an event to the progress pipe, if there is one.

    Args:
        event: ``job`` and ``state`` of a job, or ``sweep``, ``total`` and the counts of a sweep.
    """
    pipe = os.environ.get(PROGRESS_FD)
    if pipe and pipe.isdecimal():
        try:
            os.write(int(pipe), (json.dumps(event) + "\n").encode())
        except OSError:
            os.environ.pop(PROGRESS_FD, None)  # nobody reads it any more


class _Short(logging.Formatter):
    """Shows an error of luigi_pai by its own text, which is written to be read alone."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record; of a failed task, the error in place of Luigi's words about it."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, PaiError):
            return f"{self.formatTime(record, self.datefmt)}  {error}"
        return super().format(record)


def install(stream: TextIO | None = None) -> None:
    """Show the log of this process and its forks by a ``Console``, in place of what writes to a terminal.

    Handlers that write to files stay. Ctrl-C shows no traceback: it is no error, and the jobs go on,
    or are stopped, as ``on_kill`` says.

    Args:
        stream: where to; standard output where not given.
    """
    root, luigi_logger = logging.getLogger(), logging.getLogger(_OF_LUIGI)
    if getattr(root, _INSTALLED, False):
        return
    setattr(root, _INSTALLED, True)
    for logger in (root, luigi_logger):
        for handler in list(logger.handlers):
            if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
                logger.removeHandler(handler)
    luigi_logger.setLevel(min(luigi_logger.level or logging.INFO, logging.INFO))
    luigi_logger.propagate = True
    root.addHandler(Console(stream))
    root.setLevel(min(root.level, logging.WARNING) or logging.WARNING)
    sys.excepthook = _quiet_on_ctrl_c
    os.register_at_fork(after_in_child=_end_at_ctrl_c)


def _quiet_on_ctrl_c(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


def _end_at_ctrl_c() -> None:
    """Let Ctrl-C end a worker process of Luigi without a traceback, unless somebody handles it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
