"""Attempts: the submissions of one run, and whether another one follows a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.api.job_failure import NEXT_SUBMISSION
from luigi_pai.api.status import JobState

if TYPE_CHECKING:
    from luigi_pai.api.watcher import Update
    from luigi_pai.tasks.task_settings import TaskSettings

__all__ = ["Attempts"]


class Attempts:
    """The attempts of one run: the submission that it took over, if any, and those that it made.

    Args:
        settings: of the task.

    Attributes:
        made: how many there were.
    """

    def __init__(self, settings: TaskSettings) -> None:
        self._settings = settings
        self.made = 0

    def another_follows(self, update: Update) -> bool:
        """Return whether the run submits the job again after this end of it."""
        return self._obstacle(update) is None

    def next_step(self, update: Update) -> str:
        """Return the last line of the error for this end: what happens next, after how many attempts."""
        most = self._settings["max_attempts"]
        if most == 1:
            return NEXT_SUBMISSION
        obstacle = self._obstacle(update)
        if obstacle is None:
            return f"attempt {self.made} of {most} of this run; the job is submitted again"
        return f"attempt {self.made} of {most} of this run, the last one: {obstacle}; {NEXT_SUBMISSION}"

    def _obstacle(self, update: Update) -> str | None:
        """Return why no further attempt follows; None if one does."""
        status = update.status
        if update.missed is not None:
            return f"{update.missed.value} was missed"
        if status.state is JobState.STOPPED:
            return "the job was stopped"
        if self.made >= self._settings["max_attempts"]:
            return "there are no more (max_attempts)"
        if not self._settings.is_retried((status.exit_code, status.command_exit_code)):
            return "its exit code is not in retry_exit_codes"
        return None
