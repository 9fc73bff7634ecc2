"""The launcher by itself: what it keeps of jobs, a full disk, and jobs that are stopped at any moment."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest
from event_loop import until
from launcher_bench import NOTHING, FailingCalls, at_once, on
from local_client import role
from protocol_client import task_role

from luigi_pai.local.container.task_files import JobFolders
from luigi_pai.local.releases import exit_spec
from luigi_pai.local.store.records import RUNNING

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


@pytest.mark.parametrize("kind", ["v1", "gang"])
async def test_a_job_without_ports_waits_or_is_tried_again(kind, bench):
    """On 0.7 without an attempt; on 1.8 each ends with 253, the platform's fault, which does not count."""
    ports = bench.launcher.ports
    others = {"others": range(10_000, 10_000 + ports.left - 1000)}
    ports.hold(others)
    if kind == "v1":
        job = bench.v1("a", role("true", taskNumber=2, portList=[{"label": "web", "portNumber": 600}]))
    else:
        resources = {"cpu": 1, "memoryMB": 1, "gpu": 0, "ports": {"web": 600}}
        job = bench.v2("a", task_role("true", instances=2, resourcePerInstance=resources))
    assert (await bench.ended(bench.job(kind, "true", name="b"))).exit_code == 0
    if kind == "v1":
        await until(lambda: bench.why(job) == "1204 ports wanted, and 1000 of this machine are left")
        assert bench.store.last_attempt(job) is None
    else:
        await until(lambda: job.retries >= 2)
        first = bench.store.tasks(bench.store.attempt(job, 1))
        assert [task.exit_code for task in first] == [253, -220]
        assert exit_spec(253)["phrase"] == "ContainerPortConflict"
    ports.release(others)
    ended = await bench.ended(job)
    assert (ended.exit_code, ended.counted_retries, ended.retries > 0) == (0, 0, kind != "v1")


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


def is_tried_again(bench, job):
    return job.retries >= 2 and bench.why(job) == "it is about to be tried again"


def has_tries(bench, job):
    return bench.tasks(job) and (job.retries or bench.tasks(job)[0].number) >= 2


MOMENTS = {  # moment -> command, fields of the job, and what is so then
    "waiting for ever": ("true", {"cpu": 99}, lambda bench, job: "can never run" in bench.why(job)),
    "just added": ("sleep 60", {}, lambda _bench, _job: True),
    "before a process": ("sleep 60", {"tasks": 3}, lambda bench, job: bench.runs(job)),
    "between two starts": ("sleep 60", {"tasks": 3}, lambda bench, job: bench.runs(job)),
    "while it runs": (
        "sleep 60",
        {"tasks": 2},
        lambda bench, job: bench.tasks(job) and all(task.pid for task in bench.tasks(job)),
    ),
    "before another attempt": ("exit 3", {"gang": True, "retries": 99}, is_tried_again),
    "before another try": ("exit 137", {"retries": 99}, has_tries),
}


async def at_moment(moment, kind, bench):
    """Add a job, and return it at a moment of its life."""
    command, fields, is_there = MOMENTS[moment]
    if moment == "before another attempt" and kind == "loose":
        command = "exit 137"
    job = bench.job(kind, command, **fields)
    wait = at_once if moment in ("before a process", "between two starts") else until
    await wait(lambda: is_there(bench, job))
    for _ in range(2 if moment == "between two starts" else 0):
        await asyncio.sleep(0)
    return job


@pytest.mark.parametrize("kind", ["v1", "gang", "loose"])
@pytest.mark.parametrize("moment", MOMENTS)
@on("default:cpu=4,memory=999,gpu=0")
async def test_a_job_that_is_stopped_at_any_moment_is_stopped(moment, kind, bench):
    """214 and -210; nothing of it runs or is held; a second stop, or one after the end, changes nothing."""
    job = await at_moment(moment, kind, bench)
    bench.stop(job)
    bench.stop(job)
    ended = await bench.ended(job)
    await until(lambda: bench.kept() == NOTHING)
    bench.stop(job)
    assert bench.found(job) == ended
    assert bench.processes(job) == set()
    attempt = bench.store.last_attempt(job)
    codes = {task.exit_code for task in bench.tasks(job)}
    said = (214, "NON_TRANSIENT") if kind == "v1" else (-210, "Failed")
    assert (ended.exit_code, ended.exit_type, ended.execution_type) == (*said, "STOP")
    if attempt is not None:
        assert attempt.completed is not None
    if attempt is not None and kind != "v1":
        waited = attempt.number == ended.retries  # for the next one
        assert attempt.exit_code in ((137, 255) if waited else (-210,))
        assert codes <= {-220, 137, attempt.exit_code}


@on("default:cpu=4,memory=999,gpu=0", kind="loose")
async def test_a_job_some_of_whose_tasks_wait_is_stopped(bench):
    """The one that never began has no time of a begin."""
    job = bench.job("loose", "sleep 60", tasks=2, cpu=3)
    await until(lambda: "free, the job wants" in (bench.why(job) or ""))
    bench.stop(job)
    assert (await bench.ended(job)).exit_code == -210
    ends = [(task.exit_code, task.launched is None) for task in bench.tasks(job)]
    assert (ends, bench.kept()) == ([(-220, False), (-220, True)], NOTHING)


@pytest.mark.parametrize(("kind", "code"), [("v1", 3), ("gang", 255), ("loose", 255)])
async def test_a_stop_while_a_decided_attempt_is_cleaned_up_leaves_its_outcome(kind, code, bench):
    """As on a cluster: what has ended has ended so; there is no further attempt."""
    deaf = f"trap '' TERM; touch {bench.go}; while :; do sleep 0.05; done"
    command = f"if [ $PAI_TASK_INDEX = 0 ]; then {bench.hold}exit 3; fi; {deaf}"
    job = bench.job(kind, command, tasks=2, retries=0 if kind == "loose" else 9)
    await bench.began(job)
    await until(lambda: bench.tasks(job)[0].exit_code is not None)
    bench.stop(job)
    ended = await bench.ended(job)
    assert (ended.exit_code, ended.execution_type, ended.retries) == (code, "STOP", 0)
    assert (bench.processes(job), bench.kept()) == (set(), NOTHING)


@pytest.mark.parametrize("kind", ["v1", "gang", "loose"])
@pytest.mark.parametrize("process_first", [False, True], ids=["before the process", "after it"])
async def test_a_job_that_is_stopped_while_a_task_is_being_started_leaves_no_process(
    kind, process_first, bench, monkeypatch, tmp_path
):
    """One that has begun, beside the loop, is waited for, and ended; of loose tasks, a second try."""
    in_it, go_on, passes = threading.Event(), threading.Event(), ["the first"] if kind == "loose" else []
    start = JobFolders.start

    def slow(folders, *arguments):
        if passes:
            passes.pop()
            return start(folders, *arguments)
        child = start(folders, *arguments) if process_first else None
        in_it.set()
        go_on.wait(20)
        return child or start(folders, *arguments)

    monkeypatch.setattr(JobFolders, "start", slow)
    killed = f"[ -e {tmp_path}/again ] || {{ touch {tmp_path}/again; kill -KILL $$; }}; "

    job = bench.job(kind, f"{killed if kind == 'loose' else ''}sleep 60")
    await until(in_it.is_set)
    bench.stop(job)
    for _ in range(5):
        await asyncio.sleep(0.01)
    before = bench.found(job).sub_state
    go_on.set()
    ended = await bench.ended(job)
    await until(lambda: bench.kept() == NOTHING)
    assert (before, ended.exit_code) == (RUNNING, 214 if kind == "v1" else -210)
    assert ([bool(task.pid) for task in bench.tasks(job)], bench.processes(job)) == ([True], set())


HIDING = """python -c '
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("hidden", flush=True)
        os.closerange(0, 100)
        time.sleep(60)
    os._exit(0)
os.wait()
{then}
'"""


@pytest.mark.parametrize("kind", ["v1", "gang"])
async def test_a_process_that_hides_ends_with_its_job(kind, bench):
    """In a session of its own, without a parent, with no file open, deaf to SIGTERM."""
    stays = bench.job(kind, HIDING.format(then="time.sleep(60)"))
    await until(lambda: any(log.read_text() for log in bench.logs(stays, "stdout")))
    alive = len(bench.processes(stays))
    bench.stop(stays)
    leaves = bench.job(kind, HIDING.format(then=""), name="leaves")
    ends = [(await bench.ended(job)).exit_code for job in (stays, leaves)]
    assert (alive >= 3, ends, bench.processes(stays) | bench.processes(leaves), bench.kept()) == (
        True,
        [214 if kind == "v1" else -210, 0],
        set(),
        NOTHING,
    )
