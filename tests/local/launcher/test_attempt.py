"""A running attempt: the order in which the ends of its tasks count, when it is over, and how it ended."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from local_cases import cases

from luigi_pai.local.launcher.attempt import STOP, AttemptRun
from luigi_pai.local.launcher.completion import attempt_outcome
from luigi_pai.local.store.records import Attempt, Task


class Runner:
    """Runs no process: a test says when each task wrote its exit code, and when that is seen.

    Args:
        codes: exit code and time of each task, as they write them.
    """

    def __init__(self, codes):
        self.must_end = asyncio.Event()
        self.codes = codes
        self.seen = [asyncio.Event() for _ in codes]
        self.written = set()

    def write(self, *numbers):
        """Let tasks write their exit codes."""
        self.written.update(numbers)

    def end_time(self, task):
        return self.codes[task.index][1] if task.index in self.written else float("inf")

    async def ended(self, task):
        await self.seen[task.index].wait()
        task.exit_code = self.codes[task.index][0]


def race(*codes, **policy):
    """Return an attempt that an earlier server began, and what runs its tasks."""
    role = {"name": "main", "minFailedTaskCount": 1, "minSucceededTaskCount": 1, **policy}
    job = SimpleNamespace(roles=[role], gang=True)
    tasks = [Task(str(index), 1, "main", index, str(index)) for index in range(len(codes))]
    runner = Runner(codes)
    scheduler = SimpleNamespace(release=list)
    allocations = dict.fromkeys((task.container_id for task in tasks), None)
    services = SimpleNamespace(scheduler=scheduler)
    attempt = AttemptRun(job, Attempt(1, 1, 1, 0), tasks, allocations, runner, services, is_new=False)
    return attempt, runner


async def decided(attempt):
    outcome = await asyncio.wait_for(attempt.outcome(lambda: None), 20)
    return outcome and (outcome.exit_code, outcome.trigger and outcome.trigger.index)


async def turns():
    """Let everything that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("codes", "outcome"),
    [([(0, 100), (7, 200)], (0, 0)), ([(7, 100), (0, 200)], (7, 0)), ([(0, 200), (7, 100)], (7, 1))],
)
async def test_the_first_end_in_time_decides_however_they_are_seen(codes, outcome):
    """Here the second task is seen first: the first may have written its exit code before that."""
    attempt, runner = race(*codes)
    runner.write(0, 1)
    result = asyncio.create_task(decided(attempt))
    runner.seen[1].set()
    await turns()
    assert result.done() == (outcome[1] == 1)  # one that ended later is not waited for
    runner.seen[0].set()
    assert await result == outcome


async def test_a_task_that_has_not_ended_is_not_waited_for():
    """Only an exit code that is there may have been before."""
    attempt, runner = race((0, 100), (7, 200))
    runner.write(1)
    runner.seen[1].set()
    assert await decided(attempt) == (7, 1)


@pytest.mark.parametrize(("wrote", "outcome"), [((0,), (5, 0)), ((), None)])
async def test_an_end_before_the_stop_counts(wrote, outcome):
    """A job that ended just before its stop keeps its exit code; one that had not was stopped."""
    attempt, runner = race((5, 100))
    runner.write(*wrote)
    result = asyncio.create_task(decided(attempt))
    await turns()
    attempt.end(STOP)
    await turns()
    runner.seen[0].set()
    assert await result == outcome


def roles(**policies):
    return {
        name: {"minFailedTaskCount": failed, "minSucceededTaskCount": succeeded}
        for name, (failed, succeeded) in policies.items()
    }


def ended(*tasks):
    return [Task("c", 1, name, index, "f", exit_code=code) for index, (name, code) in enumerate(tasks)]


@pytest.mark.parametrize(("policies", "tasks", "total", "exit_code"), cases("the_outcome_of_an_attempt"))
def test_the_outcome_of_an_attempt(policies, tasks, total, exit_code):
    """Both counts, per role, in the order of time."""
    outcome = attempt_outcome(roles(**policies), ended(*tasks), total)
    assert (outcome and outcome.exit_code) == exit_code
    assert (outcome is None) == (exit_code is None)


def test_the_outcome_names_the_task_that_decided():
    """For the diagnostics."""
    tasks = ended(("w", 0), ("w", 9))
    outcome = attempt_outcome(roles(w=(1, None)), tasks, 3)
    assert outcome.trigger is tasks[1]
