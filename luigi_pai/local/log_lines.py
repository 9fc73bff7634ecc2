"""The lines of ``server.log``: one that a client sends text into begins no line of its own."""

from __future__ import annotations

import logging
import re
from typing import Any

__all__ = ["LogLines"]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class LogLines(logging.Formatter):
    """Time and message on one line, control characters as Python writes them; a traceback below, indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line."""
        return _shown(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the traceback, whose last lines may be of a client, too."""
        return "\n".join(f"  {_shown(line)}" for line in super().formatException(ei).splitlines())


def _shown(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
