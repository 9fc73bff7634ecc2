"""A run of a piece of work: finds or submits its job, watches it, and records how it ended."""

from __future__ import annotations

import functools
import logging
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from luigi_pai.api.job_failure import NEXT_SUBMISSION
from luigi_pai.api.retries import Retry
from luigi_pai.api.status import JobState
from luigi_pai.api.watched import Outcome, Update
from luigi_pai.errors import PaiJobFailed
from luigi_pai.work.decide import Refuse, Submit, decide
from luigi_pai.work.evidence import Evidence
from luigi_pai.work.lookup import look_up
from luigi_pai.work.piece import RECENT
from luigi_pai.work.record import failure_of, record
from luigi_pai.work.stopping import before_signals, interrupt
from luigi_pai.work.submission import InFlight, Member, Submission
from luigi_pai.work.submit import Submitter, add_tags

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.status import JobStatus
    from luigi_pai.errors import PaiJobError
    from luigi_pai.work.piece import Work

logger = logging.getLogger("luigi-interface")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0  # seconds before looking up again a job that may be on its way


class Watch(Protocol):
    """Watches a run's job, and reports its progress."""

    def pause(self, seconds: float) -> None:
        """Wait, handling messages in the meantime."""

    def begun(self, entry: Entry) -> None:
        """Report that a job was submitted or taken over."""

    def until_end(self, job: Submission, sleep: Callable[[float], None]) -> Update:
        """Watch a job until it has finished, and return its last update."""

    def show(self, status: JobStatus) -> None:
        """Show a job's status."""

    def ended(self, status: JobStatus, error: PaiJobError | None) -> None:
        """Report that a job has finished; ``error`` is None if it succeeded."""


class Run:
    """A run of a piece of work.

    Args:
        work: The work.
        watch: Watches the job.

    Attributes:
        job: The last job that was watched; None before.
    """

    def __init__(self, work: Work, watch: Watch) -> None:
        self._work = work
        self._watch = watch
        self._check_signals: Callable[[], None] = lambda: None
        self._evidence = Evidence(work, self._sleep)
        self._in_flight = InFlight()
        self._interrupt = functools.partial(interrupt, self._in_flight, work.options)
        self._made = 0  # attempts in this run
        self.job: Submission | None = None

    def _sleep(self, seconds: float) -> None:
        """Wait, handling messages in the meantime; raise the exception for a signal that arrived."""
        self._check_signals()
        self._watch.pause(seconds)

    def execute(self) -> None:
        """Find or submit the job, and wait until it has finished. If it fails, retry it (``max_attempts``).

        Raises:
            SpecError: The job is invalid; nothing was sent.
            PaiJobFailed: The job ended as FAILED or STOPPED.
            PaiJobForgotten: The job was submitted earlier, and its result is unknown.
            PaiError: The job was not submitted, or may have been submitted; the message says which.
        """
        self.check()
        with before_signals(self._interrupt) as self._check_signals:
            self._finish_all(self._start())

    def check(self) -> None:
        """Check the job and the options, and log warnings. Sends nothing.

        Raises:
            SpecError, ConfigError: The job or an option is invalid.
        """
        for warning in self._work.check_job():
            logger.warning("Job %s: %s", self._work.name, warning)
        self._work.options.check()

    def start(self) -> Submission | None:
        """Find or submit the job, and return it; return None if the outputs are complete.

        Raises:
            PaiError: As in ``execute``.
        """
        with before_signals(self._interrupt) as self._check_signals:
            return self._start()

    def finish(self, job: Submission | None) -> None:
        """Wait until a job from ``start`` has finished; if it fails, submit it again (``max_attempts``).

        Raises:
            PaiError: As in ``execute``.
        """
        with before_signals(self._interrupt) as self._check_signals:
            self._finish_all(job)

    def _finish_all(self, job: Submission | None) -> None:
        while job is not None:
            self.job = job
            self._made += 1
            error = self._finish(job)
            if error is None:
                return
            logger.warning("%s", error)
            job = self._start()

    def _start(self) -> Submission | None:
        """Find or submit the job; return None if the outputs are complete.

        A job that is submitted or taken over gets its tags.
        """
        work, max_age, pause, logged = self._work, RECENT, _FIRST_PAUSE, ""
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
            if decision.reason not in ("", logged):
                logged = decision.reason
                logger.warning("%s", logged)
            member.number = decision.number
            submitted = submitter.submit([member])
            if submitted.job is not None:
                self._announce(submitted.job)
                return submitted.job
            max_age = RECENT if submitted.is_known else 0.0

    def _existing(self, member: Member, entry: Entry | None) -> Submission | None:
        """Return an existing submission's job; None if the outputs show that it succeeded."""
        if entry is None:
            message = "Job %s is complete: its outputs show it; the server no longer knows the job"
            logger.info(message, self._work.name)
            return None
        logger.info("Job %s already exists (%s); nothing is submitted", entry.job, entry.known.raw_state)
        self._evidence.check_taken_over(entry.known)
        job = Submission.from_entry(member, replace(entry, posted=False))
        if not job.status.finished:
            self._in_flight.add(job)
            self._announce(job)
        return job

    def _announce(self, job: Submission) -> None:
        add_tags(job.book.api, job.status, self._work.options.tags)
        self._watch.begun(job.entry_of(job.members[0], job.status))

    def _finish(self, job: Submission) -> PaiJobError | None:
        """Watch a job until it has finished, and record its end; return its error if the work is retried."""
        watch, work, status = self._watch, self._work, job.status
        member, api = job.members[0], work.book.api
        is_news = job.posted or not status.finished
        update = Update(job.name, status, Outcome.ENDED)
        if not status.finished:
            update = watch.until_end(job, self._sleep)
            self._in_flight.remove(job)
        elif job.posted:  # it finished before it was watched
            self._in_flight.remove(job)
            watch.show(status)
        if update.outcome is not Outcome.LOST:
            ended = replace(job.entry_of(member, update.status), posted=False)
            if is_news:
                work.book.record_entry(work.name, ended)
            retry = Retry(api.polling.patience, api.clock, f"job {job.name}", sleep=self._sleep)
            record(work, self._evidence, ended, watched=is_news, retry=retry)
        error = failure_of(work, update, next_step=self._next_step(update))
        if error is not None or is_news:
            watch.ended(update.status, error)
        if error is not None and (not isinstance(error, PaiJobFailed) or self._obstacle(update) is not None):
            raise error
        return error

    # more attempts in this run

    def _next_step(self, update: Update) -> str:
        """Return the last line for a failed job's error, with the next step and the failed attempt."""
        most = self._work.options["max_attempts"]
        if most == 1:
            return NEXT_SUBMISSION
        obstacle = self._obstacle(update)
        if obstacle is None:
            return f"attempt {self._made} of {most} of this run; the job is submitted again"
        return f"attempt {self._made} of {most} of this run, the last one: {obstacle}; {NEXT_SUBMISSION}"

    def _obstacle(self, update: Update) -> str | None:
        """Return why this run makes no more attempts; None if it makes one."""
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
