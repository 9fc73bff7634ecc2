"""The attempts of one job: NAME, NAME__attempt2, ... found, taken over, submitted once.

A server keeps a name for ever, so a job that failed is submitted again under
the next attempt's name. Whatever is lost on the way, a name is posted again
only after the server has said that it does not know it.
"""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING

from luigi_pai.api.client import Sighting
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.api.watch import FAULTS, Patience, Pause
from luigi_pai.errors import (
    ClusterUnreachable,
    InvalidReply,
    JobNotFound,
    NameConflict,
    PaiNameTaken,
    RateLimited,
    ServerFault,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.client import PaiClient
    from luigi_pai.spec.job import PaiJob
    from luigi_pai.spec.protocol import JobProtocol

__all__ = ["Attempts", "attempt_name"]

logger = logging.getLogger("luigi-interface")

_RECENT = 30.0  # seconds for which a look at a job need not be taken again; a 409 corrects it
_SERVER_ERROR = 500  # unlike 502 to 504, it tends to mean that this job makes the server fail
_SERVER_ERRORS_BORNE = 3
_SHOWN_WITHIN = 10.0  # seconds that a server may need to show a job whose name it already refuses


def attempt_name(name: str, attempt: int) -> str:
    """Return the name of an attempt, counted from 1: ``NAME``, ``NAME__attempt2``, ..."""
    return name if attempt == 1 else f"{name}__attempt{attempt}"


class Attempts:
    """What the cluster knows of one job, under all its attempts' names.

    Args:
        client: the cluster and the user.
        name: the job's name.
        ran_before: asked when the server does not know the name: did the job
            run all the same, so that later attempts are worth a look?
    """

    def __init__(self, client: PaiClient, name: str, ran_before: Callable[[], bool]) -> None:
        self._client = client
        self._name = name
        self._ran_before = ran_before

    def newest(self) -> JobStatus | None:
        """Return the status of the newest attempt, or None if the server knows none.

        Looks at ``NAME``; if that failed, at ``NAME__attempt2``, and so on to
        the first that is unknown. If ``NAME`` itself is unknown but ran before
        (which only HDFS knows on a v1 cluster, and nobody on a v2 cluster), the
        server has forgotten it, and the user's list shows later attempts.
        The look begins at the newest attempt that this process has seen, and
        ends there if that was in the last seconds.

        Raises:
            PaiNameTaken: the name belongs to somebody else.
            PaiApiError: the server did not say.
        """
        known = self._client.sightings.get(self._name)
        attempt = max(known.attempt, 1) if known else 1
        status = self._status(attempt)
        if status is None and attempt > 1:
            attempt = 1
            status = self._status(attempt)
        if status is None and (self._client.speaks_v2 or self._ran_before()):
            attempt = self._latest_listed()
            status = self._status(attempt) if attempt else None
        just_seen = known is not None and attempt == known.attempt and known.age < _RECENT
        while status is not None and status.finished and not status.succeeded and not just_seen:
            later = self._status(attempt + 1)
            if later is None:
                break
            status, attempt = later, attempt + 1
        self._saw(attempt if status else 0, status, reusable=True)
        return status

    def last_look(self) -> JobStatus | None:
        """Return the newest attempt as a look of the last seconds found it, or else look.

        Luigi asks ``complete()`` right before ``run()``. That look is used once.
        """
        known = self._client.sightings.get(self._name)
        if known is not None and known.reusable and known.age < _RECENT:
            self._saw(known.attempt, known.status)
            return known.status
        return self.newest()

    def ensure(
        self,
        newest: JobStatus | None,
        make_job: Callable[[str, int], PaiJob | JobProtocol],
        patience: float,
        pause: Pause = time.sleep,
    ) -> tuple[JobStatus, bool]:
        """Return an attempt that runs or has succeeded, submitting one if there is none.

        Args:
            newest: what ``last_look`` returned.
            make_job: returns the job under an attempt's name, with that attempt's number.
            patience: how long faults are borne, in seconds.
            pause: waits between two tries.

        Returns:
            its status, and whether it was submitted by this call.

        Raises:
            PaiNameTaken: the name belongs to somebody else.
            PaiHttpError: the server refused the job.
            PaiApiError: nobody answers.
        """
        faults = Patience(patience, pause)
        refused_since: float | None = None
        while newest is None or (newest.finished and not newest.succeeded):
            attempt = self._client.sightings[self._name].attempt + 1
            name, spoke_v2 = self._attempt_name(attempt), self._client.speaks_v2
            job = make_job(name, attempt)
            submitted = self._submit(name, job, patience, pause)
            if submitted is not None:
                self._saw(attempt, submitted)
                return submitted, True
            # The look was out of date (the name is in use), or void (taken in the other dialect), or the
            # server does not show the job yet.
            self._client.sightings.pop(self._name, None)
            newest = faults.call(self.newest)
            learned = self._client.speaks_v2 != spoke_v2
            if not learned and self._client.sightings[self._name].attempt < attempt:
                refused_since = refused_since or time.monotonic()
                if time.monotonic() - refused_since > _SHOWN_WITHIN:
                    raise PaiNameTaken(
                        f"the server refuses the name {name!r} as in use, but shows no job of that "
                        "name; choose another name for the task"
                    )
                pause(1.0)
        return newest, False

    def ended(self, status: JobStatus) -> None:
        """Note the end of the attempt that ``ensure`` returned."""
        self._saw(self._client.sightings[self._name].attempt, status)

    def _submit(
        self, name: str, job: PaiJob | JobProtocol, patience: float, pause: Pause
    ) -> JobStatus | None:
        """Post a job until the server is known to have it.

        Returns:
            its status; or None when nothing was posted: the name was in use, or the server speaks the
            other dialect.
        """
        posts, looks = Patience(patience, pause), Patience(patience, pause)
        maybe_taken = False  # a post went out whose answer was lost
        failures = 0  # of the server itself
        while True:
            try:
                if not self._client.submit(job):
                    return None
                break
            except NameConflict:
                if not maybe_taken:
                    return None
                break
            except RateLimited as limit:
                posts.bear(limit)
            except FAULTS as fault:
                if isinstance(fault, ClusterUnreachable) and not self._client.answered:
                    raise  # nothing was ever to be had there: a wrong address, not an outage
                maybe_taken = True
                posts.bear(fault)
                there = looks.call(lambda: self._status_of(name))
                if there is not None:
                    logger.info("Job %s is on the server: its submission went through", name)
                    return there
                failures += isinstance(fault, ServerFault) and fault.status == _SERVER_ERROR
                if isinstance(fault, InvalidReply) or failures >= _SERVER_ERRORS_BORNE:
                    raise
        posts.answered()
        logger.info("Submitted job %s to %s", name, self._client.account.url)
        return self._first_status(name)

    def _first_status(self, name: str) -> JobStatus:
        """Look at a job that was just submitted; a server may not show it yet, or not answer."""
        try:
            status = self._status_of(name)
        except FAULTS:
            status = None
        return status or JobStatus(name, JobState.UNKNOWN, raw_state="SUBMITTED")

    def _status(self, attempt: int) -> JobStatus | None:
        return self._status_of(self._attempt_name(attempt))

    def _attempt_name(self, attempt: int) -> str:
        return attempt_name(self._client.job_name(self._name), attempt)

    def _status_of(self, name: str) -> JobStatus | None:
        try:
            status = self._client.status(name)
        except JobNotFound:
            return None
        if status.username is not None and status.username != self._client.account.username:
            raise PaiNameTaken(
                f"the name {name!r} belongs to a job of user {status.username!r} "
                f"({self._client.job_page(name, status.username)}); names are shared by all users of a "
                "cluster: choose another name for the task"
            )
        return status

    def _latest_listed(self) -> int:
        """Return the number of the latest attempt in the user's list, or 0."""
        pattern = re.compile(re.escape(self._client.job_name(self._name)) + r"__attempt([1-9]\d*)")
        jobs = self._client.recent_list() if self._client.speaks_v2 else self._client.list()
        matches = (pattern.fullmatch(row.name) for row in jobs)
        return max((int(match[1]) for match in matches if match), default=0)

    def _saw(self, attempt: int, status: JobStatus | None, *, reusable: bool = False) -> None:
        self._client.sightings[self._name] = Sighting(time.monotonic(), attempt, status, reusable)
