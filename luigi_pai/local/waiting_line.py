"""The jobs that wait for resources, and the tasks of those that need no gang: who is next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from luigi_pai.local.scheduler import Shortage
from luigi_pai.local.virtual_clusters import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from luigi_pai.local.attempt_run import AttemptRun
    from luigi_pai.local.records import Job
    from luigi_pai.local.scheduler import Holding, Scheduler

__all__ = ["WaitingLine"]


class WaitingLine:
    """Who waits, and why.

    Jobs of one virtual cluster are served in the order they came. One that can
    never run holds nobody up, and one that waits for the machine everybody.

    Args:
        scheduler: what there is.
        begin: called with a job and what its tasks have, by the task's number; it has left the line.
        short: called once for each job that has to wait for resources of its virtual cluster.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        begin: Callable[[Job, dict[int, Holding]], None],
        short: Callable[[Job, Shortage], None],
    ) -> None:
        self._scheduler = scheduler
        self._begin = begin
        self._short = short
        self._jobs: dict[int, Job] = {}
        self._delays: dict[int, asyncio.TimerHandle] = {}
        self._reasons: dict[int, str] = {}
        self._closed = False

    def add(self, job: Job) -> None:
        """Let a job wait."""
        self._jobs[job.id] = job

    def delay(self, job: Job, seconds: float, reason: str, over: Callable[[], None]) -> None:
        """Let a job wait, but not begin before so many seconds have passed; ``over`` is called then."""
        self._jobs[job.id] = job
        self._reasons[job.id] = reason
        if not self._closed:

            def end() -> None:
                self._delays.pop(job.id, None)
                self._reasons.pop(job.id, None)
                over()

            self._delays[job.id] = asyncio.get_running_loop().call_later(seconds, end)

    def remove(self, job: Job) -> None:
        """Let a job wait no longer."""
        self._jobs.pop(job.id, None)
        self._reasons.pop(job.id, None)
        handle = self._delays.pop(job.id, None)
        if handle is not None:
            handle.cancel()

    def get(self, job_id: int) -> Job | None:
        """Return a job that waits, or None."""
        return self._jobs.get(job_id)

    def why(self, job: Job) -> str | None:
        """Return why a job, or some task of it, waits; None if nothing of it does."""
        if job.id in self._jobs:
            return self._reasons.get(job.id, "jobs before it wait")
        return self._reasons.get(job.id)

    @property
    def closed(self) -> bool:
        """Whether nothing begins any more."""
        return self._closed

    def close(self) -> None:
        """Begin nothing any more."""
        self._closed = True
        for handle in self._delays.values():
            handle.cancel()

    def move(self, runs: Mapping[int, AttemptRun]) -> None:
        """Begin what can begin.

        Args:
            runs: the attempts that go on, by their jobs' ids; tasks of them may wait.
        """
        going = {job_id: run for job_id, run in runs.items() if run.waiting}
        if self._closed or (not going and len(self._jobs) == len(self._delays)):
            return
        full: set[str] = set()
        for job_id in sorted((self._jobs.keys() - self._delays.keys()) | going.keys()):
            run = going.get(job_id)
            job = self._jobs[job_id] if run is None else run.job
            if job.virtual_cluster in full:
                continue
            shortage = self._admit(job) if run is None else self._seat(run)
            self._say(job, shortage)
            if shortage is None or shortage.for_ever:
                continue
            if shortage.everywhere:
                return
            full.add(job.virtual_cluster)
            if len(full) == len(self._scheduler.clusters):
                return

    def _admit(self, job: Job) -> Shortage | None:
        """Begin a job: with all of its tasks or, without gang allocation, with those that fit."""
        wanted = [Resources.of_role(role) for role in job.roles for _ in range(role["taskNumber"])]
        placed: dict[int, Holding] = {}
        shortage: Shortage | None = None
        if job.generation == 1 or job.spec["gang"]:
            got = self._scheduler.take(job.virtual_cluster, wanted)
            if isinstance(got, Shortage):
                return got
            placed = dict(enumerate(got))
        else:
            for number, one in enumerate(wanted):
                got = self._scheduler.take(job.virtual_cluster, [one])
                if not isinstance(got, Shortage):
                    placed[number] = got[0]
                    continue
                if shortage is None or shortage.for_ever:  # one that passes says more than one that does not
                    shortage = got
                if got.everywhere:
                    shortage = got
                    break
            if shortage is not None and not placed:
                return shortage
        self.remove(job)
        self._begin(job, placed)
        return shortage

    def _seat(self, run: AttemptRun) -> Shortage | None:
        """Give waiting tasks of an attempt what they need, as long as there is enough."""
        shortage: Shortage | None = None
        for task in list(run.waiting):
            got = self._scheduler.take(run.job.virtual_cluster, [run.wanted(task)])
            if not isinstance(got, Shortage):
                run.place(task, got[0])
                continue
            if shortage is None or shortage.for_ever:
                shortage = got
            if got.everywhere:
                return got
        return shortage

    def _say(self, job: Job, shortage: Shortage | None) -> None:
        """Keep why a job waits, and tell it the first time, unless the bound of the machine is all."""
        if shortage is None:
            if job.id not in self._delays:
                self._reasons.pop(job.id, None)
            return
        known = job.id in self._reasons
        self._reasons[job.id] = shortage.reason
        if not known and not shortage.everywhere:
            self._short(job, shortage)
