"""An attempt that goes on: in which order its tasks' ends count."""

from __future__ import annotations

import asyncio
import os
from types import SimpleNamespace

import pytest
from event_loop import in_a_loop

from luigi_pai.local.container.task_files import TaskFiles
from luigi_pai.local.launcher.attempt import STOP, AttemptRun
from luigi_pai.local.store.records import Attempt, Task


class Race(AttemptRun):
    """An attempt of whose tasks a test says when they wrote their exit codes, and when that is seen.

    Args:
        folder: where the exit codes are.
        codes: exit code and time of each task, as they wrote them.
    """

    def __init__(self, folder, *codes, **policy):
        role = {"name": "main", "minFailedTaskCount": 1, "minSucceededTaskCount": 1, **policy}
        job = SimpleNamespace(roles=[role], generation=1)
        tasks = [Task(str(index), 1, "main", index, str(index)) for index in range(len(codes))]
        around = SimpleNamespace(folders=SimpleNamespace(of_task=lambda name: TaskFiles(folder / name)))
        super().__init__(
            job, Attempt(1, 1, 1, 0), tasks, None, {task.container_id: None for task in tasks}, around
        )
        self.folder, self.codes = folder, codes
        self.seen = [asyncio.Event() for _ in tasks]

    def write(self, *numbers):
        """Let tasks write their exit codes, as long ago as was said."""
        for number in numbers:
            (self.folder / str(number)).mkdir()
            exit_file = self.folder / str(number) / "exit"
            code, when = self.codes[number]
            exit_file.write_text(f"{code}\n")
            os.utime(exit_file, (when, when))

    async def _life(self, task):
        await self.seen[task.index].wait()
        task.exit_code = self.codes[task.index][0]

    async def decided(self):
        outcome = await asyncio.wait_for(self.outcome(lambda: None), 20)
        return outcome and (outcome.exit_code, outcome.trigger and outcome.trigger.index)


def run(scenario):
    """Run a scenario."""
    return in_a_loop(scenario())


async def turns():
    """Let everything that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def race(tmp_path):
    return lambda *codes, **policy: Race(tmp_path, *codes, **policy)


@pytest.mark.parametrize(
    ("codes", "decided"),
    [([(0, 100), (7, 200)], (0, 0)), ([(7, 100), (0, 200)], (7, 0)), ([(0, 200), (7, 100)], (7, 1))],
)
def test_the_first_end_in_time_decides_however_they_are_seen(codes, decided, race):
    """Here the second task is seen first: the first may have written its exit code before that."""

    async def scenario():
        attempt = race(*codes)
        attempt.write(0, 1)
        told = asyncio.create_task(attempt.decided())
        attempt.seen[1].set()
        await turns()
        early = told.done()
        attempt.seen[0].set()
        return early, await told

    early, outcome = run(scenario)
    assert outcome == decided
    assert early == (decided[1] == 1)  # nobody waits for one that ended later


def test_a_task_that_has_not_ended_is_not_waited_for(race):
    """Only an exit code that is there may have been before."""

    async def scenario():
        attempt = race((0, 100), (7, 200))
        attempt.write(1)
        attempt.seen[1].set()
        return await attempt.decided()

    assert run(scenario) == (7, 1)


@pytest.mark.parametrize(("wrote", "decided"), [((0,), (5, 0)), ((), None)])
def test_an_end_before_the_stop_counts(wrote, decided, race):
    """Whoever stops a job that has just ended is told how it ended; one that has not was stopped."""

    async def scenario():
        attempt = race((5, 100))
        attempt.write(*wrote)
        told = asyncio.create_task(attempt.decided())
        await turns()
        attempt.end(STOP)
        await turns()
        attempt.seen[0].set()
        return await told

    assert run(scenario) == decided
