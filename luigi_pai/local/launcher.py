"""Brings every job to its end: queues it, starts attempts, decides what follows, goes on after a restart."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

from luigi_pai.local.attempt_end import end_attempt, last_words
from luigi_pai.local.attempt_run import (
    DELETE,
    EXIT_NOT_STARTED,
    SHUTDOWN,
    STOP,
    AttemptRun,
    Surroundings,
    TaskLost,
)
from luigi_pai.local.completion import Again, Outcome, exit_type, retry, retry_delay, stopped_code
from luigi_pai.local.job_notes import JobNotes
from luigi_pai.local.ports import Ports
from luigi_pai.local.records import COMPLETED, RUNNING, WAITING, Attempt, Job, Task
from luigi_pai.local.store import now_ms

if TYPE_CHECKING:
    import logging
    from collections.abc import Coroutine

__all__ = ["Launcher"]

_MOST_GPUS = 62  # as many as a bit map in SQLite can show
_FIRST_CONTAINER = 2  # the first one of an application is its master's


class Launcher:
    """Keeps jobs running until they are complete.

    Args:
        around: what all attempts run with.
        max_tasks: how many task processes may run at once; a job that alone
            has more of them runs alone.
        log: the server's log.
    """

    def __init__(self, around: Surroundings, max_tasks: int, log: logging.Logger) -> None:
        self._around = around
        self._store = around.store
        self._max_tasks = max_tasks
        self._log = log
        self._notes = JobNotes(around.store)
        self._ports = Ports()
        self._runs: dict[int, AttemptRun] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._waiting: dict[int, Job] = {}
        self._delays: dict[int, asyncio.TimerHandle] = {}
        self._closing = False

    # from outside

    @property
    def running_tasks(self) -> int:
        """How many task processes there are."""
        return sum(run.running_tasks for run in self._runs.values())

    def recover(self) -> None:
        """Take up what an earlier server left: waiting, running, stopping and deleted jobs."""
        for job in self._store.unfinished_jobs():
            attempt = self._store.last_attempt(job)
            if attempt is not None and attempt.completed is None:
                self._take_over(job, attempt)
            elif job.deleted:
                self._forget(job)
            elif job.execution_type == "STOP":
                self._complete(job, stopped_code(job.generation), "stopped before it ran")
            else:
                self._waiting[job.id] = job
        self._fill()

    def add(self, job: Job) -> None:
        """Run a job that the store has taken, at once if there is room."""
        self._waiting[job.id] = job
        asyncio.get_running_loop().call_soon(self._fill)

    def stop(self, job: Job) -> None:
        """Stop a job; the processes of its tasks end soon after."""
        if job.sub_state == COMPLETED:
            return
        job = self._current(job)
        job.execution_type = "STOP"
        self._store.save_job(job)
        if job.id in self._runs:
            self._runs[job.id].end(STOP)
        else:
            self._forget_waiting(job)
            self._complete(job, stopped_code(job.generation), "stopped before it ran")

    def delete(self, job: Job) -> None:
        """Forget a job and everything of it, ending it first if it runs."""
        job = self._current(job)
        job.deleted = True
        self._store.save_job(job)
        if job.id in self._runs:
            self._runs[job.id].end(DELETE)
        else:
            self._forget_waiting(job)
            self._forget(job)

    async def shut_down(self) -> None:
        """End every task; their jobs' attempts are made again by the next server."""
        self._closing = True
        for handle in self._delays.values():
            handle.cancel()
        with self._store.changing():
            for run in self._runs.values():
                self._store.interrupt_attempt(run.attempt)
        for run in self._runs.values():
            run.end(SHUTDOWN)
        while self._background:
            await asyncio.wait(self._background)

    def hurry(self) -> None:
        """Give ending tasks no further grace."""
        self._around.hurry.set()

    # beginning an attempt

    def _fill(self) -> None:
        """Start waiting jobs, in the order they came, as long as there is room."""
        if self._closing:
            return
        for job in sorted(self._waiting.values(), key=lambda item: item.id):
            if job.id in self._delays:
                continue
            wanted = sum(role["taskNumber"] for role in job.roles)
            if self._runs and self.running_tasks + wanted > self._max_tasks:
                return
            del self._waiting[job.id]
            self._start(job)

    def _start(self, job: Job) -> None:
        """Write the next attempt down and begin to follow it."""
        reserved: list[tuple[str, int, int, dict[str, list[int]], list[str]]] = []
        try:
            for role in job.roles:
                gpus = (1 << max(0, min(role["gpuNumber"], _MOST_GPUS))) - 1
                for index in range(role["taskNumber"]):
                    ports, said = self._ports.reserve(role["portList"])
                    reserved.append((role["name"], index, gpus, ports, said))
        except Exception as error:  # noqa: BLE001 - one job must not keep the others, or the server, from starting
            for _, _, _, ports, _ in reserved:
                self._ports.release(ports)
            self._complete(job, EXIT_NOT_STARTED, str(error))
            return
        notes: dict[str, list[str]] = {}
        tasks = []
        with self._store.changing():
            attempt = self._store.add_attempt(job)
            app_id = attempt.application_id(self._store.cluster_timestamp)
            container = app_id.replace("application", "container")
            folder = f"{self._around.folders.of_job(job.id, job.name)}/attempt{attempt.number}"
            for number, (name, index, gpus, ports, said) in enumerate(reserved, start=_FIRST_CONTAINER):
                one = f"{container}_01_{number:06d}" if job.generation == 1 else str(uuid.uuid4())
                task = Task(
                    container_id=one,
                    attempt_id=attempt.id,
                    role=name,
                    index=index,
                    folder=f"{folder}/{name}-{index}",
                    ports=ports,
                    gpus=gpus,
                )
                notes[task.container_id] = said
                self._store.add_task(task)
                tasks.append(task)
            job.sub_state = RUNNING
            job.launched = job.launched or attempt.launched
            self._store.save_job(job)
            if job.generation > 1:
                begun = f"attempt {attempt.number - 1} began with {len(tasks)} tasks"
                self._notes.happened(job, "AttemptBegan", begun)
        self._follow(AttemptRun(job, attempt, tasks, notes, self._around))

    def _take_over(self, job: Job, attempt: Attempt) -> None:
        """Follow an attempt that an earlier server began."""
        tasks = self._store.tasks(attempt)
        for task in tasks:
            self._ports.hold(task.ports)
        run = AttemptRun(job, attempt, tasks, None, self._around)
        if job.deleted:
            run.end(DELETE)
        elif job.execution_type == "STOP":
            run.end(STOP)
        elif attempt.interrupted:
            run.end(SHUTDOWN)
        self._follow(run)

    def _follow(self, run: AttemptRun) -> None:
        self._runs[run.job.id] = run
        self._keep(self._bring_to_end(run))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background, and before the server ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _bring_to_end(self, run: AttemptRun) -> None:
        """Follow an attempt to its end, whatever happens."""
        outcome: Outcome | None = None
        problem = "the server is shut down"
        try:
            outcome = await run.outcome(self._fill)
        except TaskLost as lost:
            problem = str(lost)
        except Exception:  # noqa: BLE001 - a job must come to an end whatever is wrong with this server
            self._log.exception("following job %s failed", run.job.name)
            problem = "the server failed to follow it"
        try:
            await run.clean_up()
        except Exception:  # noqa: BLE001 - as above
            self._log.exception("cleaning up after job %s failed", run.job.name)
        for task in run.tasks:
            self._ports.release(task.ports)
        del self._runs[run.job.id]
        self._conclude(run, outcome, problem)
        self._fill()

    # ending an attempt

    def _conclude(self, run: AttemptRun, outcome: Outcome | None, problem: str) -> None:
        """Write the end of an attempt down, and what follows from it."""
        job = run.job
        if run.ending == DELETE:
            self._forget(job)
            return
        with self._store.changing():
            end_attempt(run, outcome, self._store, self._notes)
            if outcome is None and job.execution_type == "STOP":
                self._complete(job, stopped_code(job.generation), "stopped by a user")
                return
            again = self._again(job, outcome)
            if outcome is not None and not again.again:
                self._complete(
                    job, outcome.exit_code, last_words(job, outcome, self._store, self._around.folders)
                )
                return
            if outcome is None:
                self._log.info("job %s is run again: %s", job.name, problem)
            job.retries += 1
            job.counted_retries += again.counted
            job.sub_state = WAITING
            self._store.save_job(job)
        self._waiting[job.id] = job
        self._delay(job)

    @staticmethod
    def _again(job: Job, outcome: Outcome | None) -> Again:
        """Decide about another attempt; one without an outcome is always made again, uncounted."""
        if outcome is None:
            return Again(again=True)
        if job.execution_type == "STOP":
            return Again(again=False)
        return retry(job.spec["retryCount"], outcome.exit_code, job.counted_retries, job.generation)

    def _delay(self, job: Job) -> None:
        """Let a job that is tried again wait, longer each time."""
        if self._closing:
            return
        delay = retry_delay(job.retries)
        self._delays[job.id] = asyncio.get_running_loop().call_later(delay, self._delay_over, job.id)

    def _delay_over(self, job_id: int) -> None:
        del self._delays[job_id]
        self._fill()

    def _complete(self, job: Job, exit_code: int, diagnostics: str | None) -> None:
        job.sub_state = COMPLETED
        job.completed = now_ms()
        job.exit_code = exit_code
        job.exit_type = exit_type(exit_code, job.generation)
        job.diagnostics = diagnostics
        self._store.save_job(job)
        if job.generation > 1:
            self._store.forget_secrets(job)
            self._notes.happened(
                job, "JobEnded", f"the job ended with exit code {exit_code}", warning=bool(exit_code)
            )

    def _forget(self, job: Job) -> None:
        """Remove what is left of a deleted job."""
        self._keep(self._purge(job))

    async def _purge(self, job: Job) -> None:
        await asyncio.to_thread(self._around.folders.remove, job.id, job.name)
        self._store.purge_job(job)

    def _forget_waiting(self, job: Job) -> None:
        self._waiting.pop(job.id, None)
        handle = self._delays.pop(job.id, None)
        if handle is not None:
            handle.cancel()

    def _current(self, job: Job) -> Job:
        """Return the one object that stands for an unfinished job."""
        if job.id in self._runs:
            return self._runs[job.id].job
        return self._waiting.get(job.id, job)
