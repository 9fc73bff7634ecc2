"""Who is next: the order of those that wait."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from event_loop import in_a_loop

from luigi_pai.local.config.virtual_clusters import Resources, virtual_clusters
from luigi_pai.local.launcher.job_queue import WaitingLine
from luigi_pai.local.launcher.scheduler import Scheduler

NEVER = (
    "virtual cluster default has 4 CPUs in all, the job wants 5 CPUs: it can never run. "
    "Stop it, and ask for less or start the local server with --virtual-cluster default:cpu=5"
)


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
        """Add a job of so many tasks that want so many CPUs; or of one each for a list of CPUs."""
        wanted = cpu if isinstance(cpu, list) else [cpu]
        roles = [{"taskNumber": tasks, "cpuNumber": one, "memoryMB": 1, "gpuNumber": 0} for one in wanted]
        job = {"id": number, "virtual_cluster": cluster, "generation": 1, "roles": roles, **more}
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
    assert line.told == [(2, "virtual cluster default has 1 of 4 CPUs free, the job wants 2 CPUs")]
    line.end(1)
    assert line.moved() == [2, 3]


def test_one_that_never_fits_is_told_at_once_whoever_is_before_it(line):
    """Not when it is its turn; it never has one."""
    line.put(1, 4)
    line.put(2, 4)
    line.moved()
    told = list(line.told)
    job = line.put(3, 5)
    assert line.told == [*told, (3, NEVER)]
    assert line.why(job) == NEVER
    line.end(1)
    assert line.moved() == [2]
    line.remove(job)
    assert line.why(job) is None


def test_one_that_never_fits_holds_nobody_up(line):
    """Nor one whose virtual cluster is gone."""
    large, gone = line.put(1, 5), line.put(2, 1, cluster="old")
    line.put(3, 4)
    assert line.moved() == [3]
    assert line.why(large) == NEVER
    assert line.why(gone) == "there is no virtual cluster old any more"


def test_the_bound_of_the_machine_holds_everybody_up():
    """Or a large job would never find the machine empty; it is no event of the cluster."""
    line = Line("default:cpu=9", "b:cpu=9", max_tasks=3)
    for number, tasks, cluster in ((1, 2, "default"), (2, 5, "default"), (3, 1, "b")):
        job = line.put(number, 1, tasks, cluster)
    assert line.moved() == [1]
    assert line.told == []
    assert line.why(job) == "it is the next in virtual cluster b"
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


LOOSE = {"generation": 2, "spec": {"gang": False}}


@pytest.mark.parametrize(("wanted", "began"), [([3, 1], [1]), ([5, 3, 2], [2]), ([5, 3], []), ([5, 1], [1])])
def test_every_task_that_fits_begins(wanted, began, line):
    """Where there is no gang, one that does not fit, now or ever, does not hold up the next one."""
    line.put(0, 2)
    line.moved()
    line.put(1, wanted, **LOOSE)
    line.moved()
    assert [number for _, placed in line.began[1:] for number in placed] == began


@pytest.mark.parametrize("wanted", [[5, 3], [3, 5], [5, 3, 5, 4]])
def test_what_passes_is_said_of_a_job_before_what_does_not(wanted, line):
    """A job of both kinds of tasks does not wait for ever, and holds up those behind it."""
    line.put(0, 2)
    line.moved()
    job = line.put(1, wanted, **LOOSE)
    line.put(2, 1)
    assert line.moved() == []
    assert line.why(job) == "virtual cluster default has 2 of 4 CPUs free, the job wants 3 CPUs"


def test_tasks_that_fit_begin_whatever_waits_before_them(line):
    """The same for a job that goes on."""
    placed = []
    tasks = [SimpleNamespace(cpu=cpu) for cpu in (5, 3, 3, 2)]

    def place(task, holding):
        placed.append((task.cpu, holding))
        tasks.remove(task)

    def wanted(task):
        return Resources(cpu=task.cpu)

    job = SimpleNamespace(id=1, virtual_cluster="default", generation=2)
    line.put(0, 2)
    line.moved()
    line.move({1: SimpleNamespace(job=job, waiting=tasks, place=place, wanted=wanted)})
    assert [cpu for cpu, _ in placed] == [2]
    assert line.told == [(1, "virtual cluster default has 2 of 4 CPUs free, the job wants 3 CPUs")]


def test_a_job_is_told_once_why_it_waits(line):
    """However often it is looked at, and whatever the numbers are by then; when it waits again, again."""
    for number in range(4):
        line.put(number, 1)
    line.moved()
    large = line.put(4, 4)
    for number in range(3):
        assert line.moved() == []
        assert line.why(large) == (
            f"virtual cluster default has {number} of 4 CPUs free, the job wants 4 CPUs"
        )
        line.end(number)
    assert line.told == [(4, "virtual cluster default has 0 of 4 CPUs free, the job wants 4 CPUs")]
    line.end(3)
    assert line.moved() == [4]
    line.put(5, 1)
    line.moved()
    assert [number for number, _ in line.told] == [4, 5]
    assert line.why(large) is None


def test_a_job_that_waited_for_the_machine_is_told_when_it_waits_for_its_cluster():
    """The bound of tasks is nothing that a cluster says."""
    line = Line("default:cpu=2", "b:cpu=2", max_tasks=2)
    line.put(1, 1, tasks=2, cluster="b")
    line.moved()
    job = line.put(2, 2)
    line.moved()
    assert (line.why(job), line.told) == ("2 of at most 2 tasks run on this machine", [])
    line.end(1)
    line.scheduler.take("default", [Resources(cpu=1)])
    line.moved()
    assert line.told == [(2, "virtual cluster default has 1 of 2 CPUs free, the job wants 2 CPUs")]


def test_what_is_known_of_a_job_is_forgotten_when_it_waits_no_longer(line):
    """Or a server that runs for weeks would keep something of each job."""
    line.put(0, 3)
    jobs = [line.put(1, 2), line.put(2, 9), line.put(3, [2, 1], **LOOSE), line.put(4, 1, cluster="old")]
    line.moved()
    for job in jobs:
        line.remove(job)
    assert (line._jobs, line._reasons, line._told, line._delays) == ({}, {}, set(), {})
    assert not any(line._ready.values())
    line.put(1, 1)
    assert line.moved() == [1]


def test_a_job_that_never_fits_is_not_looked_at_again(line, monkeypatch):
    """A thousand of them cost nothing whenever a task ends; nor do those behind one that waits."""
    looked = []
    take = line.scheduler.take
    monkeypatch.setattr(
        line.scheduler, "take", lambda cluster, wanted: looked.append(wanted) or take(cluster, wanted)
    )
    for number in range(1000):
        line.put(number, 5)
    for number in range(1000, 2000):
        line.put(number, 3)
    assert line.moved() == [1000]
    looked.clear()
    assert line.moved() == []
    line.end(1000)
    assert line.moved() == [1001]
    assert len(looked) == 3
    assert len(line.told) == 1002


def test_a_small_job_of_another_cluster_is_not_starved_by_a_large_one_that_waits(line):
    """Each virtual cluster has a line of its own, whoever is first in the other."""
    line.put(1, 4)
    line.moved()
    line.put(2, 4)
    for number in range(3, 9):
        line.put(number, 2, cluster="b")
    began = []
    for _ in range(6):
        (number,) = line.moved()
        began.append(number)
        line.end(number)
    assert began == [3, 4, 5, 6, 7, 8]


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
    assert line.why(job) == "virtual cluster default has 1 of 4 CPUs free, the job wants 3 CPUs"
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

    in_a_loop(delayed())
