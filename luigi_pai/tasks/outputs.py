"""A task's outputs: its folder and targets, and what in them outlives the server's knowledge of its job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import luigi
import luigi.task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.hdfs import WebHdfs
    from luigi_pai.tasks.record import CompletionFlag, SubmissionRecord

__all__ = ["Outputs", "overridden_targets"]


def overridden_targets(task: luigi.Task, default: type[luigi.Task]) -> list[luigi.Target]:
    """Return the targets of a task's ``output()``, flat; nothing where that is the one of a class."""
    if type(task).output is default.output:
        return []
    targets: list[luigi.Target] = luigi.task.flatten(task.output())
    return targets


class Outputs:
    """The output folder of a job, and the targets of a task with an ``output()`` of its own.

    Where the output folder is on the HDFS that is configured, the completion flag
    lies in it, and the flag alone tells whether the work was done. Where there is
    no place for a flag, Luigi's own rule holds: the work is done if there are
    targets and all of them exist.

    Args:
        hdfs: the cluster's HDFS, None where none is configured.
        folder: the output folder; None for a job without one.
        targets: returns what the task's own ``output()`` returns, flat; nothing
            where the task has none: what it shows then is the folder.
    """

    def __init__(
        self, hdfs: WebHdfs | None, folder: str | None, targets: Callable[[], Sequence[luigi.Target]]
    ) -> None:
        self._hdfs = hdfs
        self._folder = folder
        self._targets = targets

    def completion_flag(self) -> CompletionFlag | None:
        """Return the completion flag, None where there is no place for one."""
        hdfs = self.hdfs_of(self._folder)
        if hdfs is None or self._folder is None:
            return None
        from luigi_pai.tasks.record import CompletionFlag  # noqa: PLC0415  costs what only HDFS needs

        return CompletionFlag(hdfs, self._folder)

    def submission_record(self, job: str) -> SubmissionRecord | None:
        """Return the record of a job's submissions, None where there is no place for one."""
        hdfs = self.hdfs_of(self._folder)
        if hdfs is None or self._folder is None:
            return None
        from luigi_pai.tasks.record import SubmissionRecord  # noqa: PLC0415  as above

        return SubmissionRecord(hdfs, self._folder, job)

    def hdfs_of(self, folder: str | None) -> WebHdfs | None:
        """Return the HDFS that a folder is on, None where it is elsewhere or no HDFS is configured.

        A folder is elsewhere if it is written with a scheme of another file system
        (``file:``, ``s3:``), or if ``output()`` has a LocalTarget at or below it: it
        is then a folder of a mount that has the same path in the containers.
        """
        if self._hdfs is None or folder is None:
            return None
        from luigi_pai.hdfs.paths import is_foreign  # noqa: PLC0415  as above

        return None if is_foreign(folder) or self._is_local(folder) else self._hdfs

    def are_complete(self, job: str, *, submitted_here: bool) -> bool:
        """Return whether a job is done that the server does not know.

        Args:
            job: the name of the work.
            submitted_here: there is a record of its submission.

        Raises:
            HdfsError: HDFS did not say.
        """
        flag = self.completion_flag()
        if flag is not None:
            return flag.holds(job, submitted_here=submitted_here)
        targets = self._checkable_targets()
        return bool(targets) and all(target.exists() for target in targets)

    def any_exists(self) -> bool:
        """Return whether there is anything of a job that the server does not know: it may have run before.

        Raises:
            HdfsError: HDFS did not say.
        """
        hdfs = self.hdfs_of(self._folder)
        if hdfs is not None and self._folder is not None:
            return bool(hdfs.exists(self._folder))
        return any(target.exists() for target in self._checkable_targets())

    def completion_fallback(self) -> str:
        """Say how long the end of a job is known if there is no flag."""
        why = "webhdfs_url is not set in [OpenPai]"
        if self._folder is None:
            why = "it has no output folder that is known here"
        elif self._hdfs is not None:
            why = f"the output folder {self._folder} is not on HDFS"
        if self._checkable_targets():
            return f"{why}: when the server has forgotten it, it is complete if all its outputs exist"
        return f"{why}: its end is remembered only as long as the server does"

    def _is_local(self, folder: str) -> bool:
        inside = f"{folder.rstrip('/')}/"
        local = (target for target in self._targets() if isinstance(target, luigi.LocalTarget))
        return any(f"{target.path}/".startswith(inside) for target in local)

    def _checkable_targets(self) -> Sequence[luigi.Target]:
        """Return the targets; nothing where one of them is on HDFS and no HDFS is configured."""
        targets = self._targets()
        contrib: Any = sys.modules.get("luigi.contrib.hdfs")  # not loaded: no target can be one of its
        if self._hdfs is None and contrib and any(isinstance(each, contrib.HdfsTarget) for each in targets):
            return ()
        return targets
