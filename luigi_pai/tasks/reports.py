"""Reads a job's reports, which its containers write with ``luigi_pai.runtime.report``."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from requests import RequestException

from luigi_pai.files.errors import HdfsError, missing_ok
from luigi_pai.runtime import REPORTS, attempt_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from luigi_pai.api.clock import Clock
    from luigi_pai.files.file_system import FileSystem

logger = logging.getLogger("luigi-interface")

INTERVAL = 10.0
"""Seconds between two reads of the reports; containers send reports at the same interval."""

_TAIL = 65536  # how many bytes to read at the end of a file
_GROWN = 1024 * 1024  # how many bytes a file may have grown since its folder was listed
_FILES = 8  # how many of the most recently changed files to search for the newest report
_OWN: dict[str, type | tuple[type, ...]] = {"time": (int, float), "attempt": int}
"""Keys that the runtime adds to each report, with the types of their values."""
_NOT_SHOWN = (*_OWN, "steps", "progress")


def shown(report: Mapping[str, Any]) -> str:
    """Return a report's values in readable form: ``step=10 loss=0.3``."""
    return " ".join(f"{key}={value}" for key, value in report.items() if key not in _NOT_SHOWN)


def percentage_of(report: Mapping[str, Any]) -> int | None:
    """Return ``step`` of ``steps``, else ``progress`` (0 to 1), as a percentage; None if both are missing."""
    progress, step, steps = (report.get(key) for key in ("progress", "step", "steps"))
    try:
        if isinstance(step, int | float) and isinstance(steps, int | float) and steps > 0:
            progress = step / steps
        return round(100 * min(max(progress, 0.0), 1.0)) if isinstance(progress, int | float) else None
    except (ValueError, OverflowError):  # NaN, or a number too large to divide
        return None


class Reports:
    """A job's reports, read from its output folder.

    Args:
        fs: The output folder's file system.
        folder: The output folder.
        clock: Measures the time until the reports are read again.
        callback: Calls one of the Luigi worker's callbacks; arguments: its name, its argument.
    """

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        clock: Clock,
        callback: Callable[[str, object], object],
    ) -> None:
        self._fs = fs
        self._folder = folder
        self._clock = clock
        self._callback = callback
        self._next = clock.monotonic() + INTERVAL
        self._failure = ""  # the last error that was logged

    def show(self, job: str, summary: str) -> None:
        """Show a job's newest report on Luigi's web page, as status message and progress.

        Args:
            job: The job's name.
            summary: The start of the message.
        """
        report = self.newest(job)
        if report is None:
            return
        values, percentage = shown(report), percentage_of(report)
        self._callback("set_status_message", f"{summary}; {values}" if values else summary)
        if percentage is not None:
            self._callback("set_progress_percentage", percentage)

    def newest(self, job: str) -> Mapping[str, Any] | None:
        """Return the newest report; None if there is none or the last read was less than ``INTERVAL`` s ago.

        A job may have thousands of tasks, so only the eight most recently changed files are read. File errors
        are only logged (at DEBUG level; a repeated error once), because the job does not depend on reports.
        """
        if self._clock.monotonic() < self._next:
            return None
        self._next = self._clock.monotonic() + INTERVAL
        try:
            found = read_reports(self._fs, self._folder, attempt_of(job)[1], most=_FILES)
        except (HdfsError, RequestException) as error:
            if str(error) != self._failure:
                logger.debug("Job %s: its reports cannot be read: %s", job, error)
                self._failure = str(error)
            return None
        return found[-1] if found else None


def read_reports(
    fs: FileSystem, folder: str, attempt: int | None = None, *, most: int | None = None
) -> list[dict[str, Any]]:
    """Return the newest reports of a submission's containers, oldest first.

    Args:
        fs: The folder's file system.
        folder: The job's output folder.
        attempt: The submission's number; by default, the last submission that reported anything.
        most: The maximum number of files to read, most recently changed first; by default, all.

    Returns:
        the reports in the last 64 KB of each container's file; an empty list if there are no reports.

    Raises:
        HdfsError: the file system failed.
    """
    found: list[dict[str, Any]] = []
    with missing_ok():
        entries = fs.listdir(f"{folder.rstrip('/')}/{REPORTS}", include_size=True, include_time=True)
        files = sorted(entries, key=lambda entry: entry[2], reverse=True)[:most]
        found = [values for path, size, _changed in files for values in _lines(fs, path, size)]
    if attempt is None:
        attempt = max((values["attempt"] for values in found), default=1)
    return sorted((each for each in found if each["attempt"] == attempt), key=lambda each: each["time"])


def _lines(fs: FileSystem, path: str, size: int) -> Iterator[dict[str, Any]]:
    """Yield the reports at the end of a file."""
    volume, place = fs.at(path)
    data = volume.read_part(place, max(0, size - _TAIL), _TAIL + _GROWN)
    lines = data.decode("utf-8", "replace").split("\n")[:-1]
    for line in lines:
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):  # the line is truncated or is not a report
            continue
        if isinstance(values, dict) and all(isinstance(values.get(key), _OWN[key]) for key in _OWN):
            yield values
