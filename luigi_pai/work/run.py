"""A run of a piece of work: find or submit its job, watch it, and record its end."""

from __future__ import annotations

import logging
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from luigi_pai.api.job_failure import NEXT_SUBMISSION
from luigi_pai.api.retries import Retry
from luigi_pai.api.status import JobState
from luigi_pai.api.watching import Outcome, Update
from luigi_pai.errors import PaiJobFailed, PaiWorkConflict
from luigi_pai.work.conflicts import check_unique
from luigi_pai.work.decide import Refuse, Situation, Submit, decide, is_same_class
from luigi_pai.work.evidence import Evidence
from luigi_pai.work.lookup import newest_submission
from luigi_pai.work.piece import RECENT
from luigi_pai.work.record import failure_of, record
from luigi_pai.work.signals import OnKill, before_signals
from luigi_pai.work.submission import InFlight, Member, Submission
from luigi_pai.work.submit import Submitter, add_tags

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.status import JobStatus
    from luigi_pai.errors import PaiJobError
    from luigi_pai.work.decide import Decision
    from luigi_pai.work.piece import Work

logger = logging.getLogger("luigi-interface")

_LOOKUP_PATIENCE = 2.0  # seconds for which a lookup outside of a run retries transient errors
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0  # seconds until a job that may be on its way is looked up again


class Watch(Protocol):
    """Watches the job of a run, and tells others of its course."""

    def pause(self, seconds: float) -> None:
        """Wait, and answer messages meanwhile."""
        ...

    def begun(self, entry: Entry) -> None:
        """Tell that a job was submitted or taken over."""
        ...

    def until_end(self, job: Submission, sleep: Callable[[float], None]) -> Update:
        """Watch a job, and return its last update."""
        ...

    def show(self, status: JobStatus) -> None:
        """Show the status of a job."""
        ...

    def ended(self, status: JobStatus, error: PaiJobError | None) -> None:
        """Tell that a job has ended; ``error`` is None if it has succeeded."""
        ...


def look_up(
    work: Work,
    evidence: Evidence,
    *,
    max_age: float = 0.0,
    patience: float | None = None,
    sleep: Callable[[float], None] | None = None,
    is_trusted: bool = True,
) -> Situation:
    """Look up a piece of work, and return what the decision depends on.

    Args:
        work: the work.
        evidence: of the work.
        max_age: seconds for which an answer may be reused.
        patience: seconds for which transient errors are retried; default: the setting of the cluster.
        sleep: waits for a number of seconds.
        is_trusted: whether a reply that lacks owner and submission time, as in mocked tests, counts as a
            submission.

    Raises:
        SpecError: another task of this process has the same name and another job, or the same output folder.
        PaiNameTaken, PaiApiError, HdfsError: see ``newest_submission``.
    """
    check_unique(work)
    found = newest_submission(work.book, work.name, evidence, max_age=max_age, patience=patience, sleep=sleep)
    if found is not None and found.status is not None and not (found.status.identified or is_trusted):
        found = None
    return situation(work, evidence, found)


def situation(work: Work, evidence: Evidence, entry: Entry | None) -> Situation:
    """Return what the decision about the newest submission of a piece of work depends on.

    Raises:
        PaiError: the claims or the outputs cannot be read.
    """
    api = work.book.api
    known = Situation(name=work.name, kind=work.kind, folder=work.folder, entry=entry)
    if entry is not None and entry.failed:
        return known
    is_known = entry is not None and entry.status is not None
    claim = evidence.last()
    if claim is not None:
        is_same = not claim.task or is_same_class(claim.task, work.kind)
        known = replace(
            known,
            claim=claim,
            digest=None if is_same else work.digest,
            age=api.clock.time() - claim.claimed_ms / 1000,
        )
    if is_known:
        return replace(known, page="" if entry is None else api.page(entry.job))
    return replace(
        known,
        is_complete=evidence.is_complete(),
        own_name="" if claim is None else work.job_name(claim.number),
        retention=0.0 if claim is None or not evidence.is_durable else api.retention(),
        cluster=api.url,
        section=api.section,
        on_forgotten=work.options["on_forgotten"],
        is_durable=evidence.is_durable,
    )


class Run:
    """A run or a lookup of a piece of work.

    Args:
        work: the work.
        watch: watches the job; needed by ``execute`` only.
    """

    def __init__(self, work: Work, watch: Watch | None = None) -> None:
        self._work = work
        self._watch = watch
        self._sleep = work.book.api.clock.sleep if watch is None else self._pause
        self._check_signals: Callable[[], None] = lambda: None
        self._evidence = Evidence(work, self._sleep)
        self._in_flight = InFlight()
        self._made = 0  # attempts of this run

    # what is known

    def decision(self) -> Decision:
        """Return what a run would do now; transient errors are retried for 2 s at most.

        Raises:
            PaiNameTaken, PaiOutputElsewhere, PaiApiError, HdfsError: for the reasons given in ``complete()``.
        """
        work = self._work
        patience = min(_LOOKUP_PATIENCE, work.book.api.polling.patience)
        known = look_up(work, self._evidence, patience=patience, sleep=self._sleep)
        decision = decide(known)
        if isinstance(decision, Refuse) and isinstance(decision.error, PaiWorkConflict):
            raise decision.error
        entry = known.entry
        if entry is not None and entry.status is not None and entry.status.finished:
            record(work, self._evidence, entry, watched=False)
        return decision

    def newest(self) -> Entry | None:
        """Return the newest submission, from a lookup or as ``complete()`` has just found it."""
        return newest_submission(
            self._work.book, self._work.name, self._evidence, max_age=RECENT, sleep=self._sleep
        )

    # a run

    def _pause(self, seconds: float) -> None:
        assert self._watch is not None
        self._check_signals()
        self._watch.pause(seconds)

    def execute(self) -> None:
        """Find or submit the job, and wait for its end; if it fails, submit it again (``max_attempts``).

        Raises:
            SpecError: the job is not valid; nothing was sent.
            PaiJobFailed: the job ended as FAILED or STOPPED.
            PaiJobForgotten: it was submitted earlier, and its result is not known.
            PaiError: the job was not submitted, or may have been submitted; the text says which.
        """
        for warning in self._work.check_job():
            logger.warning("Job %s: %s", self._work.name, warning)
        self._work.options.check()
        on_kill = OnKill(self._in_flight, self._work.options)
        with before_signals(on_kill.act) as self._check_signals:
            while (job := self._begin()) is not None:
                self._made += 1
                error = self._finish(job)
                if error is None:
                    return
                logger.warning("%s", error)

    def _begin(self) -> Submission | None:
        """Find or submit the job; return None if the outputs are complete.

        A job that is submitted or taken over gets its tags.
        """
        work, max_age, pause, said = self._work, RECENT, _FIRST_PAUSE, ""
        member = Member(work, self._evidence)
        submitter = Submitter(self._in_flight, sleep=self._sleep)
        while True:
            known = look_up(
                work, self._evidence, max_age=max_age, sleep=self._sleep, is_trusted=self._made > 0
            )
            decision = decide(known)
            if isinstance(decision, Refuse):
                raise decision.error
            if not isinstance(decision, Submit):
                return self._existing(member, decision.entry)
            if decision.wait:
                self._sleep(min(decision.wait, pause * random.uniform(0.5, 1)))  # noqa: S311  spreads load
                pause, max_age = min(2 * pause, _LONGEST_PAUSE), 0.0
                continue
            if decision.reason not in ("", said):
                said = decision.reason
                logger.warning("%s", said)
            member.number = decision.number
            submitted = submitter.submit([member])
            if submitted.job is not None:
                self._announce(submitted.job)
                return submitted.job
            max_age = RECENT if submitted.is_known else 0.0

    def _existing(self, member: Member, entry: Entry | None) -> Submission | None:
        """Return the job of an existing submission; None if the outputs show that it has succeeded."""
        if entry is None:
            text = "Job %s is complete: its outputs show it; the server no longer knows the job"
            logger.info(text, self._work.name)
            return None
        text = "Job %s already exists (%s); nothing is submitted"
        logger.info(text, entry.job, entry.known.raw_state)
        self._evidence.check_taken_over(entry.known)
        job = Submission.of_entry(member, replace(entry, posted=False))
        if not job.status.finished:
            self._in_flight.add(job)
            self._announce(job)
        return job

    def _announce(self, job: Submission) -> None:
        assert self._watch is not None
        add_tags(job.book.api, job.status, self._work.options.tags)
        self._watch.begun(job.entry_of(job.members[0], job.status))

    def _finish(self, job: Submission) -> PaiJobError | None:
        """Watch a job to its end, and record it. Return its error if the work is submitted again."""
        watch, work, status = self._watch, self._work, job.status
        assert watch is not None
        member, api = job.members[0], work.book.api
        is_news = job.posted or not status.finished
        update = Update(job.name, status, Outcome.ENDED)
        if not status.finished:
            update = watch.until_end(job, self._sleep)
            self._in_flight.remove(job)
        elif job.posted:  # it has ended before it was watched
            self._in_flight.remove(job)
            watch.show(status)
        if update.outcome is not Outcome.LOST:
            ended = replace(job.entry_of(member, update.status), posted=False)
            if is_news:
                work.book.take(work.name, ended)
            retry = Retry(api.polling.patience, api.clock, f"job {job.name}", sleep=self._sleep)
            record(work, self._evidence, ended, watched=is_news, retry=retry)
        error = failure_of(work, update, next_step=self._next_step(update))
        if error is not None or is_news:
            watch.ended(update.status, error)
        if error is not None and (not isinstance(error, PaiJobFailed) or self._obstacle(update) is not None):
            raise error
        return error

    # further attempts of this run

    def _next_step(self, update: Update) -> str:
        """Return the last line of a failed job's error. It says what to do next, and which attempt failed."""
        most = self._work.options["max_attempts"]
        if most == 1:
            return NEXT_SUBMISSION
        obstacle = self._obstacle(update)
        if obstacle is None:
            return f"attempt {self._made} of {most} of this run; the job is submitted again"
        return f"attempt {self._made} of {most} of this run, the last one: {obstacle}; {NEXT_SUBMISSION}"

    def _obstacle(self, update: Update) -> str | None:
        """Return why this run makes no further attempt; None if it makes one."""
        options, status = self._work.options, update.status
        if update.missed is not None:
            return f"{update.missed.value} was missed"
        if status.state is JobState.STOPPED:
            return "the job was stopped"
        if self._made >= options["max_attempts"]:
            return "there are no more (max_attempts)"
        if not options.is_retried(status):
            return "its exit code is not in retry_exit_codes"
        return None
