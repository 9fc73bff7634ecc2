"""Evidence: information about work that does not come from its server, but from claims, flag and outputs."""

from __future__ import annotations

import functools
import logging
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from luigi_pai.api.retries import Retry
from luigi_pai.api.status import JobState
from luigi_pai.errors import PaiError, PaiOutputElsewhere, PaiWorkConflict
from luigi_pai.work.claims import Claim, Claims, claim_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.status import JobStatus
    from luigi_pai.work.flag import CompletionFlag
    from luigi_pai.work.piece import Work

logger = logging.getLogger("luigi-interface")

_FRESH = 30.0  # how long cached claims stay valid for a new run, in seconds
_RETENTION = 30 * 86400.0  # how long to keep claims on this machine, in seconds


@dataclass(slots=True)
class Recorded:
    """A process's cache of a job's last claim, when it was read, and the last recorded final state.

    ``others`` is the other work with claims in the folder, see ``Claims.others``.
    """

    claim: Claim | None = None
    others: tuple[str, ...] = ()
    read_at: float = -math.inf
    missing_at: float = -math.inf  # when the output folder last did not exist
    end: tuple[int, str] | None = None  # the submission's number and state


class Evidence:
    """Information about a piece of work that its server does not have.

    If the output folder is on the cluster's file system, claims and flag are there. If not, there is no
    completion flag, and the claims are in one of the user's folders on this machine. Such claims decide
    which of the user's processes on this machine submits, but do not prove that a job succeeded. A mocked
    test makes no such claims.

    If the file system fails, ``confirm``, ``release``, ``with_start`` and ``stop_sent`` log the error. All
    other methods raise PaiError.

    Args:
        work: The work.
        sleep: Waits for a number of seconds; by default, the sleep of the cluster's clock.

    Attributes:
        noted: The work's claim from another source, such as a sweep's journal. It is used if the output
            folder is elsewhere and no later claim is known.
    """

    def __init__(self, work: Work, sleep: Callable[[float], None] | None = None) -> None:
        self.noted: Claim | None = None
        self._work = work
        self._book = work.book
        self._clock = work.book.api.clock
        self._sleep = sleep or self._clock.sleep
        self._mine: Claim | None = None  # the last claim that this run made or tried to make
        self._known = work.book.remembered(("evidence", work.name, work.folder), Recorded)
        if self._clock.monotonic() - self._known.read_at > _FRESH:
            self._known.read_at = -math.inf

    @property
    def is_durable(self) -> bool:
        """Whether claims and flag are on the cluster, so that they remain after the server deletes a job."""
        return self._work.outputs.fs is not None

    @functools.cached_property
    def flag(self) -> CompletionFlag | None:
        """The completion flag; None if the output folder is elsewhere."""
        fs = self._work.outputs.fs
        if fs is None:
            return None
        from luigi_pai.work.flag import CompletionFlag  # noqa: PLC0415  costs what only files need

        return CompletionFlag(fs, str(self._work.folder))

    @functools.cached_property
    def _claims(self) -> Claims | None:
        """The claims; None if this machine has no folder for them, or in a mocked test."""
        work, api = self._work, self._book.api
        if work.outputs.fs is not None:
            from luigi_pai.work.output_claims import OutputClaimFolder  # noqa: PLC0415  as above

            return Claims(OutputClaimFolder(work.outputs.fs, str(work.folder)), work.name)
        if api.session.mocked:
            return None
        from luigi_pai.work.local_claims import local_claims  # noqa: PLC0415  often not needed

        folder = local_claims(api.url, api.username, work.folder or work.name, _RETENTION, self._clock.time)
        return None if folder is None else Claims(folder, work.name)

    def close(self) -> None:
        """Release access to claims and flag; the next read or write reopens it."""
        for name in ("flag", "_claims"):
            self.__dict__.pop(name, None)

    # reading

    def last(self) -> Claim | None:
        """Return the last claimed submission; None if there is none."""
        if self._known.read_at == -math.inf:
            claim = None
            if self._claims is not None:
                claim = self._claims.last()
                self._known.others = tuple(self._claims.others())
            noted = None if self.is_durable else self.noted
            is_later = noted is not None and (claim is None or claim.number < noted.number)
            self.hold(noted if is_later else claim)
        return self._known.claim

    def hold(self, claim: Claim | None) -> None:
        """Use a claim as the valid one: this run's claim, or another process's earlier claim."""
        self._known.claim, self._known.read_at = claim, self._clock.monotonic()

    def read_again(self) -> None:
        """Make ``last`` read the claims again, because another process may have changed them."""
        self._known.read_at = -math.inf

    def may_have_run(self) -> bool:
        """Return whether outputs exist, so that a job without a claim may have run before."""
        outputs, now = self._work.outputs, self._clock.monotonic()
        if not self.is_durable:
            return outputs.any_exists()
        # If another process submits the job in the meantime, the next submission finds its claim.
        if now - self._known.missing_at > _FRESH:
            self._known.missing_at = -math.inf if outputs.any_exists() else now
        return self._known.missing_at == -math.inf

    def is_complete(self) -> bool:
        """Return whether the outputs are complete, for a job that the server does not know."""
        if self.flag is None:
            return self._work.outputs.are_complete()
        is_claimed = self.last() is not None
        if not is_claimed and not self.may_have_run():
            return False
        return self.flag.holds(self._work.name, submitted_here=is_claimed)

    # before and after a submission

    def check_folder_is_ours(self) -> None:
        """Check that no other work has used the output folder, unless that work failed or was stopped.

        Raises:
            PaiWorkConflict: Other work has used the folder.
        """
        claims, work = self._claims, self._work
        self.last()
        if claims is None or work.folder is None:
            return
        for stem in self._known.others:
            other = claims.last_of(stem)
            if other is None:
                continue
            whose = f"job {other.name!r}" + (f" of {other.task}" if other.task else "")
            raise PaiWorkConflict(
                f"job {work.name!r} of {work.kind} was not submitted: its output folder {work.folder} "
                f"belongs to {whose}, whose output it would overwrite. Set another output_dir, or remove "
                f"{claims.where} if the other output is no longer needed",
                work.name,
            )

    def check_folder(self, status: JobStatus) -> None:
        """Check that the server's job has the work's output folder.

        Raises:
            PaiOutputElsewhere: The job writes to another folder.
        """
        folder, fs, api = self._work.folder, self._work.outputs.fs, self._book.api
        theirs = api.dialect.output_folder(api.config(status.name))
        if folder is None or fs is None or theirs is None or fs.is_same(folder, theirs):
            return
        verb = "wrote" if status.finished else "writes"
        raise PaiOutputElsewhere(
            f"job {status.name!r} already exists ({status.raw_state}), and it {verb} to {theirs}; "
            f"output_dir of the task is {folder}, which does not contain its output. Restore output_dir, or "
            "run the task under another name",
            status.name,
        )

    def claim(self, number: int, job_name: str) -> Claim:
        """Claim a submission before it is sent; return this claim, or another process's earlier claim.

        Args:
            number: The submission's number.
            job_name: The job that runs it: its own name, or the name of an array.
        """
        api, work = self._book.api, self._work
        mine = Claim(
            name=work.name,
            number=number,
            job=job_name,
            cluster=api.url,
            user=api.username,
            claimed_ms=int(self._clock.time() * 1000),
            digest=work.digest,
            task=work.kind,
            inputs=work.inputs,
        )
        held = mine
        if self._claims is not None:
            retry = Retry(api.polling.patience, self._clock)
            held = claim_once(self._claims, mine, retry, self._sleep)
        self._mine = mine
        self.hold(held)
        return held

    @property
    def is_mine(self) -> bool:
        """Whether this run made the valid claim."""
        claim, mine = self._known.claim, self._mine
        return claim is not None and mine is not None and claim.token == mine.token

    def before_post(self, number: int) -> None:
        """Remove the work from the completion flag before a later submission is posted.

        Call this only after making the claim. Before that, another process may submit this job and set the
        flag.
        """
        claim = self._known.claim
        if number > 1 and self.flag is not None and claim is not None and claim.state is None:
            self.flag.discard(self._work.name)

    def confirm(self) -> None:
        """Make this run's claim the valid one, because the server has stored this run's job."""
        held, mine = self._known.claim, self._mine
        if self._claims is None or held is None or mine is None or held.token == mine.token:
            return
        try:
            self.hold(self._claims.replace(mine))
        except PaiError as error:
            logger.warning("Cannot renew the claim of job %s: %s", mine.job, error)

    def release(self) -> Claim | None:
        """Remove this run's claim, because the job was not submitted; return the claim if there was one."""
        claim = self._known.claim
        if not self.is_mine or claim is None:
            return None
        try:
            if self._claims is not None:
                self._claims.release(claim)
        except PaiError as error:
            logger.warning("Cannot remove the claim of a rejected job: %s", error)
        self._known.claim, self._known.read_at = None, -math.inf
        return claim

    def check_taken_over(self, status: JobStatus) -> None:
        """Check the job's output folder if there is no claim; otherwise, warn if the job has changed.

        Raises:
            PaiOutputElsewhere: the job writes to another folder.
        """
        claim = self.last()
        if claim is None:
            if self.flag is not None:
                self.check_folder(status)
        elif claim.job == status.name and self._work.has_changed_since(claim):
            warn_of_other_definition(status.name)

    # while it runs

    def with_start(self, status: JobStatus) -> JobStatus:
        """Return a job's status; if the job runs and its server sends no start time, add one from the claim.

        The added time is when a lookup first found the job running after the cluster's last retry. The claim
        records it for a later process that takes over the job.
        """
        claim = self._known.claim
        if status.state is not JobState.RUNNING or status.launched_ms is not None:
            return status
        if self._claims is None or claim is None or claim.job != status.name:
            return status
        if claim.runs_since is None or claim.runs_since[0] != status.retries:
            moment = int(self._clock.time() * 1000)
            self._known.claim = replace(claim, runs_since=(status.retries, moment))
            try:
                self._claims.runs(claim, status.retries, moment)
            except PaiError as error:
                logger.debug("Cannot record the start time of job %s: %s", status.name, error)
        else:
            moment = claim.runs_since[1]
        return replace(status, launched_ms=moment)

    def stop_sent(self, job: str) -> None:
        """Record that an interrupted run asked the server to stop a job.

        This is not a final state, because the job may have succeeded before it was stopped. The record is
        used if the server no longer knows the job.
        """
        claim = self._known.claim
        if self._claims is None or claim is None or claim.job != job:
            return
        try:
            self._claims.stops(claim)
        except PaiError as error:
            logger.warning("Cannot record the request to stop job %s: %s", job, error)

    # the end

    def claim_of(self, entry: Entry) -> Claim | None:
        """Return the last claim if it belongs to this submission, else None."""
        claim = self.last()
        return claim if claim is not None and claim.number == entry.number else None

    @property
    def recorded_end(self) -> tuple[int, str] | None:
        """Number and state of the last submission whose final state this process recorded, if any."""
        return self._known.end

    def end(self, claim: Claim | None, entry: Entry) -> None:
        """Record a submission's final state in its claim, if there is one, and in the cache."""
        state = entry.known.state.value
        if claim is not None and claim.state is None and self._claims is not None:
            self._known.claim = self._claims.end(claim, state)
        self._known.end = entry.number, state


def warn_of_other_definition(job: str) -> None:
    """Warn that a job was submitted when its work was defined differently."""
    logger.warning(
        "Job %s was submitted with another definition than the task has now; it runs as it was "
        "submitted. To run the new one, change the name, for example by adding a version number",
        job,
    )
