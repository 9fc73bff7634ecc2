"""Kills the process that imports it at one of its requests; counts them over all of its forks.

A change of a file on a storage counts as a request.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from urllib3.connectionpool import HTTPConnectionPool

from chaos.file_operations import intercept

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["kill_at_request"]


def kill_at_request(number: int, file: Path) -> None:
    """Let the process group be killed before its request of a number, or after the reply to it.

    A write to a file is killed in its middle, or after it.

    Args:
        number: from 1; negative: after the reply to that request; 0: no kill.
        file: that counts the requests.
    """
    counts = os.open(file, os.O_CREAT | os.O_APPEND | os.O_RDWR)

    def counted(send: Callable[..., Any], half: Callable[..., Any] | None) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            os.write(counts, b".")
            is_it = 0 < abs(number) <= os.fstat(counts).st_size  # forks may have counted together
            if is_it and number > 0:
                if half is not None:
                    half(*arguments, **options)
                os.killpg(0, signal.SIGKILL)
            try:
                return send(*arguments, **options)
            finally:
                if is_it:
                    os.killpg(0, signal.SIGKILL)

        return call

    HTTPConnectionPool._make_request = counted(  # type: ignore[method-assign]
        HTTPConnectionPool._make_request, None
    )
    intercept(counted)
