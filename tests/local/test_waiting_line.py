"""Who is next: the order of those that wait."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from luigi_pai.local.scheduler import Scheduler
from luigi_pai.local.virtual_clusters import Resources, virtual_clusters
from luigi_pai.local.waiting_line import WaitingLine


class Line(WaitingLine):
    """A line that remembers what it began, and whom it told why they wait."""

    def __init__(self, *clusters, max_tasks=64):
        self.began = []
        self.told = []
        self.scheduler = Scheduler(virtual_clusters(clusters), max_tasks)
        super().__init__(
            self.scheduler,
            lambda job, placed: self.began.append((job.id, placed)),
            lambda job, shortage: self.told.append((job.id, shortage.reason)),
        )

    def put(self, number, cpu, tasks=1, cluster="default", **more):
        role = {"taskNumber": tasks, "cpuNumber": cpu, "memoryMB": 1, "gpuNumber": 0}
        job = {"id": number, "virtual_cluster": cluster, "generation": 1, "roles": [role], **more}
        self.add(SimpleNamespace(**job))
        return self.get(number)

    def moved(self):
        """Return the ids of those that begin now."""
        before = len(self.began)
        self.move({})
        return [number for number, _ in self.began[before:]]

    def end(self, number):
        self.scheduler.release(dict(self.began)[number].values())


@pytest.fixture
def line():
    """4 CPUs, and 2 in another virtual cluster."""
    return Line("default:cpu=4", "b:cpu=2")


def test_jobs_of_a_virtual_cluster_begin_in_the_order_they_came(line):
    """A small one does not overtake a large one that waits; another virtual cluster is not held up."""
    for number, cpu, cluster in ((1, 3, "default"), (2, 2, "default"), (3, 1, "default"), (4, 2, "b")):
        line.put(number, cpu, cluster=cluster)
    assert line.moved() == [1, 4]
    assert line.moved() == []
    assert line.told == [(2, "virtual cluster default has no room now: 2 CPUs wanted, 1 free")]
    line.end(1)
    assert line.moved() == [2, 3]


def test_one_that_never_fits_holds_nobody_up(line):
    """Nor one whose virtual cluster is gone."""
    large, gone = line.put(1, 5), line.put(2, 1, cluster="old")
    line.put(3, 4)
    assert line.moved() == [3]
    assert line.why(large) == "it does not fit into virtual cluster default: 5 CPUs wanted, 4 there"
    assert line.why(gone) == "there is no virtual cluster old any more"


def test_the_bound_of_the_machine_holds_everybody_up():
    """Or a large job would never find the machine empty; it is no event of the cluster."""
    line = Line("default:cpu=9", "b:cpu=9", max_tasks=3)
    for number, tasks, cluster in ((1, 2, "default"), (2, 5, "default"), (3, 1, "b")):
        job = line.put(number, 1, tasks, cluster)
    assert line.moved() == [1]
    assert line.told == []
    assert line.why(job) == "jobs before it wait"
    line.end(1)
    assert line.moved() == [2]
    line.end(2)
    assert line.moved() == [3]


@pytest.mark.parametrize(("gang", "began"), [(True, []), (False, [(1, [0, 1])])])
def test_a_job_without_gang_allocation_begins_with_what_fits(gang, began, line):
    """By the numbers of its tasks; nobody overtakes the others."""
    line.put(0, 2)
    line.moved()
    line.put(1, 1, 3, generation=2, spec={"gang": gang})
    line.put(2, 1)
    line.moved()
    assert [(number, list(placed)) for number, placed in line.began[1:]] == began


def test_tasks_that_wait_come_before_later_jobs(line):
    """In the place of their job."""
    placed = []
    tasks = [SimpleNamespace(wanted=1), SimpleNamespace(wanted=1)]
    job = SimpleNamespace(id=1, virtual_cluster="default", generation=2)
    from_role = {"cpuNumber": 3, "memoryMB": 1, "gpuNumber": 0}

    def place(task, holding):
        placed.append(holding)
        tasks.remove(task)

    run = SimpleNamespace(job=job, waiting=tasks, place=place, wanted=lambda _: Resources.of_role(from_role))
    line.put(2, 1)
    line.move({1: run})
    assert (len(placed), line.began) == (1, [])
    assert line.why(job) == "virtual cluster default has no room now: 3 CPUs wanted, 1 free"
    line.scheduler.release(placed)
    line.move({1: run})
    assert (len(placed), len(line.began), line.why(job)) == (2, 1, None)


def test_a_job_that_is_delayed_lets_others_pass():
    """Until its time has come, or it is taken out."""

    async def delayed():
        line = Line("default:cpu=1")
        over = asyncio.Event()
        first, second = line.put(1, 1), line.put(2, 1)
        line.delay(first, 0.02, "in a moment", over.set)
        line.delay(second, 60, "later", over.set)
        line.put(3, 1)
        assert line.moved() == [3]
        assert [line.why(job) for job in (first, second)] == ["in a moment", "later"]
        line.remove(second)
        line.end(3)
        assert line.moved() == []
        await asyncio.wait_for(over.wait(), 5)
        assert line.moved() == [1]
        line.close()
        line.put(4, 0)
        assert line.moved() == []

    with ThreadPoolExecutor() as threads:  # this one's event loop is left to others
        threads.submit(asyncio.run, delayed()).result()
