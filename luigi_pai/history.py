"""What is recorded of a task's job in its output folder: that it was submitted, and how it ended."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING

from luigi_pai.api.status import JobState
from luigi_pai.errors import PaiApiError, PaiError, PaiJobForgotten, PaiOutputElsewhere
from luigi_pai.spec.comparison import differing_fields, job_digest

if TYPE_CHECKING:
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.status import JobStatus
    from luigi_pai.outputs import Outputs
    from luigi_pai.record import Submission, SubmissionRecord
    from luigi_pai.work import Work

__all__ = ["History"]

logger = logging.getLogger("luigi-interface")

_DAYS_FROM = 72  # hours
_SHOWN = 5  # fields that differ
_COMPARED = 10  # jobs without a record whose stored config a process asks for


class History:
    """The submission record and the completion flag of a task's job.

    Where there is no HDFS for them, nothing is recorded, and ``last`` is None.

    Args:
        work: whose job it is.
        cluster: where the job runs.
        outputs: of the task.
    """

    def __init__(self, work: Work, cluster: Cluster, outputs: Outputs) -> None:
        self._work = work
        self._cluster = cluster
        self._outputs = outputs
        self._key = ("flag", work.output_folder or "", work.name)
        self._before: Submission | None = None

    @functools.cached_property
    def _record(self) -> SubmissionRecord | None:
        return self._outputs.record(self._work.name)

    @functools.cached_property
    def last(self) -> Submission | None:
        """The last submission that is recorded, None where there is none.

        Raises:
            HdfsError: HDFS did not say.
        """
        return self._record.read() if self._record is not None else None

    def shows_completion(self) -> bool:
        """Return whether a job is done that the server does not know.

        Raises:
            HdfsError: HDFS did not say.
        """
        return self._outputs.show_completion(self._work.name, submitted_here=self.last is not None)

    def shows_a_beginning(self) -> bool:
        """Return whether a job that the server does not know, and no record names, may have run before.

        Raises:
            HdfsError: HDFS did not say.
        """
        return self._outputs.show_a_beginning()

    def check_forgotten(self, on_forgotten: str) -> int:
        """Return the number of the last submission of a job that the server does not know.

        It is 0 where the job was never submitted. A submission that never reached the server
        does not count.

        Raises:
            PaiJobForgotten: the job was submitted, and how it ended is not known.
        """
        last = self.last
        if last is None:
            return 0
        if last.state in (JobState.FAILED.value, JobState.STOPPED.value):
            return last.attempt
        age = self._cluster.clock.time() - last.submitted_ms / 1000
        if last.state is None and age <= self._cluster.retention():
            return last.attempt - 1  # the record was written, and its submission never arrived
        if on_forgotten == "submit":
            logger.warning(
                "Job %s was submitted %s and forgotten by the server; on_forgotten = submit: it is submitted "
                "anew",
                last.job,
                _ago(age),
            )
            return last.attempt
        raise self._forgotten(last, age)

    def begin(self, number: int, job_name: str) -> None:
        """Record a submission that is about to be sent.

        Raises:
            HdfsError: HDFS did not take it.
        """
        if self._record is None:
            return
        from luigi_pai.record import Submission  # noqa: PLC0415  costs what only HDFS needs

        submission = Submission(
            name=self._work.name,
            attempt=number,
            job=job_name,
            cluster=self._cluster.url,
            user=self._cluster.username,
            submitted_ms=int(self._cluster.clock.time() * 1000),
            digest=job_digest(self._work.job()),
        )
        last = self.last
        if last is None or last.state is not None or last.attempt != number:
            self._before = last  # else it is of this submission, begun before: nothing to go back to
        self._record.write(submission)
        self.last = submission
        self._cluster.notes.pop(self._key)  # the command that runs may write a flag

    def refused(self) -> None:
        """Take back the last ``begin``: the server refused the job."""
        if self._record is None:
            return
        try:
            self._record.restore(self._before)
        except PaiError as error:
            logger.warning("The record %s of a refused job is left behind: %s", self._record.path, error)
        self.last = self._before

    def taken_over(self, status: JobStatus) -> None:
        """Check that a job that is there already writes to the task's output folder.

        Raises:
            PaiOutputElsewhere: it does not.
        """
        self._cluster.notes.pop(self._key)
        if self._record is not None and self.last is None:
            self._check_folder(status)

    def succeeded(self, status: JobStatus) -> None:
        """Write the completion flag, if it has a place: it outlives the server's knowledge of the job.

        What HDFS refuses here fails nobody's task: the server knows the end for hours
        yet, and the next ``complete()`` writes the flag.

        Raises:
            PaiOutputElsewhere: the job wrote to another folder than the task's.
        """
        if self._cluster.notes.get(self._key) is True:
            return
        flag = self._outputs.flag()
        if flag is None:
            self._warn_if_changed(status)
            self._cluster.notes.put(self._key, value=True)
            return
        name = self._work.name
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
                "Job %s has succeeded, but this could not be recorded on HDFS (%s); once the server forgets "
                "the job, the task would run again",
                name,
                error,
            )
        else:
            self._warn_if_changed(status)
            self._cluster.notes.put(self._key, value=True)

    def failed(self, status: JobStatus) -> None:
        """Take the job out of the completion flag: its newest submission did not succeed.

        A flag may be there all the same: the job's own command may have written
        one (Spark does) and failed afterwards.
        """
        if self._cluster.notes.get(self._key) is False:
            return
        flag = self._outputs.flag()
        if flag is None:
            return
        try:
            flag.discard(self._work.name)
            self._end(status)
        except PaiError as error:
            logger.warning(
                "The end of failed job %s could not be recorded on HDFS: %s", self._work.name, error
            )
        else:
            self._cluster.notes.put(self._key, value=False)

    def _end(self, status: JobStatus) -> None:
        if self._record is not None and self.last is not None and self.last.job == status.name:
            self.last = self._record.end(self.last, status.state.value)

    def _check_folder(self, status: JobStatus) -> None:
        """Compare the folder that the server has stored with the task's; no record vouches for it."""
        from luigi_pai.hdfs.paths import same_path  # noqa: PLC0415  costs what only HDFS needs

        mine = self._work.output_folder
        config = self._cluster.config(status.name)
        theirs = self._cluster.dialect.output_folder(config)
        if mine is None or theirs is None or same_path(mine, theirs):
            return
        ends = "wrote" if status.finished else "writes"
        raise PaiOutputElsewhere(
            f"job {status.name!r} is there already ({status.raw_state}), and it {ends} to {theirs}; "
            f"output_dir of the task is {mine}, where nothing of it is. Set output_dir back, or give the "
            "task another name to run it anew",
            status.name,
        )

    def _warn_if_changed(self, status: JobStatus) -> None:
        """Warn if the job that succeeded is another than the task describes now."""
        try:
            fields = self._changed_fields(status)
        except (PaiError, OSError, TypeError) as error:
            logger.debug("Job %s was not compared with its task: %s", status.name, error)
            return
        if fields is None:
            return
        what = f" ({', '.join(fields[:_SHOWN])}{', ...' if len(fields) > _SHOWN else ''})" if fields else ""
        logger.warning(
            "Job %s has succeeded, but the task describes another job now%s. The task counts as complete: "
            "its name is the same. To run it anew, give it another name, for example with a version in it",
            status.name,
            what,
        )

    def _changed_fields(self, status: JobStatus) -> list[str] | None:
        """Return the fields in which the task's job differs from the one that ran; None if it is the same."""
        if self._record is not None:
            if self.last is None or self.last.digest == job_digest(self._work.job()):
                return None
        elif not (self._work.compares_stored_job and self._may_compare()):
            return None
        try:
            stored = self._cluster.config(status.name)
        except PaiApiError:
            if self._record is None:
                raise
            return []
        fields = differing_fields(self._cluster.dialect.document(self._work.job_named(status.name)), stored)
        return fields or ([] if self._record is not None else None)

    def _may_compare(self) -> bool:
        compared = self._cluster.notes.get("compared") or 0
        self._cluster.notes.put("compared", compared + 1)
        return compared < _COMPARED

    def _forgotten(self, last: Submission, age: float) -> PaiJobForgotten:
        folder = self._work.output_folder
        end = "how it ended is not known"
        if last.state is not None:
            end = f"it is recorded as {last.state}, but the completion flag in its output folder is gone"
        return PaiJobForgotten(
            f"job {last.job!r} was submitted {_ago(age)} by {last.user!r}, and {self._cluster.url} no longer "
            f"knows it: {end}. Nothing was submitted\n"
            f"  its output folder: {folder}\n"
            "  if its output is complete, accept it: "
            f"touch _SUCCESS && luigi-pai put _SUCCESS '{folder}/_SUCCESS'\n"
            "  else run it anew: run the task with --OpenPai-on-forgotten submit",
            last.job,
        )


def _ago(seconds: float) -> str:
    hours = seconds / 3600
    if hours < _DAYS_FROM:
        return f"{hours:.0f} hours ago" if hours >= 1 else "less than an hour ago"
    return f"{hours / 24:.0f} days ago"
