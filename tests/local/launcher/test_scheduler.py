"""What virtual clusters have, handed out and taken back."""

from __future__ import annotations

import pytest

from luigi_pai.local.config.settings import Resources, virtual_clusters
from luigi_pai.local.launcher.scheduler import InsufficientResources, Scheduler

ONE = Resources(cpu=1, memory=100)
GPU = Resources(cpu=1, memory=100, gpu=1)


@pytest.fixture
def scheduler():
    """Two virtual clusters: GPUs 0 to 3 in one, 4 and 5 in the other."""
    return Scheduler(
        virtual_clusters(["default:cpu=4,memory=1000,gpu=4", "b:cpu=2,memory=1000,gpu=2"]), max_tasks=5
    )


def taken(scheduler, cluster, *wanted):
    allocations = scheduler.allocate(cluster, wanted)
    assert not isinstance(allocations, InsufficientResources), allocations.reason
    return allocations


def test_a_gang_gets_everything_or_nothing(scheduler):
    """Nothing is held by one that does not fit."""
    taken(scheduler, "default", ONE, ONE)
    insufficient = scheduler.allocate("default", [ONE, ONE, ONE])
    assert insufficient == InsufficientResources(
        "virtual cluster default has 2 of 4 CPUs free, the job wants 3 CPUs"
    )
    assert (scheduler.used("default"), len(scheduler.allocations)) == (ONE + ONE, 2)
    taken(scheduler, "default", ONE, ONE)


def test_what_can_never_fit_is_distinguished(scheduler):
    """Whether anything runs or not; with the option that lets it run."""
    assert scheduler.allocate("default", [Resources(memory=1001, gpu=9)]) == InsufficientResources(
        "virtual cluster default has 1000 MB of memory and 4 GPUs in all, the job wants 1001 MB of memory "
        "and 9 GPUs: it can never run. Stop it, and ask for less or start the local server with "
        "--virtual-cluster default:memory=1001,gpu=9",
        permanent=True,
    )


def test_a_virtual_cluster_that_is_gone_has_no_room(scheduler):
    """A restart with other flags; what still runs there is held all the same."""
    assert scheduler.allocate("old", [ONE]).permanent
    allocation = scheduler.restore("old", GPU, "0")
    assert [one.gpus for one in taken(scheduler, "default", GPU)] == ["1"]
    scheduler.release([allocation])


def test_no_gpu_is_given_twice_at_a_time(scheduler):
    """The lowest free ones, each with one number in all virtual clusters."""
    first, second = taken(scheduler, "default", GPU, Resources(gpu=2))
    (other,) = taken(scheduler, "b", Resources(gpu=2))
    assert [one.gpus for one in (first, second, other)] == ["0", "1,2", "4,5"]
    assert scheduler.allocate("default", [Resources(gpu=2)]).reason.endswith(
        "has 1 of 4 GPUs free, the job wants 2 GPUs"
    )
    scheduler.release([first])
    (again,) = taken(scheduler, "default", Resources(gpu=2))
    assert again.gpus == "0,3"


def test_a_gpu_that_an_earlier_server_gave_is_held(scheduler):
    """After a restart."""
    scheduler.restore("default", GPU, "0,3")
    assert [one.gpus for one in taken(scheduler, "default", GPU, GPU)] == ["1", "2"]


def test_the_bound_of_the_machine_is_shared(scheduler):
    """Tasks that want nothing count, too; a larger gang runs when it is alone."""
    first = taken(scheduler, "default", *[Resources()] * 5)
    assert scheduler.allocate("b", [ONE]) == InsufficientResources(
        "5 of at most 5 tasks run on this machine", machine_wide=True
    )
    scheduler.release(first)
    taken(scheduler, "default", *[Resources()] * 9)


def test_a_role_may_ask_for_less_than_nothing():
    """gpu: -1 is taken by 1.8."""
    role = {"cpuNumber": 2, "memoryMB": 3, "gpuNumber": -1}
    assert Resources.from_role(role) == Resources(2, 3, 0)


def test_a_gpu_is_free_when_the_last_of_its_holders_gives_it_back(scheduler):
    """Two have one only where a file says so that was written with other flags."""
    first, second = scheduler.restore("default", GPU, "0,1"), scheduler.restore("old", GPU, "1")
    scheduler.release([first])
    assert [one.gpus for one in taken(scheduler, "default", GPU, GPU)] == ["0", "2"]
    scheduler.release([second])
    assert [one.gpus for one in taken(scheduler, "default", GPU)] == ["1"]
