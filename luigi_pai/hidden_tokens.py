"""Tokens that stand in addresses are kept out of what urllib3 logs.

A DataNode of a kerberized HDFS is asked with ``delegation=``, the log of a task with
``token=`` or, where it is kept in Azure, ``sig=``. urllib3 logs the addresses that it
asks, and warns with them when a connection breaks.
"""

from __future__ import annotations

import logging
import re

__all__ = ["hide_tokens"]

_TOKEN = re.compile(r"\b((?:delegation|token|sig)=)[^&\s'\"]+")


class _HideTokens(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Return True, when the tokens are gone."""
        text = record.getMessage()
        hidden = _TOKEN.sub(r"\1...", text)
        if hidden != text:
            record.msg, record.args = hidden, None
        return True


_FILTER = _HideTokens()


def hide_tokens() -> None:
    """See to it; once is enough."""
    for name in ("urllib3.connectionpool", "urllib3.util.retry"):
        logging.getLogger(name).addFilter(_FILTER)  # logging keeps a filter once
