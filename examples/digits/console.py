"""The console output of the demo: states of jobs and errors, without Luigi's own INFO lines."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

from luigi_pai.errors import PaiError

if TYPE_CHECKING:
    from types import TracebackType


class Console(logging.StreamHandler):
    """Writes to stdout, without INFO lines of Luigi itself."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is shown."""
        from_luigi = record.name == "luigi-interface" and "/luigi_pai/" not in record.pathname
        return record.levelno > logging.INFO or not from_luigi


class Short(logging.Formatter):
    """Formats errors of luigi_pai without traceback."""

    def formatException(  # noqa: N802  its name in logging
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        """Return the text of an error."""
        return str(ei[1]) if isinstance(ei[1], PaiError) else super().formatException(ei)


def quiet_on_ctrl_c(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print no traceback after Ctrl-C: the jobs continue, and the next run takes them over."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = quiet_on_ctrl_c
os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # Luigi's workers
