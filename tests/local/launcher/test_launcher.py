"""The launcher by itself: what no request can bring about."""

from __future__ import annotations

import asyncio
import errno
import json
import sqlite3
import threading
import time

import pytest
from event_loop import in_a_loop
from local_client import role
from protocol_client import plugin, protocol, task_role

from luigi_pai.local.config.settings import Settings
from luigi_pai.local.container import processes
from luigi_pai.local.container.protocol_spec import job_spec
from luigi_pai.local.container.task_files import JobFolders
from luigi_pai.local.launcher import attempt as attempt_module
from luigi_pai.local.launcher import launcher
from luigi_pai.local.rest.base import body_rules
from luigi_pai.local.server import LocalServer
from luigi_pai.local.store.records import COMPLETED, RUNNING, NewJob

FULL = "database or disk is full"


class Disk:
    """Takes nothing for a number of times: what it stands before raises then."""

    def __init__(self, monkeypatch, place, name, failures, *, before=True):
        self.left = failures
        self.real = getattr(place, name)
        self.before = before
        monkeypatch.setattr(place, name, self)

    def __call__(self, *arguments, **more):
        done = None if self.before and self.left else self.real(*arguments, **more)
        if self.left:
            self.left -= 1
            raise sqlite3.OperationalError(FULL)
        return done


class Bench:
    """A server whose launcher is at hand."""

    def __init__(self, folder, **settings):
        self.server = LocalServer(Settings(folder, port=0, stop_grace=0.2, **settings))
        self.store, self.launcher = self.server._store, self.server._launcher
        self.line = self.launcher._line
        self.go = folder / "go"
        self.hold = f"until [ -e {self.go} ]; do sleep 0.02; done; "

    def v1(self, name, *roles, **more):
        return self._add(v1_job(name, *roles, **more))

    def v2(self, name, role, *, gang=True, **more):
        config = json.loads(protocol(name=name, roles={"main": role}, **more))
        config["extras"] = {**config.get("extras", {}), "gangAllocation": gang}
        return self._add(NewJob(name, "admin", "default", config, job_spec(config), 2))

    def job(self, kind, command, *, tasks=1, cpu=1, retries=0, gang=None, name="a"):
        """Add a job of one role: v1, gang or loose."""
        if kind == "v1":
            return self.v1(name, role(command, taskNumber=tasks, cpuNumber=cpu), retryCount=retries)
        wanted = {"cpu": cpu, "memoryMB": 1, "gpu": 0}
        main = task_role(command, instances=tasks, resourcePerInstance=wanted)
        return self.v2(name, main, gang=kind == "gang" if gang is None else gang, jobRetryCount=retries)

    def tasks(self, job):
        """Return the tasks of a job's last attempt."""
        attempt = self.store.last_attempt(job)
        return [] if attempt is None else self.store.tasks(attempt)

    def folders(self, job):
        return [self.launcher._around.folders.of_task(task.folder).folder for task in self.tasks(job)]

    def logs(self, job, name):
        return [folder / name for folder in self.folders(job) if (folder / name).exists()]

    def processes(self, job):
        """Return the processes of a job's last tasks."""
        return processes.members({str(folder): None for folder in self.folders(job)})

    def _add(self, new):
        job = self.store.add_job(new)
        self.launcher.add(job)
        return job

    def found(self, job):
        return self.store._whole_jobs("id = ?", job.id)[0]

    async def began(self, *jobs):
        await until(lambda: all(job.id in self.launcher._runs for job in jobs))

    async def ended(self, job):
        """Return a job as the file has it once it has ended."""
        await until(lambda: self.found(job).sub_state == COMPLETED)
        return self.found(job)

    def held(self):
        """Return what is kept of jobs: nothing, when all have ended."""
        line = self.line
        kept = (self.launcher._runs, line._jobs, line._reasons, line._told, line._delays, line._ready)
        ports = self.launcher._ports._held
        return [item for item in (*kept, ports, self.launcher.scheduler._holdings) if item]


def v1_job(name, *roles, **more):
    config = {"jobName": name, "image": "x", "taskRoles": list(roles), **more}
    return NewJob(name, "admin", "default", config, body_rules.JOB_CONFIG.check(config))


async def until(condition):
    """Wait for what the loop brings about."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about in time")


async def at_once(condition):
    """Wait no longer than to the turn of the loop that brings it about."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come about in time")


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Runs a scenario beside a server of its own, in another thread: this one's loop is left to others."""
    monkeypatch.setattr(launcher, "_AGAIN", 0.05)
    monkeypatch.setattr(attempt_module, "_SOON", 0)
    monkeypatch.setattr(attempt_module, "_AGAIN", 0.05)

    def run(scenario, **settings):
        async def all_of_it():
            made = Bench(tmp_path / "data", **settings)
            try:
                return await scenario(made)
            finally:
                await made.server.close()

        return in_a_loop(all_of_it())

    return run


# a disk that takes nothing


def test_a_job_whose_begin_cannot_be_written_down_is_not_forgotten(bench, monkeypatch):
    """A full disk: it begins when there is room again, with what it needs; its first try holds nothing."""
    Disk(monkeypatch, launcher, "begin_attempt", 2)

    async def scenario(bench):
        job = bench.v1("a", role("true", cpuNumber=2, gpuNumber=1))
        await at_once(lambda: bench.launcher.why_waiting(job) != "jobs before it wait")
        why = bench.launcher.why_waiting(job)
        ended = await bench.ended(job)
        return why, ended.exit_code, ended.retries, bench.held()

    ended = bench(scenario, virtual_clusters=("default:cpu=2,memory=999,gpu=1",))
    assert ended == ("the server could not write its begin down", 0, 0, [])


def test_a_begin_that_is_taken_back_in_the_last_moment_leaves_nothing(bench, monkeypatch):
    """The disk is full when all is to be committed: no attempt is followed that nobody knows of."""

    async def scenario(bench):
        Disk(monkeypatch, launcher, "begin_attempt", 2, before=False)
        job = bench.v2("a", task_role("true"))
        ended = await bench.ended(job)
        return ended.exit_code, ended.retries, len(bench.store.attempts(job)), bench.held()

    assert bench(scenario) == (0, 0, 1, [])


@pytest.mark.parametrize("generation", [1, 2])
@pytest.mark.parametrize("where", ["save_job", "save_task", "add_attempt"])
def test_a_job_without_ports_on_a_full_disk_is_not_forgotten_and_holds_nobody_up(
    generation, where, bench, monkeypatch
):
    """Whatever the disk does not take of its failure."""

    async def scenario(bench):
        ports = bench.launcher._ports
        free, left = ports.reserve_all, [OSError("no free port found")] * 2

        def reserve_all(roles):
            if roles[0]["taskNumber"] == 2 and left:
                raise left.pop()
            return free(roles)

        monkeypatch.setattr(ports, "reserve_all", reserve_all)
        disk = Disk(monkeypatch, bench.store, where, 1)
        job = (
            bench.v1("a", role("true", taskNumber=2))
            if generation == 1
            else bench.v2("a", task_role("true", instances=2))
        )
        await asyncio.sleep(0)
        other = bench.v1("b", role("true"))
        ends = [(await bench.ended(one)).exit_code for one in (job, other)]
        return ends, bench.found(job).counted_retries, disk.left, left, bench.held()

    assert bench(scenario) == ([0, 0], 0, 0, [], [])


def test_a_job_that_cannot_even_fail_to_begin_holds_nobody_up(bench, monkeypatch):
    """It is broken, and the disk does not take that; later it does."""

    async def scenario(bench):
        broken = bench.v1("a", role("true"))
        broken.spec["taskRoles"][0]["portList"] = 5
        disk = Disk(monkeypatch, bench.store, "save_job", 1)
        other = bench.v1("b", role("true"))
        ends = [(await bench.ended(one)).exit_code for one in (broken, other)]
        return ends, disk.left, bench.held()

    assert bench(scenario) == ([1, 0], 0, [])


@pytest.mark.parametrize("where", ["save_job", "end_attempt"])
@pytest.mark.parametrize(("command", "retries", "code"), [("true", 0, 0), ("exit 3", 1, 3)])
def test_the_end_of_an_attempt_is_written_again(where, command, retries, code, bench, monkeypatch):
    """Until the disk takes it; nothing is run once more, nor counted twice, for that."""

    async def scenario(bench):
        job = bench.v1("a", role(f"echo x >> ../../../ran; {bench.hold}{command}"), retryCount=1)
        await bench.began(job)
        disk = Disk(monkeypatch, bench.store, where, 3)
        bench.go.touch()
        ended = await bench.ended(job)
        ran = next(bench.server.settings.data.glob("jobs/*/ran")).read_text().count("x")
        return ended.exit_code, ended.retries, ended.counted_retries, ran, disk.left, bench.held()

    assert bench(scenario) == (code, retries, retries, retries + 1, 0, [])


def test_a_job_whose_end_cannot_be_written_can_be_stopped_and_deleted(bench, monkeypatch):
    """What it ended with stays; a deleted one is gone."""

    async def scenario(bench):
        jobs = [bench.v1(name, role(f"{bench.hold}exit 3"), retryCount=9) for name in "ab"]
        await bench.began(*jobs)
        disk = Disk(monkeypatch, launcher, "end_attempt", 10**6)
        bench.go.touch()
        await until(lambda: disk.left < 10**6 - 3)
        bench.launcher.stop(jobs[0])
        bench.launcher.delete(jobs[1])
        disk.left = 0
        ended = await bench.ended(jobs[0])
        await until(lambda: bench.store.job("b") is None and not bench.held())
        return ended.exit_code, ended.exit_type, ended.retries

    assert bench(scenario) == (3, "UNKNOWN", 0)


@pytest.mark.parametrize("gang", [True, False])
def test_what_the_disk_does_not_take_of_a_task_is_written_with_the_end(gang, bench, monkeypatch):
    """A task that ran is not run again because nobody could write down that it did."""

    async def scenario(bench):
        disk = Disk(monkeypatch, bench.store, "save_task", 2)
        job = bench.v2("a", task_role("true"), gang=gang)
        ended = await bench.ended(job)
        (task,) = bench.store.tasks(bench.store.last_attempt(job))
        return ended.exit_code, ended.retries, task.exit_code, task.pid is None, disk.left

    assert bench(scenario) == (0, 0, 0, False, 0)


def test_a_further_try_waits_until_it_is_written_down(bench, monkeypatch):
    """The job's other tasks go on meanwhile."""

    async def scenario(bench):
        job = bench.v2("a", task_role(f"{bench.hold}exit 1", taskRetryCount=1), gang=False)
        await bench.began(job)
        disk = Disk(monkeypatch, bench.store, "add_task", 2)
        bench.go.touch()
        ended = await bench.ended(job)
        tries = bench.store.tries(bench.store.tasks(bench.store.last_attempt(job))[0])
        return ended.retries, [(task.number, task.exit_code) for task in tries], disk.left

    assert bench(scenario) == (0, [(1, 255), (0, 255)], 0)


@pytest.mark.parametrize("runs", [True, False])
def test_a_stop_that_cannot_be_written_down_has_not_happened(runs, bench, monkeypatch):
    """Whoever asks is told; the job goes on, or waits, as before, and can be stopped then."""

    async def scenario(bench):
        job = bench.v1("a", role("sleep 60", cpuNumber=1 if runs else 99))
        await until(
            lambda: bool(bench.launcher._runs) == runs and bench.line.why(job) != "jobs before it wait"
        )
        Disk(monkeypatch, bench.store, "save_job", 1)
        with pytest.raises(sqlite3.OperationalError):
            bench.launcher.stop(bench.found(job))
        known = bench.launcher._current(job)
        before = known.execution_type, known.sub_state, bool(bench.launcher._runs), bench.line.get(job.id)
        bench.launcher.stop(bench.found(job))
        ended = await bench.ended(job)
        return before[0], before[2], before[3] is None, ended.exit_code, ended.exit_type, bench.held()

    settings = {"virtual_clusters": ("default:cpu=9,memory=999,gpu=0",)}
    assert bench(scenario, **settings) == ("START", runs, runs, 214, "NON_TRANSIENT", [])


def test_a_server_that_cannot_write_its_end_down_ends_its_tasks_all_the_same(bench, monkeypatch):
    """A task that it kills ends with 143, which is no failure of the job."""

    async def scenario(bench):
        job = bench.v1("a", role("sleep 60"))
        await until(lambda: bench.launcher._runs)
        Disk(monkeypatch, bench.store, "interrupt_attempt", 1)
        await bench.launcher.shut_down()
        found = bench.found(job)
        return found.sub_state, found.retries, bench.launcher.running_tasks

    assert bench(scenario) == ("FRAMEWORK_WAITING", 1, 0)


def test_a_fault_while_jobs_begin_is_borne(bench, monkeypatch):
    """It may come from a job that has nothing to do with the one that has just ended; one look follows."""

    async def scenario(bench):
        first = bench.v1("a", role("sleep 60"))
        await bench.began(first)
        move, left = bench.line.move, [RuntimeError("broken")] * 2

        def broken(runs):
            if left:
                raise left.pop()
            move(runs)

        monkeypatch.setattr(bench.line, "move", broken)
        second = bench.store.add_job(v1_job("b", role("true")))
        bench.line.add(second)
        bench.launcher._fill()
        one = bench.launcher._later
        bench.launcher._fill()
        two = bench.launcher._later
        code = (await bench.ended(second)).exit_code
        bench.launcher.stop(bench.found(first))
        await bench.ended(first)
        return code, one is two is not None, left, bench.launcher._later, bench.held()

    assert bench(scenario) == (0, True, [], None, [])


def test_an_event_that_cannot_be_written_down_keeps_nobody_from_beginning(bench, monkeypatch):
    """Neither the job that it is about, some of whose tasks begin, nor others."""

    async def scenario(bench):
        disk = Disk(monkeypatch, bench.launcher._notes, "happened", 1)
        job = bench.job("loose", bench.hold, tasks=2, cpu=2)
        other = bench.v1("b", role("true"))
        await until(lambda: bench.launcher.running_tasks == 1)
        why = bench.launcher.why_waiting(job)
        bench.go.touch()
        ends = [(await bench.ended(one)).exit_code for one in (job, other)]
        return disk.left, why, ends, bench.held()

    ended = bench(scenario, virtual_clusters=("default:cpu=3,memory=999,gpu=1",))
    said = "virtual cluster default has no room now: 2 CPUs wanted, 1 free"
    assert ended == (0, said, [0, 0], [])


# what is kept


def test_nothing_of_a_try_is_kept_when_there_is_a_next_one(bench):
    """A command that fails, and is tried again for ever, does not fill the memory, nor the list of tasks."""

    async def scenario(bench):
        job = bench.v2("a", task_role("exit 1", taskRetryCount=-1), gang=False)
        await bench.began(job)
        run = bench.launcher._runs[job.id]
        await until(lambda: run.tasks[0].number >= 4)
        kept = [len(item) for item in (run._children, run._places, run._holdings, run._unwritten, run.tasks)]
        folder = run.tasks[0].folder
        tasks = bench.store.tasks(run.attempt)
        reasons = bench.line._reasons, bench.line._told
        bench.launcher.stop(bench.found(job))
        await bench.ended(job)
        return kept, folder[-9:], len(tasks), reasons, bench.held()

    kept, folder, tasks, reasons, held = bench(scenario)
    assert max(kept) <= 1
    assert folder == f"/main-0.{folder[-1]}"
    assert (tasks, reasons, held) == (1, ({}, set()), [])


def test_why_tasks_waited_is_forgotten_with_their_job(bench):
    """And told once a job, not at each of its tries."""

    async def scenario(bench):
        job = bench.v2("a", task_role(f"{bench.hold}exit 137", instances=3), gang=False)
        await until(lambda: bench.launcher.why_waiting(job) and bench.launcher.running_tasks == 2)
        bench.go.touch()
        await until(lambda: bench.launcher._runs[job.id].tasks[2].number >= 2)
        bench.launcher.stop(bench.found(job))
        await bench.ended(job)
        events = [event["reason"] for event in bench.launcher._notes.events(job)]
        return bench.launcher.why_waiting(job), events.count("FailedScheduling"), bench.held()

    ended = bench(scenario, virtual_clusters=("default:cpu=2,memory=999,gpu=1",))
    assert ended == (None, 1, [])


@pytest.mark.slow
def test_a_line_of_5000_jobs_costs_an_ended_task_next_to_nothing(bench):
    """Whether those before it can ever run or not: the server goes on answering."""

    async def scenario(bench):
        first = bench.v1("first", role("sleep 60"))
        await bench.began(first)
        with bench.store.changing():
            jobs = [
                bench.store.add_job(v1_job(f"n{number}", role("true", cpuNumber=1 + number % 2)))
                for number in range(5000)
            ]
        for job in jobs:
            bench.line.add(job)
        bench.launcher._fill()
        began = time.perf_counter()
        for _ in range(100):
            bench.launcher._fill()
        took = time.perf_counter() - began
        for job in jobs:
            bench.line.remove(job)
        bench.launcher.stop(bench.found(first))
        await bench.ended(first)
        return took

    assert bench(scenario, virtual_clusters=("default:cpu=1,memory=999,gpu=1",)) < 0.5


# stopped at any moment


async def waiting_for_ever(bench, kind):
    job = bench.job(kind, "true", cpu=99)
    await until(lambda: "it does not fit" in bench.line.why(job))
    return job


async def just_added(bench, kind):
    return bench.job(kind, "sleep 60")


async def before_a_process(bench, kind):
    """Its begin is written down, nothing has started."""
    job = bench.job(kind, "sleep 60", tasks=3)
    await at_once(lambda: job.id in bench.launcher._runs)
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
    await until(lambda: job.retries >= 2 and job.id in bench.line._delays)
    return job


async def before_a_further_try(bench, kind):
    job = bench.job(kind, "exit 137", retries=99)
    await until(lambda: bench.tasks(job) and (job.retries or bench.tasks(job)[0].number) >= 2)
    return job


async def while_tasks_wait(bench, kind):
    """Of a job without gang allocation one runs, the other has no room; a gang waits as a whole."""
    job = bench.job(kind, "sleep 60", tasks=2, cpu=3)
    await until(lambda: "has no room" in (bench.line.why(job) or "it does not fit"))
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
def test_a_job_that_is_stopped_at_any_moment_is_stopped(moment, kind, bench):
    """214 and -210; nothing of it runs or is held; a second stop, or one after the end, changes nothing."""

    async def scenario(bench):
        job = await moment(bench, kind)
        bench.launcher.stop(bench.found(job))
        bench.launcher.stop(bench.found(job))
        ended = await bench.ended(job)
        await until(lambda: not bench.held())
        bench.launcher.stop(bench.found(job))
        assert bench.found(job) == ended
        assert bench.processes(job) == set()
        attempt = bench.store.last_attempt(job)
        return ended, attempt, [task.exit_code for task in bench.tasks(job)]

    ended, attempt, codes = bench(scenario, virtual_clusters=("default:cpu=4,memory=999,gpu=0",))
    said = (214, "NON_TRANSIENT") if kind == "v1" else (-210, "Failed")
    assert (ended.exit_code, ended.exit_type, ended.execution_type) == (*said, "STOP")
    if attempt is not None:
        assert attempt.completed is not None
    if attempt is not None and kind != "v1":
        waited = attempt.number == ended.retries  # for the next one
        assert attempt.exit_code in ((137, 255) if waited else (-210,))
        assert set(codes) <= {-220, 137, attempt.exit_code}


def test_a_job_some_of_whose_tasks_wait_is_stopped(bench):
    """The one that never began has no time of a begin."""

    async def scenario(bench):
        job = await while_tasks_wait(bench, "loose")
        bench.launcher.stop(bench.found(job))
        ended = await bench.ended(job)
        return (
            ended.exit_code,
            [(task.exit_code, task.launched is None) for task in bench.tasks(job)],
            bench.held(),
        )

    ended = bench(scenario, virtual_clusters=("default:cpu=4,memory=999,gpu=0",))
    assert ended == (-210, [(-220, False), (-220, True)], [])


@pytest.mark.parametrize(("kind", "code"), [("v1", 3), ("gang", 255), ("loose", 255)])
def test_a_stop_while_a_decided_attempt_is_cleaned_up_leaves_its_outcome(kind, code, bench):
    """As on a cluster: what has ended has ended so; there is no further attempt."""

    async def scenario(bench):
        deaf = "trap '' TERM; while :; do sleep 0.05; done"
        command = f"if [ $PAI_TASK_INDEX = 0 ]; then {bench.hold}exit 3; fi; touch {bench.go}; {deaf}"
        job = bench.job(kind, command, tasks=2, retries=0 if kind == "loose" else 9)
        await bench.began(job)
        run = bench.launcher._runs[job.id]
        await until(lambda: run.tasks[0].exit_code is not None)
        bench.launcher.stop(bench.found(job))
        ended = await bench.ended(job)
        return ended.exit_code, ended.execution_type, ended.retries, bench.processes(job), bench.held()

    assert bench(scenario) == (code, "STOP", 0, set(), [])


def test_a_stop_ends_tasks_that_wait_for_each_other(bench):
    """At the ssh barrier, which waits for hours."""

    async def scenario(bench):
        barrier = plugin("ssh", {"jobssh": True, "sshbarrier": True})
        hold = {"name": "hold", "type": "script", "plugin": "com.microsoft.pai.runtimeplugin.cmd"}
        hold["callbacks"] = [{"event": "taskStarts", "commands": [bench.hold]}]
        text = protocol(
            name="a",
            prerequisites=[hold],
            roles={"slow": task_role("true", prerequisites=["hold"]), "fast": task_role("true")},
            extras=barrier,
        )
        config = json.loads(text)
        job = bench._add(NewJob("a", "admin", "default", config, job_spec(config), 2))
        await until(
            lambda: any("waiting for slow-0" in log.read_text() for log in bench.logs(job, "runtime"))
        )
        bench.launcher.stop(bench.found(job))
        ended = await bench.ended(job)
        return (
            ended.exit_code,
            [task.exit_code for task in bench.tasks(job)],
            bench.processes(job),
            bench.held(),
        )

    assert bench(scenario) == (-210, [-220, -220], set(), [])


@pytest.mark.parametrize("kind", ["v1", "gang", "loose"])
@pytest.mark.parametrize("process_first", [False, True], ids=["before the process", "after it"])
def test_a_job_that_is_stopped_while_a_task_is_being_started_leaves_no_process(
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

    async def scenario(bench):
        job = bench.job(kind, f"{killed if kind == 'loose' else ''}sleep 60")
        await until(in_it.is_set)
        bench.launcher.stop(bench.found(job))
        for _ in range(5):
            await asyncio.sleep(0.01)
        before = bench.found(job).sub_state
        go_on.set()
        ended = await bench.ended(job)
        await until(lambda: not bench.held())
        return before, ended.exit_code, [bool(task.pid) for task in bench.tasks(job)], bench.processes(job)

    assert bench(scenario) == (RUNNING, 214 if kind == "v1" else -210, [True], set())


@pytest.mark.parametrize("kind", ["v1", "gang", "loose"])
def test_a_task_whose_files_the_disk_does_not_take_begins_when_there_is_room(kind, bench, monkeypatch):
    """It has not failed: no retry is counted, and none is needed."""
    full = [OSError(errno.ENOSPC, "No space left on device")] * 2
    start = JobFolders._start

    def begin(*arguments):
        if full:
            raise full.pop()
        return start(*arguments)

    monkeypatch.setattr(JobFolders, "_start", begin)

    async def scenario(bench):
        ended = await bench.ended(bench.job(kind, "[ -e stale ] && exit 1; touch stale", tasks=2))
        await until(lambda: not bench.held())
        return ended.exit_code, ended.retries, [task.number for task in bench.tasks(ended)], full

    assert bench(scenario) == (0, 0, [0, 0], [])


@pytest.mark.parametrize("how", ["v1", "gang", "loose", "decided"])
def test_a_task_that_waits_for_room_on_the_disk_is_not_started_after_the_end(how, bench, monkeypatch):
    """Neither once its job is stopped nor, without gang allocation, once another task has decided it."""
    start, full = JobFolders._start, threading.Event()
    waits = "main-1.1" if how == "decided" else "main-1"

    def begin(folders, files, *arguments):
        if files.folder.name == waits:
            full.set()
            raise OSError(errno.ENOSPC, "No space left on device")
        return start(folders, files, *arguments)

    monkeypatch.setattr(JobFolders, "_start", begin)

    async def scenario(bench):
        command = f"[ ${{PAI_TASK_INDEX:-0}} = 0 ] || kill -KILL $$; {bench.hold} exit 9"
        job = bench.job("loose" if how == "decided" else how, command, tasks=2)
        await until(full.is_set)
        if how == "decided":
            bench.go.touch()
        else:
            bench.launcher.stop(bench.found(job))
        ended = await bench.ended(job)
        await until(lambda: not bench.held())
        return ended.exit_code, [task.pid is None for task in bench.tasks(job)], bench.processes(job)

    code = {"v1": 214, "gang": -210, "loose": -210, "decided": 255}[how]
    assert bench(scenario) == (code, [False, True], set())


def test_a_decided_attempt_is_not_interrupted_by_the_end_of_the_server(bench):
    """Were the server killed while it waits for the rest of it, the next one would make it again."""

    async def scenario(bench):
        deaf = role("trap '' TERM; while true; do sleep 0.05; done", "deaf")
        decided, other = bench.v1("a", role("exit 3"), deaf), bench.v1("b", role("sleep 60"))
        await bench.began(decided, other)
        await until(lambda: bench.launcher._runs[decided.id].is_decided)
        await bench.launcher.shut_down()
        interrupted = [bench.store.last_attempt(job).interrupted for job in (decided, other)]
        return interrupted, bench.found(decided).exit_code

    assert bench(scenario) == ([False, True], 3)


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
def test_a_process_that_hides_ends_with_its_job(kind, bench):
    """In a session of its own, without a parent, with no file open, deaf to SIGTERM."""

    async def scenario(bench):
        stays = bench.job(kind, HIDING.format(then="time.sleep(60)"))
        await until(lambda: any(log.read_text() for log in bench.logs(stays, "stdout")))
        alive = len(bench.processes(stays))
        bench.launcher.stop(bench.found(stays))
        leaves = bench.job(kind, HIDING.format(then=""), name="leaves")
        ends = [(await bench.ended(job)).exit_code for job in (stays, leaves)]
        return alive >= 3, ends, bench.processes(stays) | bench.processes(leaves), bench.held()

    assert bench(scenario) == (True, [214 if kind == "v1" else -210, 0], set(), [])


@pytest.mark.parametrize("command", ["true", "sleep 60"], ids=["ended", "running"])
def test_a_deleted_job_is_forgotten_once_the_disk_takes_it(command, bench, monkeypatch):
    """Not only by the next server."""

    async def scenario(bench):
        job = bench.v1("a", role(command))
        await (bench.ended(job) if command == "true" else bench.began(job))
        Disk(monkeypatch, bench.store, "purge_job", 2)
        bench.launcher.delete(bench.found(job))
        await until(lambda: not bench.store.rows("SELECT 1 FROM jobs"))
        return list(bench.launcher._around.folders.root.iterdir()), bench.held()

    assert bench(scenario) == ([], [])
