"""Asks the server to stop jobs, several at once, including jobs that are being submitted."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from luigi_pai.errors import (
    AuthenticationError,
    ClusterUnreachable,
    ConfigError,
    JobNotFound,
    PaiApiError,
    RateLimited,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.work.submission import Submission

OF_ALL = (AuthenticationError, ClusterUnreachable, ConfigError, RateLimited)
"""Errors that concern all jobs of a cluster."""

_THREADS = 16
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0  # seconds between requests to stop a job that is being submitted


def stop(job: Submission, end: float = 0.0) -> PaiApiError | None:
    """Ask the server to stop a job; retry for some seconds. Return the error if the request still fails.

    Args:
        job: The job. If it is being submitted and not there yet, the server is asked again.
        end: The time of the monotonic clock until which the request is repeated; by default, it is not
            repeated.
    """
    pause = _FIRST_PAUSE
    while True:
        was_there = job.is_there
        try:
            job.book.api.stop_surely(job.name)
        except JobNotFound as error:
            if was_there:
                return None
            if job.is_over or time.monotonic() + pause >= end:
                return error
        except PaiApiError as error:
            return error
        else:
            return None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def stop_jobs(jobs: Sequence[Submission], seconds: float) -> tuple[list[Submission], list[PaiApiError]]:
    """Ask the server to stop as many jobs as the time allows, several at once, the last of ``jobs`` first.

    The request is recorded for each job that was asked to stop.

    Returns:
        the jobs that were asked to stop, and the errors of others.
    """
    asked: list[Submission] = []
    problems: list[PaiApiError] = []
    left, end = list(jobs), time.monotonic() + seconds

    def work() -> None:
        with contextlib.suppress(IndexError):
            while True:
                error = stop(job := left.pop(), end)
                if error is None:
                    asked.append(job)
                    job.stop_sent()
                else:
                    problems.append(error)
                if isinstance(error, OF_ALL):  # all other requests would also fail, perhaps slowly
                    left.clear()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_THREADS, len(left)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return list(asked), list(problems)
