"""The order in which waiting jobs begin."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from luigi_pai.local.config.settings import Resources, virtual_clusters
from luigi_pai.local.launcher.scheduler import JobQueue, Scheduler

NEVER = (
    "virtual cluster default has 4 CPUs in all, the job wants 5 CPUs: it can never run. "
    "Stop it, and ask for less or start the local server with --virtual-cluster default:cpu=5"
)


class Queue(JobQueue):
    """A queue that records what it began, and for which jobs it reported why they wait."""

    def __init__(self, *clusters, max_tasks=64):
        self.began = []
        self.reported = []
        self.scheduler = Scheduler(virtual_clusters(clusters), max_tasks)
        super().__init__(
            self.scheduler,
            lambda job, allocated: self.began.append((job.id, allocated)),
            lambda job, insufficient: self.reported.append((job.id, insufficient.reason)),
        )

    def put(self, number, cpu, tasks=1, cluster="default", **more):
        """Add a job whose tasks need this number of CPUs each; for a list, one task for each number."""
        wanted = cpu if isinstance(cpu, list) else [cpu]
        roles = [{"taskNumber": tasks, "cpuNumber": one, "memoryMB": 1, "gpuNumber": 0} for one in wanted]
        job = {"id": number, "virtual_cluster": cluster, "gang": True, "roles": roles, **more}
        self.add(SimpleNamespace(**job))
        return self.get(number)

    def moved(self):
        """Return the ids of those that begin now."""
        before = len(self.began)
        self.schedule({})
        return [number for number, _ in self.began[before:]]

    def end(self, number):
        self.scheduler.release(dict(self.began)[number].values())


@pytest.fixture
def queue():
    """4 CPUs, and 2 in another virtual cluster."""
    return Queue("default:cpu=4", "b:cpu=2")


def test_jobs_of_a_virtual_cluster_begin_in_the_order_they_came(queue):
    """A small one does not overtake a large one that waits; another virtual cluster is not held up."""
    for number, cpu, cluster in ((1, 3, "default"), (2, 2, "default"), (3, 1, "default"), (4, 2, "b")):
        queue.put(number, cpu, cluster=cluster)
    assert queue.moved() == [1, 4]
    assert queue.moved() == []
    assert queue.reported == [(2, "virtual cluster default has 1 of 4 CPUs free, the job wants 2 CPUs")]
    queue.end(1)
    assert queue.moved() == [2, 3]


def test_one_that_never_fits_is_reported_at_once_wherever_it_is_in_the_queue(queue):
    """Not when it is its turn; it never has one."""
    queue.put(1, 4)
    queue.put(2, 4)
    queue.moved()
    told = list(queue.reported)
    job = queue.put(3, 5)
    assert queue.reported == [*told, (3, NEVER)]
    assert queue.why(job) == NEVER
    queue.end(1)
    assert queue.moved() == [2]
    queue.remove(job)
    assert queue.why(job) is None


def test_one_that_never_fits_blocks_no_other(queue):
    """Nor one whose virtual cluster is gone."""
    large, gone = queue.put(1, 5), queue.put(2, 1, cluster="old")
    queue.put(3, 4)
    assert queue.moved() == [3]
    assert queue.why(large) == NEVER
    assert queue.why(gone) == "there is no virtual cluster old any more"


def test_the_bound_of_the_machine_holds_everybody_up():
    """Or a large job would never find the machine empty; it is no event of the cluster."""
    queue = Queue("default:cpu=9", "b:cpu=9", max_tasks=3)
    for number, tasks, cluster in ((1, 2, "default"), (2, 5, "default"), (3, 1, "b")):
        job = queue.put(number, 1, tasks, cluster)
    assert queue.moved() == [1]
    assert queue.reported == []
    assert queue.why(job) == "it is the next in virtual cluster b"
    queue.end(1)
    assert queue.moved() == [2]
    queue.end(2)
    assert queue.moved() == [3]


@pytest.mark.parametrize(("gang", "began"), [(True, []), (False, [(1, [0, 1])])])
def test_a_job_without_gang_allocation_begins_with_what_fits(gang, began, queue):
    """By the numbers of its tasks; nobody overtakes the others."""
    queue.put(0, 2)
    queue.moved()
    queue.put(1, 1, 3, gang=gang)
    queue.put(2, 1)
    queue.moved()
    assert [(number, list(allocated)) for number, allocated in queue.began[1:]] == began


LOOSE = {"gang": False}


@pytest.mark.parametrize(("wanted", "began"), [([5, 3, 2], [2]), ([5, 3], [])])
def test_every_task_that_fits_begins(wanted, began, queue):
    """Where there is no gang, one that does not fit, now or ever, does not hold up the next one."""
    queue.put(0, 2)
    queue.moved()
    queue.put(1, wanted, **LOOSE)
    queue.moved()
    assert [number for _, allocated in queue.began[1:] for number in allocated] == began


def test_the_reason_to_wait_is_reported_once(queue):
    """However often it is looked at, and whatever the numbers are by then; when it waits again, again."""
    for number in range(4):
        queue.put(number, 1)
    queue.moved()
    large = queue.put(4, 4)
    for number in range(3):
        assert queue.moved() == []
        assert queue.why(large) == (
            f"virtual cluster default has {number} of 4 CPUs free, the job wants 4 CPUs"
        )
        queue.end(number)
    assert queue.reported == [(4, "virtual cluster default has 0 of 4 CPUs free, the job wants 4 CPUs")]
    queue.end(3)
    assert queue.moved() == [4]
    queue.put(5, 1)
    queue.moved()
    assert [number for number, _ in queue.reported] == [4, 5]
    assert queue.why(large) is None


def test_what_is_known_of_a_job_is_forgotten_when_it_waits_no_longer(queue):
    """Or a server that runs for weeks would keep something of each job."""
    queue.put(0, 3)
    jobs = [queue.put(1, 2), queue.put(2, 9), queue.put(3, [2, 1], **LOOSE), queue.put(4, 1, cluster="old")]
    queue.moved()
    for job in jobs:
        queue.remove(job)
    assert len(queue) == 0
    queue.put(1, 1)
    assert queue.moved() == [1]


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
    queue.end(1000)
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
    queue.end(3)
    assert queue.moved() == []
    await asyncio.wait_for(over.wait(), 5)
    assert queue.moved() == [1]
    queue.close()
    queue.put(4, 0)
    assert queue.moved() == []
