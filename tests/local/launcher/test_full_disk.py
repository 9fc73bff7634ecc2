"""A disk that is full: what cannot be saved is saved later, and no job is lost."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest
from event_loop import until
from launcher_bench import NOTHING, FailingCalls, at_once
from local_client import role


@pytest.mark.slow
def test_a_job_whose_begin_cannot_be_saved_begins_later(bench, monkeypatch):
    """With what it needs, once there is disk space again; the failed begin holds no resources."""

    async def scenario(bench):
        FailingCalls(monkeypatch, bench.store, "add_attempt", 2)
        job = bench.v1("a", role("true", cpuNumber=2, gpuNumber=1))
        await at_once(lambda: bench.why(job) != "it is the next in virtual cluster default")
        reason = bench.why(job)
        ended = await bench.ended(job)
        await until(lambda: bench.kept() == NOTHING)
        return reason, ended.exit_code, ended.retries

    assert bench(scenario, "default:cpu=2,memory=999,gpu=1") == ("the server could not save its begin", 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("api", ["v1", "v2"])
@pytest.mark.parametrize("where", ["save_job", "save_task", "add_attempt"])
def test_a_job_without_ports_on_a_full_disk_is_kept_and_blocks_no_other(api, where, bench, monkeypatch):
    """Whatever the disk does not take of its failure."""

    async def scenario(bench):
        ports = bench.launcher.ports
        free, left = ports.reserve_all, [OSError("no free port found")] * 2

        def reserve_all(roles):
            if roles[0]["taskNumber"] == 2 and left:
                raise left.pop()
            return free(roles)

        monkeypatch.setattr(ports, "reserve_all", reserve_all)
        disk = FailingCalls(monkeypatch, bench.store, where, 1)
        kind = "v1" if api == "v1" else "gang"
        job = bench.job(kind, "true", tasks=2)
        await asyncio.sleep(0)
        other = bench.job(kind, "true", name="b")
        ends = [(await bench.ended(one)).exit_code for one in (job, other)]
        return ends, bench.found(job).counted_retries, disk.left, left, bench.kept()

    assert bench(scenario, kind=api) == ([0, 0], 0, 0, [], NOTHING)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["save_job", "end_attempt"])
@pytest.mark.parametrize(("command", "retries", "code"), [("true", 0, 0), ("exit 3", 1, 3)])
def test_the_end_of_an_attempt_is_written_again(where, command, retries, code, bench, monkeypatch):
    """Until the disk takes it; nothing is run once more, nor counted twice, for that."""

    async def scenario(bench):
        job = bench.v1("a", role(f"echo x >> ../../../ran; {bench.hold}{command}"), retryCount=1)
        await bench.began(job)
        disk = FailingCalls(monkeypatch, bench.store, where, 3)
        bench.go.touch()
        ended = await bench.ended(job)
        ran = next(bench.data.glob("jobs/*/ran")).read_text().count("x")
        return ended.exit_code, ended.retries, ended.counted_retries, ran, disk.left, bench.kept()

    assert bench(scenario) == (code, retries, retries, retries + 1, 0, NOTHING)


@pytest.mark.slow
def test_a_job_whose_end_cannot_be_written_can_be_stopped_and_deleted(bench, monkeypatch):
    """What it ended with stays; a deleted one is gone."""

    async def scenario(bench):
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
        return ended.exit_code, ended.exit_type, ended.retries

    assert bench(scenario) == (3, "UNKNOWN", 0)


@pytest.mark.slow
def test_a_stop_of_a_running_job_that_cannot_be_saved_has_no_effect(bench, monkeypatch):
    """The caller gets the error; the job goes on, and ends as it would have."""

    async def scenario(bench):
        job = bench.v1("a", role(f"{bench.hold}true"))
        await bench.began(job)
        FailingCalls(monkeypatch, bench.store, "save_job", 1)
        with pytest.raises(sqlite3.OperationalError):
            bench.stop(job)
        bench.go.touch()
        ended = await bench.ended(job)
        return ended.execution_type, ended.exit_code

    assert bench(scenario) == ("START", 0)


def test_a_server_that_cannot_write_its_end_down_ends_its_tasks_all_the_same(bench, monkeypatch):
    """A task that it kills ends with 143, which is no failure of the job."""

    async def scenario(bench):
        job = bench.v1("a", role("sleep 60"))
        await bench.began(job)
        FailingCalls(monkeypatch, bench.store, "interrupt_attempt", 1)
        await bench.launcher.shut_down()
        found = bench.found(job)
        return found.sub_state, found.retries, bench.launcher.scheduler.running_tasks

    assert bench(scenario) == ("FRAMEWORK_WAITING", 1, 0)


@pytest.mark.slow
def test_an_event_that_cannot_be_stored_blocks_no_job(bench, monkeypatch):
    """Neither the job that it is about, some of whose tasks begin, nor others."""

    async def scenario(bench):
        disk = FailingCalls(monkeypatch, bench.store, "record_event", 1)
        job = bench.job("loose", bench.hold, tasks=2, cpu=2)
        other = bench.job("loose", "true", name="b")
        await until(lambda: bench.launcher.scheduler.running_tasks == 1)
        why = bench.why(job)
        bench.go.touch()
        ends = [(await bench.ended(one)).exit_code for one in (job, other)]
        return disk.left, why, ends, bench.kept()

    ended = bench(scenario, "default:cpu=3,memory=999,gpu=1", kind="loose")
    said = "virtual cluster default has 1 of 3 CPUs free, the job wants 2 CPUs"
    assert ended == (0, said, [0, 0], NOTHING)
