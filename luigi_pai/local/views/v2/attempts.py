"""The attempts of a v2 job as OpenPAI 1.8 counts them: one is there, with its tasks, while its job waits.

The store has an attempt from its begin on. What this adds is the one that a job
waits for, or that it waited for when it was stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.local.releases.exit_specs import EXIT_JOB_ENDED
from luigi_pai.local.store.records import Attempt, Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Job

__all__ = ["ShownAttempt", "earlier_attempts", "latest_attempt", "numbered_attempt"]


@dataclass(frozen=True)
class ShownAttempt:
    """An attempt.

    Attributes:
        index: its number as the API has it: 0 for the first.
        started: when it was decided on, in milliseconds since 1970 UTC.
        launched: when its tasks began; None while the job waits for it.
        tasks: its tasks, each at its latest try.
    """

    index: int
    started: int
    launched: int | None
    record: Attempt
    tasks: Sequence[Task]
    is_latest: bool


def latest_attempt(job: Job, store: Store) -> ShownAttempt:
    """Return the running attempt, the one that the job waits for, or the last one."""
    last = store.last_attempt(job)
    if last is not None and last.number > job.retries:
        return _shown(job, last, store.attempt(job, last.number - 1), store, is_latest=True)
    record = Attempt(0, job.id, job.retries + 1, 0, completed=job.completed, exit_code=job.exit_code)
    tasks = [
        Task(
            container_id="",
            attempt_id=0,
            role=role["name"],
            index=index,
            folder="",
            exit_code=None if job.completed is None else EXIT_JOB_ENDED,
            completed=job.completed,
        )
        for role in job.roles
        for index in range(role["taskNumber"])
    ]
    return ShownAttempt(job.retries, _started(job, last), job.completed, record, tasks, is_latest=True)


def numbered_attempt(job: Job, index: int, store: Store) -> ShownAttempt | None:
    """Return the attempt of a number, counted from 0; None if it does not exist."""
    if index == job.retries:
        return latest_attempt(job, store)
    record = store.attempt(job, index + 1)
    return None if record is None else _shown(job, record, store.attempt(job, index), store, is_latest=False)


def earlier_attempts(job: Job, store: Store) -> list[ShownAttempt]:
    """Return the attempts before the latest one, the first one first."""
    records = [record for record in store.attempts(job) if record.number <= job.retries]
    befores = [None, *records]
    return [
        _shown(job, record, before, store, is_latest=False)
        for record, before in zip(records, befores, strict=False)
    ]


def _shown(
    job: Job, record: Attempt, before: Attempt | None, store: Store, *, is_latest: bool
) -> ShownAttempt:
    return ShownAttempt(
        record.number - 1,
        _started(job, before),
        record.launched,
        record,
        store.tasks(record),
        is_latest,
    )


def _started(job: Job, before: Attempt | None) -> int:
    """Return when an attempt was decided on: with the job, or when the one before had ended."""
    return job.created if before is None else before.completed or before.launched
