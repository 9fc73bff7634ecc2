"""The launcher: queues jobs, runs their attempts, retries them, and resumes them after a restart."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

from luigi_pai.local.container.ports import Ports
from luigi_pai.local.launcher.attempt import DELETE, SHUTDOWN, STOP, resume_attempt, start_attempt
from luigi_pai.local.launcher.completion import (
    FIRST_FAILURE,
    Outcome,
    complete_stopped_job,
    conclude_attempt,
    retry_delay,
)
from luigi_pai.local.launcher.scheduler import JobQueue
from luigi_pai.local.launcher.task_runner import TaskLost
from luigi_pai.local.store.database import now_ms
from luigi_pai.local.store.records import COMPLETED

if TYPE_CHECKING:
    import logging
    from collections.abc import Coroutine, Mapping

    from luigi_pai.local.launcher.attempt import AttemptRun
    from luigi_pai.local.launcher.scheduler import Allocation, InsufficientResources
    from luigi_pai.local.launcher.task_runner import Services
    from luigi_pai.local.store.records import Attempt, Job

_WAITS_FOR_RETRY = "it is about to be tried again"


class Launcher:
    """Keeps jobs running until they are complete."""

    def __init__(self, services: Services, log: logging.Logger) -> None:
        self._services = services
        self._store = services.store
        self._log = log
        self._warnings = log.getChild("warnings")
        self._runs: dict[int, AttemptRun] = {}
        self._background: set[asyncio.Task[None]] = set()
        self.ports = Ports()
        self.scheduler = services.scheduler
        self.queue = JobQueue(self.scheduler, self._start_job, self._report_insufficient)

    # called by the server and its API

    def recover(self) -> None:
        """Resume an earlier server's jobs: waiting, running, stopping and deleted jobs."""
        for job in self._store.unfinished_jobs():
            attempt = self._store.last_attempt(job)
            if attempt is not None and attempt.completed is None:
                self._resume(job, attempt)
            elif job.deleted:
                self._purge_later(job)
            elif job.execution_type == "STOP":
                with self._store.changing(job):
                    complete_stopped_job(job, self._services)
            else:
                self.queue.add(job)
        self._schedule()

    def add(self, job: Job) -> None:
        """Queue a new job that is already in the store. It starts soon if there are enough resources.

        A job whose job script has ``waits`` set is not queued. It can only start after a server restart.
        """
        script = self._services.scripts.decide(job)
        if script is not None and script.waits:
            return
        self.queue.add(job)
        asyncio.get_running_loop().call_soon(self._schedule)

    def stop(self, job: Job) -> None:
        """Stop a job; its tasks' processes end soon after."""
        if job.sub_state == COMPLETED:
            return
        job = self._current(job)
        run = self._runs.get(job.id)
        with self._store.changing(job):
            job.execution_type = "STOP"
            self._store.save_job(job)
            if run is None:
                complete_stopped_job(job, self._services)
        if run is None:
            self.queue.remove(job)
        else:
            run.end(STOP)

    def delete(self, job: Job) -> None:
        """Delete a job with its records and files; end it first if it is running."""
        job = self._current(job)
        with self._store.changing(job):
            job.deleted = True
            self._store.save_job(job)
        if job.id in self._runs:
            self._runs[job.id].end(DELETE)
        else:
            self.queue.remove(job)
            self._purge_later(job)

    async def delete_all(self) -> None:
        """Delete all jobs, and wait until nothing is left of them."""
        for job in self._store.select_jobs("WHERE NOT deleted", ()):
            self.delete(job)
        while self._background:
            await asyncio.wait(self._background)

    async def shut_down(self) -> None:
        """End every task. The next server retries each attempt without a known outcome."""
        self.queue.close()
        try:
            with self._store.changing():
                for run in self._runs.values():
                    if not run.is_decided:
                        self._store.interrupt_attempt(run.attempt)
        except sqlite3.Error:  # the next server treats the tasks as killed, so it retries the attempts
            self._log.exception("the end of this server cannot be saved")
        for run in self._runs.values():
            run.end(SHUTDOWN)
        while self._background:
            await asyncio.wait(self._background)

    # the start of an attempt

    def _schedule(self) -> None:
        try:
            self.queue.schedule(self._runs)
        except Exception:  # noqa: BLE001 - called when other jobs end, which must not fail because of it
            self._log.exception("scheduling the waiting jobs failed")

    def _report_insufficient(self, job: Job, insufficient: InsufficientResources) -> None:
        """Record that a job has to wait for resources; log a warning if it can never fit."""
        if insufficient.permanent:
            self._warnings.warning("job %s of %s: %s", job.name, job.username, insufficient.reason)
        try:
            self._store.record_event(job, "FailedScheduling", insufficient.reason, warning=True)
        except sqlite3.Error:
            self._log.exception("the reason why job %s waits cannot be saved", job.name)

    def _start_job(self, job: Job, allocated: Mapping[int, Allocation]) -> None:
        """Start a job's next attempt; delay the job if too few ports are free or saving the attempt fails."""
        reserved: list[dict[str, list[int]]] = []
        seconds, reason = self._services.retry_seconds, "the server could not save its start"
        try:
            try:
                reserved = self.ports.reserve_all(job.roles)
            except OSError as error:
                seconds, reason = self._without_ports(job, error)
            else:
                with self._store.changing(job):
                    run = start_attempt(job, reserved, allocated, self._services)
                self._follow(run)
                return
        except Exception:  # noqa: BLE001 - one job must not keep the others, or the server, from starting
            self._log.exception("job %s cannot start", job.name)
        self.scheduler.release(allocated.values())
        for ports in reserved:
            self.ports.release(ports)
        if job.sub_state != COMPLETED:
            self.queue.delay(job, seconds, reason, self._schedule)

    def _without_ports(self, job: Job, error: OSError) -> tuple[float, str]:
        """Handle a lack of free ports; return how long the job waits, in seconds, and why.

        On 0.7.1, the job waits for ports; on 1.8, the attempt fails.
        """
        exit_code = job.release.exit_no_ports
        if exit_code is None:
            return self._services.retry_seconds, str(error)
        none: dict[str, list[int]] = {}
        tasks = sum(role["taskNumber"] for role in job.roles)
        with self._store.changing(job):
            run = start_attempt(job, [none] * tasks, {}, self._services)
            task = run.tasks[0]
            task.exit_code, task.completed = exit_code, now_ms()
            self._store.save_task(task)
            self._store.record_event(job, "ContainerPortConflict", str(error), warning=True)
            conclude_attempt(run, Outcome(exit_code, task, FIRST_FAILURE), self._services)
        return retry_delay(job.retries), _WAITS_FOR_RETRY

    def _resume(self, job: Job, attempt: Attempt) -> None:
        run = resume_attempt(job, attempt, self._services)
        for task in run.tasks:
            self.ports.hold(task.ports)
        if job.deleted:
            run.end(DELETE)
        elif job.execution_type == "STOP":
            run.end(STOP)
        elif attempt.interrupted:
            run.end(SHUTDOWN)
        self._follow(run)

    def _follow(self, run: AttemptRun) -> None:
        self._runs[run.job.id] = run
        self._run_in_background(self._run_to_end(run))

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background; the shutdown waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # the end of an attempt

    async def _run_to_end(self, run: AttemptRun) -> None:
        """Wait for an attempt's outcome, clean up, and save the outcome, even if something fails."""
        outcome: Outcome | None = None
        problem = "the server is shut down"
        try:
            outcome = await run.outcome(self._schedule)
            run.is_decided = outcome is not None
        except TaskLost as lost:
            problem = str(lost)
        except Exception:  # noqa: BLE001 - a job must end, even if this server has a problem
            self._log.exception("following job %s failed", run.job.name)
            problem = "the server failed to follow it"
        try:
            await run.clean_up()
        except Exception:  # noqa: BLE001 - as above
            self._log.exception("cleaning up after job %s failed", run.job.name)
        run.release()
        for task in run.tasks:
            self.ports.release(task.ports)
        self.queue.remove(run.job)  # the queue may still hold the reason why the job's tasks waited
        await self._conclude(run, outcome, problem)
        self._schedule()

    async def _conclude(self, run: AttemptRun, outcome: Outcome | None, problem: str) -> None:
        """Record that an attempt ended, trying again until this works; then retry, end or purge the job."""
        job, retry = run.job, False
        while run.ending != DELETE:
            try:
                with self._store.changing(job, run.attempt, *run.tasks):
                    retry = conclude_attempt(run, outcome, self._services)
                break
            except Exception:  # noqa: BLE001 - a full disk, most likely: the job must not be lost
                self._log.exception("the end of job %s cannot be saved", job.name)
                if self.queue.closed:
                    break  # the next server resumes the attempt
                await asyncio.sleep(self._services.retry_seconds)
        del self._runs[job.id]
        if run.ending == DELETE:
            self._purge_later(job)
        elif retry:
            if outcome is None:
                self._log.info("job %s is run again: %s", job.name, problem)
            self.queue.delay(job, retry_delay(job.retries), _WAITS_FOR_RETRY, self._schedule)

    def _purge_later(self, job: Job) -> None:
        self._run_in_background(self._purge(job))

    async def _purge(self, job: Job) -> None:
        await asyncio.to_thread(self._services.folders.remove, job.id, job.name)
        self._store.purge_job(job)  # if this call fails, the next server purges the job

    def _current(self, job: Job) -> Job:
        """Return the launcher's own object for an unfinished job, or ``job`` if there is none."""
        if job.id in self._runs:
            return self._runs[job.id].job
        return self.queue.get(job.id) or job
