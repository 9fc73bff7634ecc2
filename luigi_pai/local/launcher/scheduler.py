"""Virtual clusters' resources, and the queue of jobs and single tasks waiting for them."""

from __future__ import annotations

import asyncio
import bisect
import heapq
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from luigi_pai.local.config.settings import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from luigi_pai.local.launcher.attempt import AttemptRun
    from luigi_pai.local.store.records import Job

_UNITS = {"cpu": "CPUs", "memory": "MB of memory", "gpu": "GPUs"}


@dataclass(frozen=True, eq=False)
class Allocation:
    """A running task's resources in a virtual cluster; ``gpus`` is a comma-separated list of numbers."""

    cluster: str
    resources: Resources
    gpus: str


@dataclass(frozen=True)
class InsufficientResources:
    """Why tasks cannot run now.

    Attributes:
        reason: the reason, as a sentence.
        permanent: whether the virtual cluster is too small even if no other task runs.
        machine_wide: whether the virtual cluster has enough resources, but this machine's task limit is
            reached.
    """

    reason: str
    permanent: bool = False
    machine_wide: bool = False


class Scheduler:
    """The resources of all virtual clusters.

    GPUs are numbered across all virtual clusters, from 0 in the first. A GPU runs one task at a time. At most
    ``max_tasks`` tasks run at once on this machine. A larger gang runs only when no other task is running.

    Attributes:
        allocations: the allocations of the running tasks.
    """

    def __init__(self, clusters: Mapping[str, Resources], max_tasks: int) -> None:
        self.clusters = clusters
        self._max_tasks = max_tasks
        self._used = dict.fromkeys(clusters, Resources())
        self._gpus: dict[str, range] = {}
        self.allocations: set[Allocation] = set()
        first = 0
        for name, capacity in clusters.items():
            self._gpus[name] = range(first, first + capacity.gpu)
            first += capacity.gpu

    @property
    def total(self) -> Resources:
        """The total resources of all virtual clusters."""
        return sum(self.clusters.values(), Resources())

    def used(self, cluster: str) -> Resources:
        """Return the resources used by a virtual cluster's running tasks."""
        return self._used.get(cluster, Resources())

    def allocate(
        self, cluster: str, requests: Sequence[Resources]
    ) -> list[Allocation] | InsufficientResources:
        """Allocate resources to a gang's tasks. If there are too few, allocate none and return why."""
        insufficient = self._insufficient(cluster, requests)
        if insufficient is not None:
            return insufficient
        free = self._free_gpus(cluster)
        allocations = []
        for request in requests:
            gpus = ",".join(map(str, free[: request.gpu]))
            del free[: request.gpu]
            allocations.append(self.restore(cluster, request, gpus))
        return allocations

    def restore(self, cluster: str, resources: Resources, gpus: str) -> Allocation:
        """Record the resources of a task that is already running, even if the virtual cluster has less."""
        allocation = Allocation(cluster, resources, gpus)
        self.allocations.add(allocation)
        self._used[cluster] = self.used(cluster) + resources
        return allocation

    def release(self, allocations: Iterable[Allocation]) -> None:
        """Release tasks' resources."""
        for allocation in allocations:
            self.allocations.remove(allocation)
            self._used[allocation.cluster] = self.used(allocation.cluster) - allocation.resources

    def never_fits(self, name: str, requests: Sequence[Resources]) -> InsufficientResources | None:
        """Return why a gang exceeds its virtual cluster; None if it does not."""
        capacity = self.clusters.get(name)
        if capacity is None:
            return InsufficientResources(f"there is no virtual cluster {name} any more", permanent=True)
        lacking = sum(requests, Resources()).beyond(capacity)
        if not lacking:
            return None
        has = asdict(capacity)
        more = ",".join(f"{key}={count}" for key, count in lacking.items())
        return InsufficientResources(
            f"virtual cluster {name} has {_listed({key: has[key] for key in lacking})} in all, "
            f"the job wants {_listed(lacking)}: it can never run. Stop it, and ask for less or "
            f"start the local server with --virtual-cluster {name}:{more}",
            permanent=True,
        )

    def _insufficient(self, name: str, requests: Sequence[Resources]) -> InsufficientResources | None:
        never = self.never_fits(name, requests)
        if never is not None:
            return never
        total, capacity = sum(requests, Resources()), self.clusters[name]
        free = replace(capacity - self.used(name), gpu=len(self._free_gpus(name)))
        lacking = total.beyond(free)
        if lacking:
            there, has = asdict(free), asdict(capacity)
            left = _listed({key: f"{max(0, there[key])} of {has[key]}" for key in lacking})
            return InsufficientResources(
                f"virtual cluster {name} has {left} free, the job wants {_listed(lacking)}"
            )
        running = len(self.allocations)
        if running and running + len(requests) > self._max_tasks:
            return InsufficientResources(
                f"{running} of at most {self._max_tasks} tasks run on this machine", machine_wide=True
            )
        return None

    def _free_gpus(self, cluster: str) -> list[int]:
        """Return the free GPUs' numbers, lowest first."""
        used = {number for allocation in self.allocations for number in allocation.gpus.split(",")}
        return [number for number in self._gpus[cluster] if str(number) not in used]


def _listed(counts: Mapping[str, object]) -> str:
    """Return resource counts in words, such as ``2 CPUs and 1 GPU``."""
    return " and ".join(
        f"{count} {_UNITS[key].removesuffix('s') if count == 1 else _UNITS[key]}"
        for key, count in counts.items()
    )


class JobQueue:
    """The waiting jobs, and why each job waits.

    Jobs in one virtual cluster start in the order of submission. A job that can never fit does not block
    other jobs. A job waiting because of the machine-wide task limit blocks all later jobs.

    Args:
        scheduler: the virtual clusters' resources.
        start: called with a job that has left the queue, and its tasks' allocations by task number.
        insufficient: called once, not on every try, if the next job needs more of its virtual cluster's
            resources, or if a job can never fit.

    Attributes:
        closed: True once no more jobs start.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        start: Callable[[Job, dict[int, Allocation]], None],
        insufficient: Callable[[Job, InsufficientResources], None],
    ) -> None:
        self._scheduler = scheduler
        self._start_job = start
        self._insufficient = insufficient
        self._jobs: dict[int, Job] = {}
        self._ready: dict[str, list[int]] = {}  # ids of jobs that may start, by virtual cluster, in order
        self._delays: dict[int, asyncio.TimerHandle] = {}
        self._reasons: dict[int, str] = {}
        self._reported: set[int] = set()
        self.closed = False

    def __len__(self) -> int:
        return len({*self._jobs, *self._delays, *self._reasons, *self._reported})

    def add(self, job: Job) -> None:
        """Add a job. If it is a gang that can never fit, report that at once, even if jobs are ahead."""
        self._jobs[job.id] = job
        never = self._scheduler.never_fits(job.virtual_cluster, _requests(job)) if job.gang else None
        if never is None:
            self._enqueue(job)
        else:
            self._set_reason(job, never)

    def delay(self, job: Job, seconds: float, reason: str, over: Callable[[], None]) -> None:
        """Add a job that must not start for ``seconds``; after that, call ``over``."""
        self._leave(job)
        self._jobs[job.id] = job
        self._reasons[job.id] = reason
        if not self.closed:

            def end() -> None:
                self._delays.pop(job.id, None)
                self._reasons.pop(job.id, None)
                self._enqueue(job)
                over()

            self._delays[job.id] = asyncio.get_running_loop().call_later(seconds, end)

    def remove(self, job: Job) -> None:
        """Remove a job, and the reason why the job or its tasks waited."""
        self._leave(job)
        self._reported.discard(job.id)

    def _leave(self, job: Job) -> None:
        if self._jobs.pop(job.id, None) is not None:
            self._dequeue(job)
        self._reasons.pop(job.id, None)
        handle = self._delays.pop(job.id, None)
        if handle is not None:
            handle.cancel()

    def _enqueue(self, job: Job) -> None:
        self._dequeue(job)
        bisect.insort(self._ready.setdefault(job.virtual_cluster, []), job.id)

    def _dequeue(self, job: Job) -> None:
        ids = self._ready.get(job.virtual_cluster, [])
        place = bisect.bisect_left(ids, job.id)
        if ids[place : place + 1] == [job.id]:
            del ids[place]

    def get(self, job_id: int) -> Job | None:
        """Return a waiting job, or None."""
        return self._jobs.get(job_id)

    def why(self, job: Job) -> str | None:
        """Return why a job or one of its tasks waits; None if none of them waits."""
        if job.id in self._jobs and job.id not in self._reasons:
            ahead = bisect.bisect_left(self._ready.get(job.virtual_cluster, []), job.id)
            place = (
                "it is the next"
                if not ahead
                else f"{ahead} {'job is' if ahead == 1 else 'jobs are'} before it"
            )
            return f"{place} in virtual cluster {job.virtual_cluster}"
        return self._reasons.get(job.id)

    def close(self) -> None:
        """Start no more jobs."""
        self.closed = True
        for handle in self._delays.values():
            handle.cancel()

    def schedule(self, runs: Mapping[int, AttemptRun]) -> None:
        """Start the next jobs, and allocate resources to the next waiting tasks, as far as resources allow.

        In each virtual cluster, only the first job is tried. The job behind it is tried only after the first
        job has started or turned out never to fit, so a long queue costs no time. A job that can never fit
        is not tried again. ``runs`` maps job ids to running attempts; an attempt may have waiting tasks.
        """
        if self.closed:
            return
        with_waiting_tasks = {job_id: run for job_id, run in runs.items() if run.waiting}
        next_ids = [*with_waiting_tasks, *(ids[0] for ids in self._ready.values() if ids)]
        heapq.heapify(next_ids)
        blocked: set[str] = set()  # virtual clusters
        while next_ids:
            job_id = heapq.heappop(next_ids)
            run = with_waiting_tasks.get(job_id)
            job = self._jobs[job_id] if run is None else run.job
            if job.virtual_cluster in blocked:
                continue
            insufficient = self._try_to_begin(job) if run is None else self._allocate_waiting(run)
            if insufficient is not None and not insufficient.permanent:
                if insufficient.machine_wide:
                    return
                blocked.add(job.virtual_cluster)
            elif run is None:
                self._dequeue(job)  # it has started, or never will start
                if self._ready[job.virtual_cluster]:
                    heapq.heappush(next_ids, self._ready[job.virtual_cluster][0])

    def _try_to_begin(self, job: Job) -> InsufficientResources | None:
        """Start a gang if all its tasks fit, or another job if any task fits. Return why other tasks wait."""
        allocated, insufficient = self._allocate(job, _requests(job))
        starts = bool(allocated) or insufficient is None
        if starts:
            self.remove(job)
        self._set_reason(job, insufficient)
        if starts:
            self._start_job(job, allocated)
        return insufficient

    def _allocate_waiting(self, run: AttemptRun) -> InsufficientResources | None:
        tasks = list(run.waiting)
        allocated, insufficient = self._allocate(run.job, [run.request(task) for task in tasks])
        for number, allocation in allocated.items():
            run.allocate(tasks[number], allocation)
        self._set_reason(run.job, insufficient)
        return insufficient

    def _allocate(
        self, job: Job, requests: Sequence[Resources]
    ) -> tuple[dict[int, Allocation], InsufficientResources | None]:
        """Allocate resources to a whole gang or, without a gang, to each task that fits.

        Also return why other tasks wait.
        """
        if job.gang:
            gang = self._scheduler.allocate(job.virtual_cluster, requests)
            if isinstance(gang, InsufficientResources):
                return {}, gang
            return dict(enumerate(gang)), None
        allocated: dict[int, Allocation] = {}
        insufficient: InsufficientResources | None = None
        unfit: set[Resources] = set()
        for number, request in enumerate(requests):
            if request in unfit:
                continue
            result = self._scheduler.allocate(job.virtual_cluster, [request])
            if not isinstance(result, InsufficientResources):
                allocated[number] = result[0]
                continue
            if result.machine_wide:
                return allocated, result
            unfit.add(request)
            if insufficient is None or insufficient.permanent:  # keep the first temporary reason
                insufficient = result
        return allocated, insufficient

    def _set_reason(self, job: Job, insufficient: InsufficientResources | None) -> None:
        """Set why a job waits. Report the first reason that is not the machine-wide limit."""
        if insufficient is None:
            self._reasons.pop(job.id, None)
            return
        self._reasons[job.id] = insufficient.reason
        if job.id not in self._reported and not insufficient.machine_wide:
            self._reported.add(job.id)
            self._insufficient(job, insufficient)


def _requests(job: Job) -> list[Resources]:
    return [Resources.from_role(role) for role in job.roles for _ in range(role["taskNumber"])]
