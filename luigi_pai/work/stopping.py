"""Stops jobs, several at once, including when a signal ends this process or Luigi's main process ends."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
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
from luigi_pai.work.submission import TRY_AGAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType

    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.work.piece import Options
    from luigi_pai.work.submission import InFlight, Submission

logger = logging.getLogger("luigi-interface")

OF_ALL = (AuthenticationError, ClusterUnreachable, ConfigError, RateLimited)
"""Errors that affect all jobs on a cluster."""

_THREADS = 16
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0  # seconds between requests to stop a job that is being submitted

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process. It gets SIGHUP when its terminal closes or its SSH connection breaks."""

_LONGEST = 5.0  # time limit in seconds for the function that is called on a signal
_STOPPED_WITHIN = 4.5  # how much of this, in seconds, is for stopping jobs
_PARENT_CHECKED = 1.0  # seconds between checks


def stop(job: Submission, end: float = 0.0) -> PaiApiError | None:
    """Ask the server to stop a job, retrying for some seconds. Return the error if the request still fails.

    Args:
        job: The job. If it is being submitted and is not on the server yet, the server is asked again.
        end: Until when to repeat the request, on the monotonic clock; by default, it is not repeated.
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
    """Ask the server to stop as many jobs as time allows, several at once, the last of ``jobs`` first.

    The request is recorded for each job that was asked to stop.

    Returns:
        the jobs that were asked to stop, and the errors for others.
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


class _Signalled(BaseException):
    """Raised when a signal arrives, so that code releases its locks and connections before ``act`` runs."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def handled(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Return the signals that this process does not ignore; ``nohup`` makes a process ignore SIGHUP."""
    return [number for number in numbers if signal.getsignal(number) not in (signal.SIG_IGN, None)]


@contextlib.contextmanager
def before_signals(act: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """On SIGTERM, SIGHUP or SIGINT, call a function and wait up to 5 s for it before the signal takes effect.

    In a worker process, the main process ending counts as SIGTERM, and is detected within a second.

    Handlers are set only in the main thread; at the end, the earlier handlers are restored. A signal that
    the process ignores stays ignored.

    Yields:
        A function to call after code that may have caught a signal's exception. If a signal has arrived,
        the function raises the exception again.
    """
    came: list[int] = []

    def check() -> None:
        if came:
            raise _Signalled(came[0])

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    before = {number: signal.getsignal(number) for number in handled((*ENDING, signal.SIGINT))}

    def raise_it(number: int, _: FrameType | None) -> None:
        came.append(number)
        for other in before:  # ignored, because after a Ctrl-C, Luigi's main process also sends SIGTERM
            signal.signal(other, signal.SIG_IGN)
        raise _Signalled(number)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    over = threading.Event()
    for number in before:
        signal.signal(number, raise_it)
    try:
        end_with_main_process(over)
        yield check
    except _Signalled as signalled:
        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        thread.join(_LONGEST)
        restore()
        os.kill(os.getpid(), signalled.number)
        raise KeyboardInterrupt from None  # the restored handler did not end the process
    finally:
        over.set()
        restore()


def end_with_main_process(over: threading.Event | None = None) -> None:
    """Send SIGTERM to this worker process when the main process ends for any reason.

    Args:
        over: Set when the main process no longer matters.
    """
    main = multiprocessing.parent_process()
    if main is None or main.pid is None or multiprocessing.get_start_method() == "forkserver":
        return
    parent, waited = main.pid, over or threading.Event()

    def wait() -> None:
        while os.getppid() == parent:
            if waited.wait(_PARENT_CHECKED):
                return
        if not waited.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="end-with-main-process", daemon=True).start()


def interrupt(in_flight: InFlight, options: Options) -> None:
    """Stop an interrupted run's job if ``on_kill`` is ``stop``; otherwise, log that the job continues."""
    in_flight.close()
    for job in in_flight.jobs():
        why = ""
        if options["on_kill"] == "stop":
            stopped, problems = stop_jobs([job], _STOPPED_WITHIN)
            if stopped:
                logger.warning("Interrupted: job %s was asked to stop", job.name)
                continue
            problem = str(problems[0]) if problems else "no response in time"
            why = f"job {job.name} could not be stopped ({problem}): "
        rest = f"job {job.name} may have been submitted; {TRY_AGAIN}"
        logger.warning("Interrupted: %s%s", why, continues(job.book.api, job.name) if job.is_there else rest)


def continues(api: RestApi, name: str) -> str:
    """Return the message for a job that continues."""
    page = api.page(name)
    return f"job {name} continues ({page}); to take it over, run the task again; to stop it, use its page"
