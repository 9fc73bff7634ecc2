"""History: the submission record and the completion flag of a task's job, written and checked."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

from luigi_pai.api.status import JobState
from luigi_pai.config_file import cluster_option
from luigi_pai.errors import PaiApiError, PaiError, PaiJobError, PaiJobForgotten, PaiOutputElsewhere
from luigi_pai.spec.comparison import differing_fields, job_digest

if TYPE_CHECKING:
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.status import JobStatus
    from luigi_pai.tasks.definition import JobDefinition
    from luigi_pai.tasks.outputs import Outputs
    from luigi_pai.tasks.record import Submission, SubmissionRecord
    from luigi_pai.tasks.task_settings import TaskSettings

__all__ = ["History", "RunsInArrayError"]

logger = logging.getLogger("luigi-interface")

_DAYS_FROM = 72  # hours
_SHOWN = 5  # fields that differ
_COMPARED = 10  # jobs without a record whose stored config a process requests


class RunsInArrayError(PaiJobError):
    """A task's job waits or runs as an instance of an array."""

    @classmethod
    def of(cls, name: str, status: JobStatus, page: str) -> RunsInArrayError:
        """Return the error.

        Args:
            name: of the task's job.
            status: of the instance, under the name of the array.
            page: of the array.
        """
        return cls(
            f"job {name!r} was not submitted: it is {status.raw_state} as a part of job {status.name!r}, "
            f"which has several points of a sweep ({page}); run the sweep, or run the task again when that "
            "job has ended",
            status.name,
        )


class History:
    """The submission record and the completion flag of a task's job.

    Without an output folder on HDFS nothing is recorded, and ``last`` is None.

    Args:
        definition: of the job.
        cluster: of the job.
        outputs: of the task.
        settings: of the task.
    """

    def __init__(
        self, definition: JobDefinition, cluster: Cluster, outputs: Outputs, settings: TaskSettings
    ) -> None:
        self._definition = definition
        self._cluster = cluster
        self._outputs = outputs
        self._settings = settings
        self._key = ("flag", definition.output_folder or "", definition.name)
        self._before: Submission | None = None

    @functools.cached_property
    def _record(self) -> SubmissionRecord | None:
        return self._outputs.submission_record(self._definition.name)

    @functools.cached_property
    def last(self) -> Submission | None:
        """The last recorded submission; None if there is none.

        Raises:
            HdfsError: HDFS failed.
        """
        return self._record.read() if self._record is not None else None

    def is_completed(self) -> bool:
        """Return whether the outputs are complete, for a job that the server does not know.

        Raises:
            HdfsError: HDFS failed.
        """
        return self._outputs.are_complete(self._definition.name, submitted_here=self.last is not None)

    def may_have_run(self) -> bool:
        """Return whether a job without a record, and unknown to the server, may have run before.

        Raises:
            HdfsError: HDFS failed.
        """
        return self._outputs.any_exists()

    def last_submission_number(self, on_forgotten: str) -> int:
        """Return the number of the last submission of a job that the server no longer knows.

        It is 0 if the job was never submitted. A submission that did not reach the server does not count.

        Raises:
            PaiJobForgotten: the job was submitted, and its result is not known.
        """
        last = self.last
        if last is None:
            return 0
        if last.state in (JobState.FAILED.value, JobState.STOPPED.value):
            return last.number
        age = self._cluster.clock.time() - last.submitted_ms / 1000
        if last.state is None and last.cluster == self._cluster.url and age <= self._cluster.retention():
            return last.number - 1  # the record was written, but the submission did not reach the server
        if on_forgotten == "submit":
            logger.warning(
                "Job %s was submitted %s and the server no longer knows it; it is submitted again, because "
                "on_forgotten = submit",
                last.job,
                _ago(age),
            )
            return last.number
        raise self._forgotten(last, age)

    def record_submission(self, number: int, job_name: str) -> None:
        """Record a submission before it is sent.

        Raises:
            HdfsError: HDFS failed.
        """
        if self._record is None:
            return
        from luigi_pai.tasks.record import Submission  # noqa: PLC0415  only needed with HDFS

        submission = Submission(
            name=self._definition.name,
            number=number,
            job=job_name,
            cluster=self._cluster.url,
            user=self._cluster.username,
            submitted_ms=int(self._cluster.clock.time() * 1000),
            digest=job_digest(self._definition.job()),
        )
        last = self.last
        if last is None or last.state is not None or last.number != number:
            self._before = last  # else it is the record of this same submission
        self._record.write(submission)
        self.last = submission
        self._cluster.cache.pop(self._key)  # the job's command may write a flag

    def undo_submission(self) -> None:
        """Undo the last ``record_submission``: the server refused the job."""
        if self._record is None:
            return
        try:
            self._record.restore(self._before)
        except PaiError as error:
            logger.warning(
                "The record %s of a refused job could not be removed: %s", self._record.path, error
            )
        self.last = self._before

    def check_taken_over(self, status: JobStatus) -> None:
        """Check that an existing job writes to the task's output folder.

        Raises:
            PaiOutputElsewhere: it writes to another one.
        """
        self._cluster.cache.pop(self._key)
        if self._record is not None and self.last is None:
            self._check_folder(status)

    def lacks_end(self, status: JobStatus) -> bool:
        """Return whether the last recorded submission is this ended job, and its end is not recorded.

        Raises:
            HdfsError: HDFS failed.
        """
        last = self.last
        return last is not None and last.job == status.name and last.state is None and status.finished

    def record_success(self, status: JobStatus) -> None:
        """Write the completion flag, if the output folder is on HDFS.

        An error of HDFS is logged and does not fail the task: the server knows the job for hours more,
        and the next ``complete()`` writes the flag.

        Raises:
            PaiOutputElsewhere: the job wrote to another output folder.
        """
        if self._cluster.cache.get(self._key) is True:
            return
        flag = self._outputs.completion_flag()
        if flag is None:
            self._warn_if_changed(status)
            self._cluster.cache.put(self._key, value=True)
            return
        name = self._definition.name
        try:
            if not flag.holds(name, submitted_here=self.last is not None):
                if self.last is None:
                    self._check_folder(status)
                flag.add(name)
            self._end(status)
        except PaiOutputElsewhere:
            raise
        except PaiError as error:
            logger.warning(
                "Job %s has succeeded, but this could not be recorded on HDFS (%s); once the server no "
                "longer knows the job, the task would run again",
                name,
                error,
            )
        else:
            self._warn_if_changed(status)
            self._cluster.cache.put(self._key, value=True)

    def record_failure(self, status: JobStatus) -> None:
        """Remove the job from the completion flag: its latest submission did not succeed.

        There may be a flag: the job's own command may have written it (Spark does) before it failed.
        """
        if self._cluster.cache.get(self._key) is False:
            return
        flag = self._outputs.completion_flag()
        if flag is None:
            return
        try:
            flag.discard(self._definition.name)
            self._end(status)
        except PaiError as error:
            logger.warning(
                "The end of failed job %s could not be recorded on HDFS: %s", self._definition.name, error
            )
        else:
            self._cluster.cache.put(self._key, value=False)

    def _end(self, status: JobStatus) -> None:
        if self._record is not None and self.last is not None and self.last.job == status.name:
            self.last = self._record.end(self.last, status.state.value)

    def _check_folder(self, status: JobStatus) -> None:
        """Compare the output folder that the server has stored with that of the task."""
        from luigi_pai.hdfs.paths import same_path  # noqa: PLC0415  only needed with HDFS

        mine = self._definition.output_folder
        config = self._cluster.config(status.name)
        theirs = self._cluster.dialect.output_folder(config)
        if mine is None or theirs is None or same_path(mine, theirs):
            return
        verb = "wrote" if status.finished else "writes"
        raise PaiOutputElsewhere(
            f"job {status.name!r} already exists ({status.raw_state}), and it {verb} to {theirs}; "
            f"output_dir of the task is {mine}, which does not contain its output. Restore output_dir, or "
            "run the task under another name",
            status.name,
        )

    def _warn_if_changed(self, status: JobStatus) -> None:
        """Warn if the job that succeeded differs from the task's current definition."""
        try:
            fields = self._changed_fields(status)
        except (PaiError, OSError, TypeError) as error:
            logger.debug("Job %s was not compared with its task: %s", status.name, error)
            return
        if fields is None:
            return
        what = f" ({', '.join(fields[:_SHOWN])}{', ...' if len(fields) > _SHOWN else ''})" if fields else ""
        logger.warning(
            "Job %s has succeeded, but the task's definition has changed since%s. The task is complete: its "
            "name is the same. To run it again, change the name, for example with a version number",
            status.name,
            what,
        )

    def _changed_fields(self, status: JobStatus) -> list[str] | None:
        """Return the fields in which the task's job differs from the one that ran; None if there are none."""
        if self._record is not None:
            if self.last is None or self.last.digest == job_digest(self._definition.job()):
                return None
        elif not (self._definition.compares_stored_job and self._may_compare()):
            return None
        try:
            stored = self._cluster.config(status.name)
        except PaiApiError:
            if self._record is None:
                raise
            return []
        mine = self._definition.job_for(status.name, self._cluster.dialect.version, self._settings.notify)
        fields = differing_fields(self._cluster.dialect.document(mine), stored)
        return fields or ([] if self._record is not None else None)

    def _may_compare(self) -> bool:
        compared = self._cluster.cache.get("compared") or 0
        self._cluster.cache.put("compared", compared + 1)
        return compared < _COMPARED

    def _forgotten(self, last: Submission, age: float) -> PaiJobForgotten:
        folder = self._definition.output_folder
        end = "its result is not known"
        there = "" if last.cluster == self._cluster.url else f" to {last.cluster}"
        knows = "does not know" if there else "no longer knows"
        option = cluster_option(self._cluster.section)
        if last.state is not None:
            end = f"its recorded state is {last.state}, but the completion flag in its output folder is gone"
        return PaiJobForgotten(
            f"job {last.job!r} was submitted{there} {_ago(age)} by {last.user!r}, and {self._cluster.url} "
            f"{knows} it: {end}. Nothing was submitted\n"
            f"  output folder: {folder}\n"
            "  to accept its output as complete: "
            f"touch _SUCCESS && luigi-pai put{option} _SUCCESS '{folder}/_SUCCESS'\n"
            "  to run it again: run the task with --OpenPai-on-forgotten submit",
            last.job,
        )


def _ago(seconds: float) -> str:
    hours = seconds / 3600
    if hours < _DAYS_FROM:
        return f"{hours:.0f} hours ago" if hours >= 1 else "less than an hour ago"
    return f"{hours / 24:.0f} days ago"
