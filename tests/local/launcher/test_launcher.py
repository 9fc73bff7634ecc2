"""The launcher by itself: what it keeps of jobs, and what a fault of its own does to them."""

from __future__ import annotations

import asyncio

import pytest
from event_loop import until
from launcher_bench import NOTHING
from local_client import role
from protocol_client import task_role

pytestmark = pytest.mark.slow


def test_nothing_of_a_task_attempt_is_kept_when_there_is_a_next_one(bench):
    """A command that fails, and is retried for ever, uses no further resources, ports or entries."""

    async def scenario(bench):
        job = bench.v2("a", task_role("exit 1", taskRetryCount=-1), gang=False)
        await until(lambda: bench.tasks(job) and bench.tasks(job)[0].number >= 4)
        kept, tasks = bench.kept(), bench.tasks(job)
        bench.stop(job)
        await bench.ended(job)
        await until(lambda: bench.kept() == NOTHING)
        return kept, [task.folder.rpartition("/")[2] for task in tasks], tasks[0].number

    kept, folders, number = bench(scenario, kind="v2")
    assert (kept["running jobs"], kept["in the queue"], kept["ports"]) == (1, 0, 2)
    assert kept["running tasks"] <= 1
    assert folders == [f"main-0.{number}"]


def test_a_decided_attempt_is_not_interrupted_by_the_end_of_the_server(bench):
    """Were the server killed while it waits for the rest of it, the next one would make it again."""

    async def scenario(bench):
        deaf = role("trap '' TERM; while true; do sleep 0.05; done", "deaf")
        decided, other = bench.v1("a", role("exit 3"), deaf), bench.v1("b", role("sleep 60"))
        await bench.began(decided, other)
        await until(lambda: bench.tasks(decided)[0].exit_code is not None)
        await asyncio.sleep(0.02)  # a turn of the loop: the exit code decides the attempt
        await bench.launcher.shut_down()
        interrupted = [bench.store.last_attempt(job).interrupted for job in (decided, other)]
        return interrupted, bench.found(decided).exit_code

    assert bench(scenario) == ([False, True], 3)
