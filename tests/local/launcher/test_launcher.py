"""The launcher by itself: what it keeps of jobs, and a full disk, on which no job is lost."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest
from event_loop import until
from launcher_bench import NOTHING, FailingCalls, at_once, on
from local_client import role
from protocol_client import task_role

pytestmark = pytest.mark.slow


@on("default:cpu=2,memory=999,gpu=1")
async def test_a_job_whose_begin_cannot_be_saved_begins_later(bench, monkeypatch):
    """With what it needs, once there is disk space again; the failed begin holds no resources."""
    FailingCalls(monkeypatch, bench.store, "add_attempt", 2)
    job = bench.v1("a", role("true", cpuNumber=2, gpuNumber=1))
    await at_once(lambda: bench.why(job) != "it is the next in virtual cluster default")
    reason = bench.why(job)
    ended = await bench.ended(job)
    await until(lambda: bench.kept() == NOTHING)
    assert (reason, ended.exit_code, ended.retries) == ("the server could not save its start", 0, 0)


@pytest.mark.parametrize("where", ["save_job", "end_attempt"])
@pytest.mark.parametrize(("command", "retries", "code"), [("true", 0, 0), ("exit 3", 1, 3)])
async def test_the_end_of_an_attempt_is_written_again(where, command, retries, code, bench, monkeypatch):
    """Until the disk takes it; nothing is run once more, nor counted twice, for that."""
    job = bench.v1("a", role(f"echo x >> ../../../ran; {bench.hold}{command}"), retryCount=1)
    await bench.began(job)
    disk = FailingCalls(monkeypatch, bench.store, where, 3)
    bench.go.touch()
    ended = await bench.ended(job)
    ran = next(bench.data.glob("jobs/*/ran")).read_text().count("x")
    assert (ended.exit_code, ended.retries, ended.counted_retries) == (code, retries, retries)
    assert (ran, disk.left, bench.kept()) == (retries + 1, 0, NOTHING)


async def test_a_job_whose_end_cannot_be_written_can_be_stopped_and_deleted(bench, monkeypatch):
    """What it ended with stays; a deleted one is gone."""
    jobs = [bench.v1(name, role(f"{bench.hold}exit 3"), retryCount=9) for name in "ab"]
    await bench.began(*jobs)
    disk = FailingCalls(monkeypatch, bench.store, "end_attempt", 10**6)
    bench.go.touch()
    await until(lambda: disk.left < 10**6 - 3)
    bench.launcher.stop(jobs[0])
    bench.launcher.delete(jobs[1])
    disk.left = 0
    ended = await bench.ended(jobs[0])
    await until(lambda: bench.store.job("b") is None and bench.kept() == NOTHING)
    assert (ended.exit_code, ended.exit_type, ended.retries) == (3, "UNKNOWN", 0)


async def test_a_stop_of_a_running_job_that_cannot_be_saved_has_no_effect(bench, monkeypatch):
    """The caller gets the error; the job goes on, and ends as it would have."""
    job = bench.v1("a", role(f"{bench.hold}true"))
    await bench.began(job)
    FailingCalls(monkeypatch, bench.store, "save_job", 1)
    with pytest.raises(sqlite3.OperationalError):
        bench.stop(job)
    bench.go.touch()
    ended = await bench.ended(job)
    assert (ended.execution_type, ended.exit_code) == ("START", 0)


async def test_a_server_that_cannot_write_its_end_down_ends_its_tasks_all_the_same(bench, monkeypatch):
    """A task that it kills ends with 143, which is no failure of the job."""
    job = bench.v1("a", role("sleep 60"))
    await bench.began(job)
    FailingCalls(monkeypatch, bench.store, "interrupt_attempt", 1)
    await bench.launcher.shut_down()
    found = bench.found(job)
    assert (found.sub_state, found.retries) == ("FRAMEWORK_WAITING", 1)
    assert len(bench.launcher.scheduler.allocations) == 0


@on(kind="v2")
async def test_nothing_of_a_task_attempt_is_kept_when_there_is_a_next_one(bench):
    """A command that fails, and is retried for ever, uses no further resources, ports or entries."""
    job = bench.v2("a", task_role("exit 1", taskRetryCount=-1), gang=False)
    await until(lambda: bench.tasks(job) and bench.tasks(job)[0].number >= 4)
    kept, tasks = bench.kept(), bench.tasks(job)
    bench.stop(job)
    await bench.ended(job)
    await until(lambda: bench.kept() == NOTHING)
    assert (kept["running jobs"], kept["in the queue"], kept["ports"]) == (1, 0, 2)
    assert kept["running tasks"] <= 1
    assert [task.folder.rpartition("/")[2] for task in tasks] == [f"main-0.{tasks[0].number}"]


async def test_a_decided_attempt_is_not_interrupted_by_the_end_of_the_server(bench):
    """Were the server killed while it waits for the rest of it, the next one would make it again."""
    deaf = role("trap '' TERM; while true; do sleep 0.05; done", "deaf")
    decided, other = bench.v1("a", role("exit 3"), deaf), bench.v1("b", role("sleep 60"))
    await bench.began(decided, other)
    await until(lambda: bench.tasks(decided)[0].exit_code is not None)
    await asyncio.sleep(0.02)  # a turn of the loop: the exit code decides the attempt
    await bench.launcher.shut_down()
    interrupted = [bench.store.last_attempt(job).interrupted for job in (decided, other)]
    assert (interrupted, bench.found(decided).exit_code) == ([False, True], 3)
