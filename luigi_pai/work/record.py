"""Records how a submission ended: its logs, the completion flag and the final state."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from luigi_pai.api.job import lost_job
from luigi_pai.api.job_failure import job_failure
from luigi_pai.api.watched import Outcome
from luigi_pai.errors import PaiApiError, PaiError, PaiOutputElsewhere

if TYPE_CHECKING:
    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.retries import Retry
    from luigi_pai.api.watched import Update
    from luigi_pai.errors import PaiJobError
    from luigi_pai.work.claims import Claim
    from luigi_pai.work.evidence import Evidence
    from luigi_pai.work.piece import Work

logger = logging.getLogger("luigi-interface")

_SHOWN = 5  # changed fields in a warning
_MOST_COMPARED = 10  # how many jobs without claims a process and its forks compare with the server's copies


def record(
    work: Work, evidence: Evidence, entry: Entry, *, watched: bool, retry: Retry | None = None
) -> bool:
    """Record how a submission ended. If this process is killed first, the next run records it.

    If the file system fails, the error is logged and the work does not fail: the server keeps the job for
    hours after its end, and the next ``complete()`` records this end.

    Args:
        work: The work.
        evidence: The evidence about the work.
        entry: The submission, with its final status.
        watched: Whether this process watched the job until it finished.
        retry: Retries transient errors; if None, they are not retried.

    Returns:
        False if the file system failed, else True.

    Raises:
        PaiOutputElsewhere: The job wrote to another output folder.
    """
    status = entry.status
    if status is None or evidence.recorded_end == (entry.number, status.state.value):
        return True
    if work.options["keep_logs"] and (watched or _has_no_end(evidence, entry)):
        from luigi_pai.work.kept_logs import KeptLogs  # noqa: PLC0415  few tasks keep logs

        KeptLogs(work.book, work.outputs.fs, work.folder, work.secrets()).keep(status)

    def act() -> None:
        if entry.succeeded:
            _succeeded(work, evidence, entry, watched=watched)
        else:
            _failed(work, evidence, entry)

    try:
        if watched or evidence.is_durable:
            act() if retry is None else retry.call(act)
    except PaiOutputElsewhere:
        raise
    except PaiError as error:
        logger.log(
            logging.WARNING if evidence.is_durable else logging.DEBUG,
            "The end of job %s, %s, could not be recorded in its output folder (%s); the next run records it "
            "if the server still knows the job; if not, it raises PaiJobForgotten",
            status.name,
            status.state.value,
            error,
        )
        return False
    if entry.succeeded:
        _warn_if_changed(work, evidence, entry)
        for path in [] if watched else work.outputs.missing():
            _warn_of_success(entry, f"its output {path} does not exist")
    return True


def _has_no_end(evidence: Evidence, entry: Entry) -> bool:
    claim = evidence.claim_of(entry)
    return claim is not None and claim.state is None


def _succeeded(work: Work, evidence: Evidence, entry: Entry, *, watched: bool) -> None:
    """Write the completion flag, and record how the submission ended."""
    claim, flag = _claim_of(evidence, entry), evidence.flag
    if flag is not None and claim is None and not flag.holds(work.name):
        evidence.check_folder(entry.known)
        if not watched and not evidence.may_have_run():
            _warn_of_success(entry, f"its output folder {work.folder} does not exist")
        flag.add(work.name, submitted_here=False)
    elif flag is not None and claim is not None and claim.state is None:
        flag.add(work.name, submitted_here=True)
        if not watched:  # the process that watched it may have been killed while adding the flag
            flag.tidy()
    evidence.end(claim, entry)


def _failed(work: Work, evidence: Evidence, entry: Entry) -> None:
    """Record how a failed submission ended; if it is the latest, remove the work from the completion flag.

    The flag may contain the work, because a command may write the flag (as Spark does) and then fail.
    """
    evidence.read_again()  # another process may have submitted the job again
    last, claim = evidence.last(), _claim_of(evidence, entry)
    is_latest = last is None or last.number <= entry.number  # a later submission may have set the flag
    if evidence.flag is not None and is_latest and (claim is None or claim.state is None):
        evidence.flag.discard(work.name)
    evidence.end(claim, entry)


def _claim_of(evidence: Evidence, entry: Entry) -> Claim | None:
    """Return the submission's claim if it is the last; raise PaiError if the claim contradicts the server."""
    claim, state = evidence.claim_of(entry), entry.known.state.value
    if claim is not None and claim.state not in (None, state) and evidence.is_durable:
        raise PaiError(f"its recorded end is {claim.state}, but the server reports {state}")
    return claim


def failure_of(work: Work, update: Update, *, next_step: str | None = None) -> PaiJobError | None:
    """Return the error that describes how a submission ended; None if it succeeded.

    Args:
        work: The work.
        update: The job's last update.
        next_step: The last line of the error, with the next step for the user.
    """
    if update.outcome is Outcome.LOST:
        return lost_job(work.book.api, update.name)
    if update.status.succeeded:
        return None
    return job_failure(
        work.book.api, update.status, missed=update.missed, secrets=work.secrets(), next_step=next_step
    )


def _warn_if_changed(work: Work, evidence: Evidence, entry: Entry) -> None:
    """Warn if the job that succeeded differs from the work's current definition."""
    try:
        fields = _changed_fields(work, evidence, entry)
    except (PaiError, OSError, TypeError) as error:
        logger.debug("Could not compare job %s with its task: %s", entry.job, error)
        return
    if fields is None:
        return
    changed = f" ({', '.join(fields[:_SHOWN])}{', ...' if len(fields) > _SHOWN else ''})" if fields else ""
    _warn_of_success(entry, f"the task's definition has changed since{changed}")


def _warn_of_success(entry: Entry, but: str) -> None:
    logger.warning(
        "Job %s has succeeded, but %s. The task still counts as complete, because its name has not changed. "
        "To run it again, change the name, for example by adding a version number",
        entry.known.name,
        but,
    )


def _changed_fields(work: Work, evidence: Evidence, entry: Entry) -> list[str] | None:
    """Compare the work's job with a submission that has succeeded.

    A job protocol without claims on the cluster is compared with the server's copy, for the first ten jobs
    of a process and its forks. For other jobs without a claim, only changed inputs are found.

    Returns:
        The changed inputs and fields, or [] if they are unknown; None if none changed or nothing is compared.

    Raises:
        PaiApiError: without a claim, the server's copy cannot be read.
        OSError, TypeError: the work's job cannot be compared.
    """
    claim = evidence.claim_of(entry)
    if work.folder is None:
        if entry.index is not None or work.book.api.session.times("compared") > _MOST_COMPARED:
            return None
        return work.differing_fields(entry.job) or None
    if claim is None or claim.job != entry.job:
        return None
    inputs = work.changed_inputs(claim)
    if (not inputs and not evidence.is_durable) or claim.digest == work.digest:
        return inputs or None
    try:  # the stored job of an array is the whole array
        return inputs if entry.index is not None else inputs + work.differing_fields(entry.job)
    except PaiApiError:
        return inputs
