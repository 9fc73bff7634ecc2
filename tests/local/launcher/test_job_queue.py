"""The order in which waiting jobs begin, and the resources that are handed out and taken back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
import yaml
from places import DATA

from luigi_pai.local.config.settings import Resources, virtual_clusters
from luigi_pai.local.launcher.scheduler import InsufficientResources, JobQueue, Scheduler

STORIES = yaml.safe_load((DATA / "local" / "scheduling.yaml").read_text("utf-8"))


def play(stage, steps):
    """Call a method of the stage for each step: its name and first argument, and what else it gets."""
    for step in steps:
        (method, first), *more = step.items()
        getattr(stage, method)(first, **dict(more))


class Queue(JobQueue):
    """A queue that records what it began, and for which jobs it reported why they wait."""

    def __init__(self, *clusters):
        self.began = []
        self.reported = []
        self.all = {}
        self.scheduler = Scheduler(virtual_clusters(clusters), 64)
        super().__init__(
            self.scheduler,
            lambda job, allocated: self.began.append((job.id, allocated)),
            lambda job, insufficient: self.reported.append([job.id, insufficient.reason]),
        )

    def resize(self, clusters, max_tasks):
        self.scheduler = self._scheduler = Scheduler(virtual_clusters(clusters), max_tasks)

    def put(self, number, cpu, tasks=1, cluster="default", **more):
        """Add a job whose tasks need this number of CPUs each; for a list, one task for each number."""
        wanted = cpu if isinstance(cpu, list) else [cpu]
        roles = [{"taskNumber": tasks, "cpuNumber": one, "memoryMB": 1, "gpuNumber": 0} for one in wanted]
        job = {"id": number, "virtual_cluster": cluster, "gang": True, "roles": roles, **more}
        self.all[number] = SimpleNamespace(**job)
        self.add(self.all[number])
        return self.all[number]

    def moved(self):
        """Return the ids of those that begin now."""
        before = len(self.began)
        self.schedule({})
        return [number for number, _ in self.began[before:]]

    def moves(self, numbers):
        assert self.moved() == numbers

    def allocates(self, numbers):
        assert [[number, list(allocated)] for number, allocated in self.began] == numbers

    def ends(self, number):
        self.scheduler.release(dict(self.began)[number].values())

    def removes(self, number):
        self.remove(self.all[number])

    def waits(self, number, because):
        assert self.why(self.all[number]) == because

    def reports(self, reasons):
        assert self.reported == reasons

    def holds(self, number):
        assert len(self) == number


class Room(Scheduler):
    """Two virtual clusters: GPUs 0 to 3 in one, 4 and 5 in the other; gangs have names."""

    def __init__(self):
        clusters = virtual_clusters(["default:cpu=4,memory=1000,gpu=4", "b:cpu=2,memory=1000,gpu=2"])
        super().__init__(clusters, max_tasks=5)
        self.gangs = {}

    def gets(self, gang, wants, gpus, cluster="default"):
        self.gangs[gang] = self.allocate(cluster, [Resources(*each) for each in wants])
        assert [one.gpus for one in self.gangs[gang]] == gpus

    def refuses(self, reason, wants, cluster="default", **more):
        found = self.allocate(cluster, [Resources(*each) for each in wants])
        assert found == InsufficientResources(reason, **more)

    def restores(self, gang, wants, gpus, cluster="default"):
        self.gangs[gang] = [self.restore(cluster, Resources(*wants), gpus)]

    def releases(self, gang):
        self.release(self.gangs[gang])

    def uses(self, resources, tasks):
        assert (self.used("default"), len(self.allocations)) == (Resources(*resources), tasks)


@pytest.fixture
def queue():
    """4 CPUs, and 2 in another virtual cluster."""
    return Queue("default:cpu=4", "b:cpu=2")


@pytest.mark.parametrize("rule", STORIES["queue"])
def test_waiting_jobs_begin_by_the_rules(rule, queue):
    """In order within a virtual cluster, as far as it and the machine have room."""
    play(queue, STORIES["queue"][rule])


@pytest.mark.parametrize("rule", STORIES["scheduler"])
def test_resources_are_handed_out_by_the_rules(rule):
    """What is refused says what is missing; each GPU has one task."""
    play(Room(), STORIES["scheduler"][rule])


def test_a_role_may_ask_for_less_than_nothing():
    """gpu: -1 is taken by 1.8."""
    role = {"cpuNumber": 2, "memoryMB": 3, "gpuNumber": -1}
    assert Resources.from_role(role) == Resources(2, 3, 0)


def test_a_job_that_never_fits_is_not_looked_at_again(queue, monkeypatch):
    """A thousand of them cost nothing whenever a task ends; nor do those behind one that waits."""
    looked = []
    allocate = queue.scheduler.allocate
    monkeypatch.setattr(
        queue.scheduler,
        "allocate",
        lambda cluster, requests: looked.append(requests) or allocate(cluster, requests),
    )
    for number in range(1000):
        queue.put(number, 5)
    for number in range(1000, 2000):
        queue.put(number, 3)
    assert queue.moved() == [1000]
    looked.clear()
    assert queue.moved() == []
    queue.ends(1000)
    assert queue.moved() == [1001]
    assert len(looked) == 3
    assert len(queue.reported) == 1002


def test_tasks_that_wait_come_before_later_jobs(queue):
    """In the place of their job."""
    allocated = []
    tasks = [SimpleNamespace(number=1), SimpleNamespace(number=2)]
    job = SimpleNamespace(id=1, virtual_cluster="default", gang=False)
    from_role = {"cpuNumber": 3, "memoryMB": 1, "gpuNumber": 0}

    def allocate(task, allocation):
        allocated.append(allocation)
        tasks.remove(task)

    run = SimpleNamespace(
        job=job, waiting=tasks, allocate=allocate, request=lambda _: Resources.from_role(from_role)
    )
    queue.put(2, 1)
    queue.schedule({1: run})
    assert (len(allocated), queue.began) == (1, [])
    assert queue.why(job) == "virtual cluster default has 1 of 4 CPUs free, the job wants 3 CPUs"
    queue.scheduler.release(allocated)
    queue.schedule({1: run})
    assert (len(allocated), len(queue.began), queue.why(job)) == (2, 1, None)


async def test_a_job_that_is_delayed_lets_others_pass():
    """Until its time has come, or it is taken out."""
    queue = Queue("default:cpu=1")
    over = asyncio.Event()
    first, second = queue.put(1, 1), queue.put(2, 1)
    queue.delay(first, 0.02, "in a moment", over.set)
    queue.delay(second, 60, "later", over.set)
    queue.put(3, 1)
    assert queue.moved() == [3]
    assert [queue.why(job) for job in (first, second)] == ["in a moment", "later"]
    queue.remove(second)
    queue.ends(3)
    assert queue.moved() == []
    await asyncio.wait_for(over.wait(), 5)
    assert queue.moved() == [1]
    queue.close()
    queue.put(4, 0)
    assert queue.moved() == []
