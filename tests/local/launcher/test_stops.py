"""Jobs that are stopped at any moment of their lives."""

from __future__ import annotations

import asyncio
import threading

import pytest
from event_loop import until
from launcher_bench import NOTHING, at_once, on

from luigi_pai.local.container.task_files import JobFolders
from luigi_pai.local.store.records import RUNNING

pytestmark = pytest.mark.slow


async def waiting_for_ever(bench, kind):
    job = bench.job(kind, "true", cpu=99)
    await until(lambda: "can never run" in bench.why(job))
    return job


async def just_added(bench, kind):
    return bench.job(kind, "sleep 60")


async def before_a_process(bench, kind):
    """Its begin is written down, nothing has started."""
    job = bench.job(kind, "sleep 60", tasks=3)
    await at_once(lambda: bench.runs(job))
    return job


async def between_two_starts(bench, kind):
    job = await before_a_process(bench, kind)
    for _ in range(2):
        await asyncio.sleep(0)
    return job


async def while_it_runs(bench, kind):
    job = bench.job(kind, "sleep 60", tasks=2)
    await until(lambda: bench.tasks(job) and all(task.pid for task in bench.tasks(job)))
    return job


async def before_a_further_attempt(bench, kind):
    """The command fails at once, and is tried again later each time."""
    job = bench.job(kind, "exit 137" if kind == "loose" else "exit 3", gang=True, retries=99)
    await until(lambda: job.retries >= 2 and bench.why(job) == "it is about to be tried again")
    return job


async def before_a_further_try(bench, kind):
    job = bench.job(kind, "exit 137", retries=99)
    await until(lambda: bench.tasks(job) and (job.retries or bench.tasks(job)[0].number) >= 2)
    return job


async def while_tasks_wait(bench, kind):
    """Of a job without gang allocation one runs, the other has no room; a gang waits as a whole."""
    job = bench.job(kind, "sleep 60", tasks=2, cpu=3)
    await until(lambda: "free, the job wants" in (bench.why(job) or ""))
    return job


MOMENTS = [
    waiting_for_ever,
    just_added,
    before_a_process,
    between_two_starts,
    while_it_runs,
    before_a_further_attempt,
    before_a_further_try,
]


@pytest.mark.parametrize("kind", ["v1", "gang", "loose"])
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
@on("default:cpu=4,memory=999,gpu=0")
async def test_a_job_that_is_stopped_at_any_moment_is_stopped(moment, kind, bench):
    """214 and -210; nothing of it runs or is held; a second stop, or one after the end, changes nothing."""
    job = await moment(bench, kind)
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
    job = await while_tasks_wait(bench, "loose")
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
