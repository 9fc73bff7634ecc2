"""The jobs that wait for resources, and the tasks of those that need no gang: who is next."""

from __future__ import annotations

import asyncio
import bisect
import heapq
from typing import TYPE_CHECKING

from luigi_pai.local.config.virtual_clusters import Resources
from luigi_pai.local.launcher.scheduler import Shortage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from luigi_pai.local.launcher.attempt import AttemptRun
    from luigi_pai.local.launcher.scheduler import Holding, Scheduler
    from luigi_pai.local.store.records import Job

__all__ = ["WaitingLine"]


class WaitingLine:
    """Who waits, and why.

    Jobs of one virtual cluster are served in the order they came. One that can
    never run holds nobody up, and one that waits for the machine everybody.

    Args:
        scheduler: what there is.
        begin: called with a job and what its tasks have, by the task's number; it has left the line.
        short: called once for each job whose turn it is and that has to wait for resources of its
            virtual cluster, and for each that waits in vain.
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
        self._ready: dict[str, list[int]] = {}  # by virtual cluster, those that may begin, in order
        self._delays: dict[int, asyncio.TimerHandle] = {}
        self._reasons: dict[int, str] = {}
        self._told: set[int] = set()
        self._closed = False

    def add(self, job: Job) -> None:
        """Let a job wait; one that can never run is told at once, whoever is before it."""
        self._jobs[job.id] = job
        never = self._scheduler.never(job.virtual_cluster, _wanted(job)) if _is_gang(job) else None
        if never is None:
            self._queue(job)
        else:
            self._say(job, never)

    def delay(self, job: Job, seconds: float, reason: str, over: Callable[[], None]) -> None:
        """Let a job wait, but not begin before so many seconds have passed; ``over`` is called then."""
        self._leave(job)
        self._jobs[job.id] = job
        self._reasons[job.id] = reason
        if not self._closed:

            def end() -> None:
                self._delays.pop(job.id, None)
                self._reasons.pop(job.id, None)
                self._queue(job)
                over()

            self._delays[job.id] = asyncio.get_running_loop().call_later(seconds, end)

    def remove(self, job: Job) -> None:
        """Let a job, and the tasks of it that wait, wait no longer."""
        self._leave(job)
        self._told.discard(job.id)

    def _leave(self, job: Job) -> None:
        if self._jobs.pop(job.id, None) is not None:
            self._unqueue(job)
        self._reasons.pop(job.id, None)
        handle = self._delays.pop(job.id, None)
        if handle is not None:
            handle.cancel()

    def _queue(self, job: Job) -> None:
        ids = self._ready.setdefault(job.virtual_cluster, [])
        place = bisect.bisect_left(ids, job.id)
        if ids[place : place + 1] != [job.id]:
            ids.insert(place, job.id)

    def _unqueue(self, job: Job) -> None:
        ids = self._ready.get(job.virtual_cluster, [])
        place = bisect.bisect_left(ids, job.id)
        if ids[place : place + 1] == [job.id]:
            del ids[place]
        if not ids:
            self._ready.pop(job.virtual_cluster, None)

    def get(self, job_id: int) -> Job | None:
        """Return a job that waits, or None."""
        return self._jobs.get(job_id)

    def why(self, job: Job) -> str | None:
        """Return why a job, or some task of it, waits; None if nothing of it does."""
        if job.id in self._jobs and job.id not in self._reasons:
            ahead = bisect.bisect_left(self._ready.get(job.virtual_cluster, []), job.id)
            place = (
                "it is the next"
                if not ahead
                else f"{ahead} {'job is' if ahead == 1 else 'jobs are'} before it"
            )
            return f"{place} in virtual cluster {job.virtual_cluster}"
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

        Looks at the first of each virtual cluster only, and at the next when that one has begun, so
        that those behind cost nothing. One that can never run is not looked at again.

        Args:
            runs: the attempts that go on, by their jobs' ids; tasks of them may wait.
        """
        if self._closed:
            return
        going = {job_id: run for job_id, run in runs.items() if run.waiting}
        next_ones = [*going, *(ids[0] for ids in self._ready.values())]
        heapq.heapify(next_ones)
        full: set[str] = set()
        while next_ones:
            job_id = heapq.heappop(next_ones)
            run = going.get(job_id)
            job = self._jobs[job_id] if run is None else run.job
            if job.virtual_cluster in full:
                continue
            shortage = self._admit(job) if run is None else self._seat(run)
            if shortage is not None and not shortage.for_ever:
                if shortage.everywhere:
                    return
                full.add(job.virtual_cluster)
            elif run is None:
                self._unqueue(job)  # it has begun, or never will
                if job.virtual_cluster in self._ready:
                    heapq.heappush(next_ones, self._ready[job.virtual_cluster][0])

    def _admit(self, job: Job) -> Shortage | None:
        """Begin a job: with all of its tasks or, without gang allocation, with those that fit."""
        wanted = _wanted(job)
        placed: dict[int, Holding] = {}
        shortage: Shortage | None = None
        if _is_gang(job):
            got = self._scheduler.take(job.virtual_cluster, wanted)
            if isinstance(got, Shortage):
                shortage = got
            else:
                placed = dict(enumerate(got))
        else:
            shortage = self._take_one_by_one(job.virtual_cluster, wanted, placed.__setitem__)
        if placed or shortage is None:
            self.remove(job)
        self._say(job, shortage)
        if placed or shortage is None:
            self._begin(job, placed)
        return shortage

    def _seat(self, run: AttemptRun) -> Shortage | None:
        """Give waiting tasks of an attempt what they need, as long as there is enough."""
        tasks = list(run.waiting)
        wanted = [run.wanted(task) for task in tasks]
        shortage = self._take_one_by_one(
            run.job.virtual_cluster, wanted, lambda number, holding: run.place(tasks[number], holding)
        )
        self._say(run.job, shortage)
        return shortage

    def _take_one_by_one(
        self, cluster: str, wanted: Sequence[Resources], give: Callable[[int, Holding], None]
    ) -> Shortage | None:
        """Give tasks what they want, those that have room, and return why the others wait."""
        shortage: Shortage | None = None
        in_vain: set[Resources] = set()
        for number, one in enumerate(wanted):
            if one in in_vain:
                continue
            got = self._scheduler.take(cluster, [one])
            if not isinstance(got, Shortage):
                give(number, got[0])
                continue
            if got.everywhere:
                return got
            in_vain.add(one)
            if shortage is None or shortage.for_ever:  # one that passes says more than one that does not
                shortage = got
        return shortage

    def _say(self, job: Job, shortage: Shortage | None) -> None:
        """Keep why a job waits, and tell it once, unless the bound of the machine is all."""
        if shortage is None:
            self._reasons.pop(job.id, None)
            return
        self._reasons[job.id] = shortage.reason
        if job.id not in self._told and not shortage.everywhere:
            self._told.add(job.id)
            self._short(job, shortage)


def _wanted(job: Job) -> list[Resources]:
    """Return what each task of a job wants, in the order of roles and indexes."""
    return [Resources.of_role(role) for role in job.roles for _ in range(role["taskNumber"])]


def _is_gang(job: Job) -> bool:
    return job.generation == 1 or bool(job.spec["gang"])
