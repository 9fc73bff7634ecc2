"""Posts a job until the server accepts it.

Only a 202 (0.12 to 0.14: also 201) proves that the server accepted the job, and only a known rejection
proves that it did not. After any other response, or without a response, the job is looked up. It is posted
again only after a lookup shows that the server does not know its name.
"""

from __future__ import annotations

import contextlib
import logging
import random
from typing import TYPE_CHECKING

from luigi_pai.api.book.search import check_owner
from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.api.wire.refusals import is_refusal, with_virtual_clusters
from luigi_pai.errors import (
    ClusterUnreachable,
    InvalidReply,
    JobNotFound,
    NameConflict,
    PaiApiError,
    PaiError,
    PaiHttpError,
    PaiNameTaken,
    ServerFault,
)
from luigi_pai.jobspec.job import PaiJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.api.book.book import Book
    from luigi_pai.jobspec.protocol import JobProtocol

logger = logging.getLogger(__name__)

_FAULTS_TAKEN = 3  # give up after this number of errors that the job itself may have caused
_LONGEST_TIMEOUT_WAIT = 15.0  # maximum seconds to wait for a server that may still be processing a post
_JITTER = 0.1
_SHOWN_WITHIN = 10.0  # how long (s) a new job may stay invisible after the server starts rejecting its name


class Posting:
    """Posts one job.

    Args:
        book: The cluster's book.
        name: The job's name on the server.
        single: Whether it is posted without other jobs. If so, the post is logged at INFO, and the job is
            looked up after the post.
        must_be_new: Whether to raise ``NameConflict`` immediately if the name is in use.
        sleep: Waits for a number of seconds; default: the sleep of the cluster's clock.

    Attributes:
        before_post: Called with the name before each post.
        may_be_submitted: Whether the server may have accepted a post whose response was lost or an error.
    """

    def __init__(
        self,
        book: Book,
        name: str,
        *,
        single: bool = True,
        must_be_new: bool = False,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._api = book.api
        self._sleep = book.api.clock.sleep if sleep is None else sleep
        self._book = book
        self._name = name
        self._single = single
        self._must_be_new = must_be_new
        self.before_post: Callable[[str], None] = lambda _name: None
        patience, clock = book.api.polling.patience, book.api.clock
        self._posts, self._lookups = (Retry(patience, clock, f"job {name}", sleep=sleep) for _ in range(2))
        self._tries = self._faults = 0  # posts; failed posts that the job may have caused
        self._began: float | None = None  # start of the first post that failed
        self._refused_since: float | None = None
        self._is_held_back = False
        self.may_be_submitted = False

    def post(self, job: PaiJob | JobProtocol) -> JobStatus | None:
        """Post the job until the server accepts it; return its first status.

        Return None if another of the user's jobs has the name. A server may reject a name as in use before a
        lookup finds the job with that name. Until a lookup finds it, the new job is posted again every
        second, for up to 10 s.

        Raises:
            NameConflict: The name is in use, and ``must_be_new`` is set or a test mocks the response.
            PaiNameTaken: Another user's job, or a job that no lookup finds, has the name.
            PaiHttpError: The server rejected the job. If the response shows that the server speaks the other
                API version, that version is recorded.
            PaiApiError: The last transient error before the deadline, or a lookup's error.
        """
        self._warn_of_public_secrets(job)
        with self._counted():
            while True:
                self._turn()
                began = self._api.clock.monotonic()
                try:
                    self._post(job)
                    break
                except TRANSIENT as error:
                    self._began = began if self._began is None else self._began
                    status = self._after(error, self._api.clock.monotonic() - began)
                    if status is not None:
                        return status
                except PaiHttpError as error:
                    if not isinstance(error, NameConflict):
                        return self._despite(error)
                    if self.may_be_submitted:
                        break
                    if self._must_be_new:
                        return self._despite(error)
                    if self._is_held(error):
                        return None
        self._posts.succeeded()
        self._book.failed_posts.end()
        level = logging.INFO if self._single else logging.DEBUG
        logger.log(level, "Submitted job %s to %s", self._name, self._api.url)
        return self._first_status()

    def _warn_of_public_secrets(self, job: PaiJob | JobProtocol) -> None:
        """Warn if a job has secrets that the server stores in plain text (0.15, models/v2/job/k8s.js)."""
        if not getattr(job, "secrets", None) or self._api.dialect.version != "v2":
            return
        with contextlib.suppress(PaiApiError):  # the post will report the error
            if not self._api.detector.is_since(0, 16):
                logger.warning(
                    "Job %s has secrets, and OpenPAI 0.15 shows them to everybody who can reach its server, "
                    "without a login: use secrets that protect nothing else, or a later release",
                    self._name,
                )

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Add the number of posts to a transient error, if there were several."""
        try:
            yield
        except TRANSIENT as error:
            if self._tries <= 1 or self._began is None:
                raise
            seconds = self._api.clock.monotonic() - self._began
            raise error.extended(f"tried {self._tries} times in {seconds:.0f} s") from None

    def _post(self, job: PaiJob | JobProtocol) -> None:
        dialect = self._api.dialect
        self._tries += 1
        self.before_post(self._name)
        try:
            dialect.submit(job)
        except PaiHttpError as error:
            self._api.detector.record_refusal(dialect, error)
            setting = "virtual_cluster of the task" if isinstance(job, PaiJob) else "defaults.virtualCluster"
            raise with_virtual_clusters(error, setting, dialect.virtual_clusters) from None
        finally:
            self._book.record_post(self._name)

    def _turn(self) -> None:
        """While the server fails all posts, wait until ``FailedPosts`` allows one or the deadline passes."""
        clock, failed_posts = self._api.clock, self._book.failed_posts
        end = (clock.monotonic() if self._began is None else self._began) + self._api.polling.patience
        while (wait := failed_posts.wait()) > 0 and clock.monotonic() < end:
            if not self._is_held_back and self._tries == 0:
                self._is_held_back = True
                logger.info(
                    "Job %s has not been submitted yet: %s is failing all submissions",
                    self._name,
                    self._api.url,
                )
            wait = min(wait * random.uniform(1, 1 + _JITTER), max(end - clock.monotonic(), 0.01))  # noqa: S311  spreads load
            self._sleep(wait)

    def _is_held(self, error: NameConflict) -> bool:
        """Return True if a lookup finds the job that uses the name; else wait a second and return False."""
        if error.mocked:
            raise error
        if self._lookups.call(self._status) is not None:
            return True
        now = self._api.clock.monotonic()
        self._refused_since = now if self._refused_since is None else self._refused_since
        if now - self._refused_since > _SHOWN_WITHIN:
            raise PaiNameTaken(
                f"the server refuses the name {self._name!r} as in use, but has no job of that name; choose "
                "another name for the task",
                self._name,
            )
        self._sleep(1.0)
        return False

    def _after(self, error: PaiApiError, took: float) -> JobStatus | None:
        """Wait after a transient error; return the job's status if the post was accepted, else None.

        ``took`` is how long the post took, in seconds. After the deadline, the error is raised.
        """
        may_be_accepted, is_about_the_job = _may_be_accepted(error), self._is_about_the_job(error)
        self.may_be_submitted |= may_be_accepted
        try:
            wait = self._posts.wait_after(error)
        except PaiApiError:
            if may_be_accepted and not error.mocked:  # the last post may have been accepted
                with contextlib.suppress(PaiError):
                    if (status := self._found(self._status)) is not None:
                        return status
            raise
        is_lost = may_be_accepted and isinstance(error, ClusterUnreachable)
        self._sleep(max(wait, min(took, _LONGEST_TIMEOUT_WAIT)) if is_lost else wait)
        if not may_be_accepted:
            return None
        if (status := self._looked_up()) is not None:
            return status
        self._faults += is_about_the_job
        if self._faults >= _FAULTS_TAKEN:
            raise error
        return None

    def _despite(self, error: PaiHttpError) -> JobStatus:
        """Return the job's status if the server has the job despite the error; otherwise raise the error.

        Known rejections are raised without a lookup. If the lookup fails, its error is raised with ``error``
        appended, and ``may_be_submitted`` is True.
        """
        if error.mocked or is_refusal(error):
            raise error
        before, self.may_be_submitted = self.may_be_submitted, True
        try:
            status = self._looked_up()
        except PaiApiError as failed:
            raise failed.extended(f"the response to the submission was: {error}") from None
        if status is None:
            self.may_be_submitted = before
            raise error
        return status

    def _looked_up(self) -> JobStatus | None:
        """Look up the job after a post that may have been accepted; return None if there is no such job."""
        return self._found(lambda: self._lookups.call(self._status))

    def _found(self, look_up: Callable[[], JobStatus | None]) -> JobStatus | None:
        status = look_up()
        if status is not None:
            logger.info("Job %s is on the server: its submission was accepted", self._name)
            self._book.failed_posts.end()
        return status

    def _is_about_the_job(self, error: PaiApiError) -> bool:
        """Return whether the job itself may cause the error. If so, all later posts will fail too."""
        if isinstance(error, ServerFault):
            return not self._book.failed_posts.record(self._name, error)
        return isinstance(error, InvalidReply)

    def _first_status(self) -> JobStatus:
        """Return the status of the job that was just posted.

        If the job is ``single``, it is looked up; after a failed lookup, the status has the state UNKNOWN.
        If the job is one of many, it is not looked up, and the status has the state WAITING.
        """
        if not self._single:
            return JobStatus(self._name, JobState.WAITING, raw_state="SUBMITTED")
        status = None
        with contextlib.suppress(PaiApiError):  # harmless, because the job is looked up again later
            status = self._status()
        return status or JobStatus(self._name, JobState.UNKNOWN, raw_state="SUBMITTED")

    def _status(self) -> JobStatus | None:
        try:
            status = self._book.status(self._name)
        except JobNotFound:
            return None
        check_owner(self._api, self._name, status)
        return status

    def outcome(self, error: PaiError, advice: str) -> PaiError:
        """Return the error that ended ``post``; a PaiApiError now says whether the job was submitted.

        Args:
            error: The error that ``post`` raised.
            advice: The advice to the user if the job may have been submitted.
        """
        if not isinstance(error, PaiApiError):
            return error
        if self.may_be_submitted:
            return error.extended(f"job {self._name} may have been submitted; {advice}")
        return error.reworded(f"job {self._name!r} was not submitted: {error}")


def _may_be_accepted(error: Exception) -> bool:
    """Return whether a submission with this error may have been accepted."""
    if isinstance(error, ClusterUnreachable):
        return error.answer_lost
    return isinstance(error, (ServerFault, InvalidReply))
