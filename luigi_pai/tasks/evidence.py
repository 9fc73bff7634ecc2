"""Evidence: claims, completion flag and outputs of a job, used when the server does not know the job."""

from __future__ import annotations

import functools
import logging
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from luigi_pai.api.status import JobState
from luigi_pai.errors import PaiError, PaiOutputElsewhere
from luigi_pai.tasks.refusals import ago, check_folder, forgotten

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.retries import Retry
    from luigi_pai.api.status import JobStatus
    from luigi_pai.tasks.claims import Claim, Claims, ClaimStore
    from luigi_pai.tasks.definition import Definition, TaskJob
    from luigi_pai.tasks.flag import CompletionFlag
    from luigi_pai.tasks.outputs import Outputs

logger = logging.getLogger("luigi-interface")

_SHOWN = 5  # changed fields in a warning
_FRESH = 30.0  # seconds for which cached claims are valid for a new run


@dataclass(slots=True)
class _Known:
    """A process's cache: a job's last claim, when the claim was read, and the job's last recorded end."""

    claim: Claim | None = None
    read_at: float = -math.inf
    end: tuple[int, str] | None = None  # of the submission: number, state


class Evidence:
    """Information about a task's job that its server does not have. ``Book`` uses it in lookups.

    If the output folder is not on HDFS, there is no completion flag, and all claims are in ``claims``. If the
    folder is on HDFS, a job takes 14 HDFS requests: 4 in complete(), 2 in run() before the claim, 3 for the
    claim, and 5 at the end.

    Args:
        definition: of the job.
        outputs: of the task.
        book: of the cluster.
        jobs: the task's job.
        claims: stores the claims if the output folder is not on HDFS, else copies of the claims on HDFS.
    """

    def __init__(
        self,
        definition: Definition,
        outputs: Outputs,
        book: Book,
        jobs: TaskJob,
        claims: ClaimStore | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._sleep = sleep or book.api.clock.sleep
        self._definition = definition
        self._outputs = outputs
        self._book = book
        self._jobs = jobs
        self._other_claims = claims
        self._mine: Claim | None = None  # the last claim that this run has made or tried to make
        self._known = book.remembered(("evidence", definition.name, definition.folder), _Known)
        if book.api.clock.monotonic() - self._known.read_at > _FRESH:
            self._known.read_at = -math.inf

    @property
    def _claims(self) -> ClaimStore | None:
        return self._hdfs_claims or self._other_claims

    @functools.cached_property
    def _hdfs_claims(self) -> Claims | None:
        if self._outputs.hdfs is None:
            return None
        from luigi_pai.tasks.claims import Claims  # noqa: PLC0415  costs what only HDFS needs

        return Claims(self._outputs.hdfs, str(self._definition.folder), self._definition.name)

    @functools.cached_property
    def _flag(self) -> CompletionFlag | None:
        if self._outputs.hdfs is None:
            return None
        from luigi_pai.tasks.flag import CompletionFlag  # noqa: PLC0415  as above

        return CompletionFlag(self._outputs.hdfs, str(self._definition.folder))

    @property
    def has_flag(self) -> bool:
        """Whether there can be a completion flag."""
        return self._flag is not None

    # what is there

    def last(self) -> Claim | None:
        """Return the last claimed submission; None if there is none.

        Raises:
            HdfsError: HDFS failed.
        """
        if self._claims is not None and self._known.read_at == -math.inf:
            self._take(self._claims.last())
        return self._known.claim

    def _take(self, claim: Claim | None) -> None:
        self._known.claim, self._known.read_at = claim, self._book.api.clock.monotonic()

    def may_have_run(self) -> bool:
        """Return whether outputs exist, so that a job without a claim may have run before.

        Raises:
            HdfsError: HDFS failed.
        """
        return self._outputs.any_exists()

    def is_complete(self) -> bool:
        """Return whether the outputs are complete, for a job that the server does not know.

        Raises:
            HdfsError: HDFS failed.
        """
        if self._flag is None:
            return self._outputs.are_complete()
        return self._flag.holds(self._definition.name, submitted_here=self.last() is not None)

    # before and after a submission

    def next_number(self, entry: Entry | None, on_forgotten: str) -> int:
        """Return the number of the next submission: 1, or the number of the last submission plus 1.

        If the last claim is younger than the server's retention time, and the server does not know the
        claimed job, this job has not reached the server. So the number of the claim is used again. If the job
        arrives after all, the server accepts only one of the two submissions, because their names are equal.

        Raises:
            PaiJobForgotten: the job was submitted, and its result is not known.
        """
        claim = self.last()
        if entry is None or entry.status is not None or entry.void or claim is None:
            return 1 if entry is None else entry.number + 1
        has_stopped = claim.state is None and claim.stop_sent
        if has_stopped or claim.state in (JobState.FAILED.value, JobState.STOPPED.value):
            return claim.number + 1
        api = self._book.api
        age = api.clock.time() - claim.claimed_ms / 1000
        if claim.state is None and claim.cluster == api.url and age <= api.retention():
            logger.warning(
                "Job %s was claimed %s, but the server does not know it: it is submitted again",
                claim.job,
                ago(age),
            )
            return claim.number
        if on_forgotten == "submit":
            logger.warning(
                "Job %s was submitted %s and the server no longer knows it; it is submitted again, because "
                "on_forgotten = submit",
                claim.job,
                ago(age),
            )
            return claim.number + 1
        raise forgotten(claim, age, self._definition.folder, api)

    def claim(self, number: int, job_name: str) -> str:
        """Claim a submission before it is sent; return the name of the job that it is claimed for.

        This is ``job_name``, or the name of another job for which another process has claimed the submission.

        Raises:
            HdfsError: HDFS failed.
        """
        if self._claims is None:
            return job_name
        from luigi_pai.tasks.claims import Claim, claim_once  # noqa: PLC0415  costs what only HDFS needs

        known = self._known.claim
        api = self._book.api
        mine = Claim(
            name=self._definition.name,
            number=number,
            job=job_name,
            cluster=api.url,
            user=api.username,
            claimed_ms=int(api.clock.time() * 1000),
            digest=self._jobs.digest,
        )
        held = claim_once(self._claims, mine, api, self._sleep)
        is_to_post = held.token == mine.token or (known is not None and known.number == number)
        if number > 1 and self._flag is not None and is_to_post and held.state is None:
            # Only now, because before the claim another process may submit this job and set the flag.
            self._flag.discard(self._definition.name)
        if held.job == job_name and self._other_claims not in (None, self._claims):
            self._other_claims.replace(held)
        self._take(held)
        self._mine = mine
        return held.job

    def posted(self, status: JobStatus) -> None:
        """Replace an earlier claim of the submission if the posted job differs from the claimed job.

        If several processes post a name at once, 1.8 and LTP answer 202 to each and store one of the jobs. If
        the server has stored another job, the earlier claim stays, and a warning says so.
        """
        held, mine = self._known.claim, self._mine
        if self._claims is None or held is None or mine is None or held.digest == mine.digest:
            return
        try:
            if self._jobs.differing_fields(status.name):
                self.check_taken_over(status)
            else:
                self._take(self._claims.replace(mine))
        except PaiError as error:
            logger.warning("The claim of job %s could not be renewed: %s", mine.job, error)

    def release(self) -> None:
        """Remove the claim of this run, because the job was not submitted."""
        claim = self._known.claim
        if self._claims is None or claim is None or self._mine is None or claim.token != self._mine.token:
            return
        try:
            self._claims.release(claim)
        except PaiError as error:
            logger.warning("The claim of a refused job could not be removed: %s", error)
        self._known.claim, self._known.read_at = None, -math.inf

    def check_taken_over(self, status: JobStatus) -> None:
        """Without a claim, check the job's output folder; with a claim, warn if the task's job has changed.

        Raises:
            PaiOutputElsewhere: the job writes to another folder.
        """
        if self._claims is None:
            return
        claim = self.last()
        if claim is None:
            if self._flag is not None:
                check_folder(status, self._definition.folder, self._book.api)
        elif claim.job == status.name and claim.digest != self._jobs.digest:
            logger.warning(
                "Job %s was submitted with another definition than the task has now; it runs as it was "
                "submitted. To run the new one, change the name, for example with a version number",
                status.name,
            )

    def with_start(self, status: JobStatus) -> JobStatus:
        """Return a job's status; if the job runs and its server sends no start time, add one from the claim.

        The added time is when a lookup first found the job running after its last retry by the cluster.
        The claim records this time for a later process that takes the job over.
        """
        claim, claims = self._known.claim, self._hdfs_claims
        if status.state is not JobState.RUNNING or status.launched_ms is not None:
            return status
        if claims is None or claim is None or claim.job != status.name:
            return status
        if claim.runs_since is None or claim.runs_since[0] != status.retries:
            moment = int(self._book.api.clock.time() * 1000)
            self._known.claim = replace(claim, runs_since=(status.retries, moment))
            try:
                claims.runs(claim, status.retries, moment)
            except PaiError as error:
                logger.debug("When job %s began to run could not be recorded: %s", status.name, error)
        else:
            moment = claim.runs_since[1]
        return replace(status, launched_ms=moment)

    # the end

    def stop_sent(self, job: str) -> None:
        """Record on HDFS that an interrupted run has asked the server to stop a job.

        This is not an end, because the job may have succeeded before it was stopped. It counts if the server
        no longer knows the job. If HDFS fails, the error is logged.
        """
        claim = self._known.claim
        if self._hdfs_claims is None or claim is None or claim.job != job:
            return
        try:
            self._hdfs_claims.stops(claim)
        except PaiError as error:
            logger.warning("That job %s was asked to stop could not be recorded: %s", job, error)

    def lacks_end(self, entry: Entry) -> bool:
        """Return whether the last claim is of this submission, and its end is not recorded.

        Raises:
            HdfsError: HDFS failed.
        """
        claim = self.last()
        return claim is not None and claim.number == entry.number and claim.state is None

    def record(self, entry: Entry, retry: Retry | None = None) -> None:
        """If the output folder is on HDFS, record a submission's end there: completion flag and final state.

        If HDFS fails, the error is logged and the task does not fail, because the server keeps the job
        for hours after its end, and the next ``complete()`` records this end.

        Args:
            entry: the submission.
            retry: used for transient errors; if None, these are not retried.

        Raises:
            PaiOutputElsewhere: the job wrote to another output folder.
        """
        status = entry.status
        if status is None or self._known.end == (entry.number, status.state.value):
            return
        record = functools.partial(self._succeeded if entry.succeeded else self._failed, entry, status)
        try:
            if retry is None:
                record()
            else:
                retry.call(record)
        except PaiOutputElsewhere:
            raise
        except PaiError as error:
            logger.warning(
                "The end of job %s, %s, could not be recorded on HDFS (%s); the next run records it, if the "
                "server still knows the job; if not, it raises PaiJobForgotten",
                status.name,
                status.state.value,
                error,
            )
            return
        if entry.succeeded:
            self._warn_if_changed(entry, status)
        self._known.end = entry.number, status.state.value

    def _succeeded(self, entry: Entry, status: JobStatus) -> None:
        """Write the completion flag and the end."""
        if self._flag is None:
            return
        if (claim := self._ended(entry, status)) is not None:
            if claim.state is None:
                self._flag.add(self._definition.name, submitted_here=True)
                self._end(claim, status)
        elif not self._flag.holds(self._definition.name):
            check_folder(status, self._definition.folder, self._book.api)
            self._flag.add(self._definition.name, submitted_here=False)

    def _failed(self, entry: Entry, status: JobStatus) -> None:
        """For the job's latest submission, remove the job from the completion flag, and record the end.

        The job may be in the flag, because a command may write the flag (as Spark does) and then fail.
        """
        if self._flag is None:
            return
        self._known.read_at = -math.inf  # another process may have submitted the job again
        last, claim = self.last(), self._ended(entry, status)
        is_latest = last is None or last.number <= entry.number  # a later submission may have set the flag
        if is_latest and (claim is None or claim.state is None):
            self._flag.discard(self._definition.name)
            if claim is not None:
                self._end(claim, status)

    def _ended(self, entry: Entry, status: JobStatus) -> Claim | None:
        """Return a submission's claim if it is the last, else None; PaiError if it contradicts ``status``."""
        claim = self.last()
        if claim is None or claim.number != entry.number:
            return None
        if claim.state not in (None, status.state.value):
            raise PaiError(f"its recorded end is {claim.state}, and the server says {status.state.value}")
        return claim

    def _end(self, claim: Claim, status: JobStatus) -> None:
        if self._hdfs_claims is not None:
            self._known.claim = self._hdfs_claims.end(claim, status.state.value)

    # the definition

    def _warn_if_changed(self, entry: Entry, status: JobStatus) -> None:
        """Warn if the job that succeeded differs from the task's current definition."""
        try:
            fields = self._jobs.changed_fields(entry, self._known.claim, has_claims=self._claims is not None)
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
