"""A quiet console: one line each time a job changes. Failures show only the job's or your code's error.

``console = quiet`` in [OpenPai] of luigi.cfg enables it for every ``luigi`` command. In a script, call
``luigi_pai.console.install()`` before ``luigi.build``. ``luigi-pai run`` also shows a progress line.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import re
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from luigi_pai.errors import PaiError, SpecError
from luigi_pai.redaction import escape_what_is_not_encodable, printable, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

_IN_COMPLETE = re.compile(
    r"(Will not run .*) or any dependencies due to error in \w+\(\) method:\n.*\n"
    r"(?:luigi_pai\.[\w.]+: |FileNotFoundError: \[Errno 2\] (?=protocol of ))(.*)",
    re.DOTALL,
)
_SUMMARY = re.compile(
    r"\s*===== Luigi Execution Summary =====\s+Scheduled (\d+) tasks of which:\n"
    r"\* (\d+) complete ones were encountered:\n.*",
    re.DOTALL,
)
_FAILED = re.compile(r"\[pid \d+\] Worker Worker\(.*\) failed +(.*)")  # in Luigi's log
_LONGEST = 300  # maximum characters in an error's line
_MARGIN = len("HH:MM:SS  ")
_HEADING = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'  File "(?P<file>[^"]*)", line \d+.*\n(?:    .*\n)*')
_OF_LUIGI = "luigi-interface"
_INSTALLED = "_luigi_pai_console"


class Console(logging.StreamHandler):  # type: ignore[type-arg]  # has no parameters before Python 3.11
    """Prints the log, including the user's own tasks, but not Luigi's INFO records and urllib3's warnings.

    Args:
        stream: The output; standard output by default.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream or sys.stdout)
        escape_what_is_not_encodable(self.stream)
        self.setFormatter(_Short())

    def format(self, record: logging.LogRecord) -> str:
        """Format a record. On a terminal, long lines are wrapped between words."""
        line = super().format(record)
        return line[:_MARGIN] + wrapped(" " * _MARGIN + line[_MARGIN:], self.stream)[_MARGIN:]

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to print a record. Of Luigi's INFO records, only "all tasks complete" is printed."""
        if record.name.startswith("urllib3.") and record.levelno < logging.ERROR:
            return False  # it announces a retry; if the last retry fails, luigi_pai raises an error
        from_luigi = record.name == _OF_LUIGI and not hasattr(record, "job") and "/luigi/" in record.pathname
        return record.levelno > logging.INFO or not from_luigi or bool(_all_complete(record.getMessage()))

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record. If it reports a job's change, also write the change to the progress pipe."""
        super().emit(record)
        job = getattr(record, "job", None)
        if isinstance(job, dict):
            note_progress(job)


_progress_pipe: int | None = None


def report_progress_to(pipe: int) -> None:
    """Make this process and its forks write job and sweep changes to a non-blocking pipe, as JSON."""
    global _progress_pipe  # noqa: PLW0603  one console for the one root logger
    _progress_pipe = pipe


def note_progress(event: Mapping[str, Any]) -> None:
    """Write an event to the progress pipe, if there is such a pipe.

    An event about a job has the keys ``job`` and ``state``. An event about a sweep has the keys ``sweep``,
    ``total``, ``best``, and a key for each count, such as ``running``.
    """
    if _progress_pipe is not None:
        with contextlib.suppress(OSError):  # the pipe's reader has exited, or the pipe is full
            os.write(_progress_pipe, (json.dumps(event) + "\n").encode())


class _Short(logging.Formatter):
    """Formats luigi_pai errors without a traceback, because the message is sufficient."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record. A luigi_pai error replaces Luigi's message about it."""
        return printable(f"{self.formatTime(record, '%H:%M:%S')}  {self._message(record)}")

    def _message(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if record.exc_info:
            if isinstance(record.exc_info[1], PaiError):
                return str(record.exc_info[1])
            failed = _FAILED.sub(r"\1 failed:", message)
            return shortened(f"{failed}\n{self.formatException(record.exc_info)}")
        if count := _all_complete(message):
            return f"Nothing to run: {f'{count} tasks are' if count > 1 else 'the task is'} complete"
        if in_complete := _IN_COMPLETE.fullmatch(message.rstrip()):
            return f"{in_complete[1]}: {in_complete[2]}"
        return shortened(message) if "\nTraceback (" in message else message


def _all_complete(message: str) -> int:
    """Return the number of tasks in Luigi's summary if all were already complete; otherwise 0."""
    found = _SUMMARY.fullmatch(message)
    return int(found[1]) if found and found[1] == found[2] else 0


def install(stream: TextIO | None = None) -> None:
    """Make a ``Console`` print the log of this process and its forks instead of other stream handlers.

    File handlers are kept. On Ctrl-C, no traceback is printed; ``on_kill`` decides whether jobs
    continue or are stopped.

    Args:
        stream: The output; standard output by default.
    """
    root, luigi_logger = logging.getLogger(), logging.getLogger(_OF_LUIGI)
    if getattr(root, _INSTALLED, False):
        return
    setattr(root, _INSTALLED, True)
    _keep_luigi_from_logging()
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


def _keep_luigi_from_logging() -> None:
    """Keep a later luigi.build from adding a log handler, unless the user has a logging configuration."""
    import luigi.configuration  # noqa: PLC0415  loads Luigi

    config = luigi.configuration.get_config()
    if not config.get("core", "logging_conf_file", ""):
        config.set("core", "no_configure_logging", "true")
        warnings.filterwarnings("ignore", ".*no_configure_logging")  # Luigi 3.2 warns of an unused option


def _quiet_on_ctrl_c(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


def _end_at_ctrl_c() -> None:
    """Make Ctrl-C end a Luigi worker process without a traceback, if SIGINT has Python's handler."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def first_line(error: BaseException) -> str:
    """Return an error's first line, or all problems in a SpecError, printable and shortened."""
    message = "; ".join(map(str, error.problems)) if isinstance(error, SpecError) else str(error)
    lines = printable(message).strip().splitlines() or [type(error).__name__]
    return lines[0] if len(lines[0]) <= _LONGEST else f"{lines[0][:_LONGEST]} ..."


def is_users(error: BaseException) -> bool:
    """Return whether an error's traceback has a frame in the user's code."""
    return _users_frame(error) is not None


def _users_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Return the last frame in a traceback that is in the user's code; None if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(_not_theirs()) and "site-packages" not in frame.filename:
            return frame
    return None


def user_error(error: BaseException, function: str = "", *, whole_path: bool = False) -> str:
    """Return a line about an error in the user's code: ``tell() raised KeyError: 'x' (study.py:12)``.

    ``function`` is ``tell()`` in this example; it may be empty. If ``whole_path``, the full path of the file
    is shown.
    """
    raised = f"{function} raised " if function else ""
    frame = _users_frame(error)
    is_ours = isinstance(error, PaiError) or (frame is None and isinstance(error, ValueError))
    kind = "" if is_ours else f"{type(error).__name__}: "
    file = "" if frame is None else frame.filename if whole_path else Path(frame.filename).name
    place = f" ({file}:{frame.lineno})" if frame is not None and not isinstance(error, SyntaxError) else ""
    return f"{raised}{kind}{first_line(error)}{place}"


def shortened(message: str) -> str:
    """Remove Luigi's and this package's frames from the tracebacks in a message.

    If no frames are left, the message is returned unchanged: the error is in Luigi or this package.
    """

    def kept(frame: re.Match[str]) -> str:
        return "" if frame["file"].startswith(_not_theirs()) else frame[0]

    short = _FRAME.sub(kept, message)
    return short.replace(_HEADING, "") if _FRAME.search(short) else message


@functools.cache
def _not_theirs() -> tuple[str, ...]:
    """Return path prefixes for code that is not the user's: luigi_pai, Luigi, functools, frozen modules."""
    import luigi  # noqa: PLC0415  slow to load; only commands that run user code need it

    folders = [str(Path(file).resolve().parent) + os.sep for file in (__file__, luigi.__file__)]
    return (*folders, functools.__file__, "<frozen")
