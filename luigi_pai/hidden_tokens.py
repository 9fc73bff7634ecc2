"""Tokens in URLs are redacted in what urllib3 logs, and in error texts.

A DataNode of a kerberized HDFS is asked with ``delegation=``, the log of a task with
``token=`` or, where it is kept in Azure, ``sig=``. urllib3 logs the addresses that it
asks, and warns with them when a connection breaks.
"""

from __future__ import annotations

import logging
import re

__all__ = ["hide_tokens", "redact"]

_TOKEN = re.compile(r"\b((?:delegation|token|sig)=)[^&\s'\"]+")


def redact(text: str) -> str:
    """Return a text with ``...`` in place of each token in a URL."""
    return _TOKEN.sub(r"\1...", text)


class _Redactor(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record, and keep it."""
        text = record.getMessage()
        redacted = redact(text)
        if redacted != text:
            record.msg, record.args = redacted, None
        return True


_FILTER = _Redactor()


def hide_tokens() -> None:
    """Redact what urllib3 logs in this process; to be called once or more often."""
    for name in ("urllib3.connectionpool", "urllib3.util.retry"):
        logging.getLogger(name).addFilter(_FILTER)  # logging keeps a filter once
