"""Brings every job to its end: queues it, starts attempts, decides what follows, goes on after a restart."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

from luigi_pai.local.container.exit_specs import EXIT_NO_PORTS
from luigi_pai.local.container.ports import Ports
from luigi_pai.local.launcher.attempt import (
    DELETE,
    EXIT_NOT_STARTED,
    SHUTDOWN,
    STOP,
    TaskLost,
)
from luigi_pai.local.launcher.attempt_end import end_attempt, last_words
from luigi_pai.local.launcher.attempt_start import begin_attempt, take_over_attempt
from luigi_pai.local.launcher.completion import (
    FIRST_FAILURE,
    Again,
    Outcome,
    exit_type,
    retry,
    retry_delay,
    stopped_code,
)
from luigi_pai.local.launcher.job_queue import WaitingLine
from luigi_pai.local.store.jobs import now_ms
from luigi_pai.local.store.records import COMPLETED, WAITING

if TYPE_CHECKING:
    import logging
    from collections.abc import Coroutine, Mapping

    from luigi_pai.local.launcher.attempt import AttemptRun
    from luigi_pai.local.launcher.scheduler import Holding, Shortage
    from luigi_pai.local.launcher.services import Surroundings
    from luigi_pai.local.store.records import Attempt, Job
    from luigi_pai.local.views.job_events import JobNotes

__all__ = ["Launcher"]

_AGAIN = 1.0
"""Seconds until a job that could not begin, for want of ports (v1) or of disk, is looked at again."""

_STOPPED = {
    1: "UserApplication killed due to StopFrameworkRequest",
    2: "User has requested to stop the Framework",
}
"""What the launchers say of a job that a user stopped."""

_ABOUT_TO = "it is about to be tried again"


class Launcher:
    """Keeps jobs running until they are complete.

    Args:
        around: what all attempts run with.
        log: the server's log.
        notes: where events go.
    """

    def __init__(self, around: Surroundings, log: logging.Logger, notes: JobNotes) -> None:
        self._around = around
        self._store = around.store
        self._log = log
        self._warnings = log.getChild("warnings")
        self._notes = notes
        self._ports = Ports()
        self._runs: dict[int, AttemptRun] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._later: asyncio.TimerHandle | None = None
        self.scheduler = around.scheduler
        self._line = WaitingLine(self.scheduler, self._begin, self._short)

    # from outside

    @property
    def running_tasks(self) -> int:
        """How many task processes there are."""
        return self.scheduler.running_tasks

    def why_waiting(self, job: Job) -> str | None:
        """Return why a job, or some task of it, does not run yet; None if nothing of it waits."""
        return self._line.why(job)

    def recover(self) -> None:
        """Take up what an earlier server left: waiting, running, stopping and deleted jobs."""
        for job in self._store.unfinished_jobs():
            attempt = self._store.last_attempt(job)
            if attempt is not None and attempt.completed is None:
                self._take_over(job, attempt)
            elif job.deleted:
                self._forget(job)
            elif job.execution_type == "STOP":
                with self._store.changing(job):
                    self._complete_stopped(job)
            else:
                self._line.add(job)
        self._fill()

    def add(self, job: Job) -> None:
        """Run a job that the store has taken, at once if there is room."""
        self._line.add(job)
        asyncio.get_running_loop().call_soon(self._fill)

    def stop(self, job: Job) -> None:
        """Stop a job; the processes of its tasks end soon after."""
        if job.sub_state == COMPLETED:
            return
        job = self._current(job)
        runs = job.id in self._runs
        with self._store.changing(job):
            job.execution_type = "STOP"
            self._store.save_job(job)
            if not runs:
                self._complete_stopped(job)
        if runs:
            self._runs[job.id].end(STOP)
        else:
            self._line.remove(job)

    def delete(self, job: Job) -> None:
        """Forget a job and everything of it, ending it first if it runs."""
        job = self._current(job)
        with self._store.changing(job):
            job.deleted = True
            self._store.save_job(job)
        if job.id in self._runs:
            self._runs[job.id].end(DELETE)
        else:
            self._line.remove(job)
            self._forget(job)

    async def shut_down(self) -> None:
        """End every task; attempts that are not decided are made again by the next server."""
        self._line.close()
        try:
            with self._store.changing():
                for run in self._runs.values():
                    if not run.is_decided:
                        self._store.interrupt_attempt(run.attempt)
        except sqlite3.Error:  # the next server takes their tasks for killed ones, which comes to the same
            self._log.exception("the end of this server cannot be written down")
        for run in self._runs.values():
            run.end(SHUTDOWN)
        while self._background:
            await asyncio.wait(self._background)

    def hurry(self) -> None:
        """Give ending tasks no further grace."""
        self._around.hurry.set()

    # beginning an attempt

    def _fill(self) -> None:
        """Begin what waits, as long as there is room."""
        try:
            self._line.move(self._runs)
        except Exception:  # noqa: BLE001 - it may be called for another job, which has no part in it
            self._log.exception("beginning what waits failed")
            if self._later is None:
                self._later = asyncio.get_running_loop().call_later(_AGAIN, self._fill_again)

    def _fill_again(self) -> None:
        self._later = None
        self._fill()

    def _short(self, job: Job, shortage: Shortage) -> None:
        """Write down that a job has to wait for resources, and warn of one that waits for ever."""
        if shortage.for_ever:
            self._warnings.warning("job %s of %s: %s", job.name, job.username, shortage.reason)
        if job.generation > 1:
            try:
                self._notes.happened(job, "FailedScheduling", shortage.reason, warning=True)
            except sqlite3.Error:
                self._log.exception("why job %s waits cannot be written down", job.name)

    def _begin(self, job: Job, placed: Mapping[int, Holding]) -> None:
        """Write the next attempt down and begin to follow it; later, where the disk does not take it."""
        reserved: list[tuple[dict[str, list[int]], list[str]]] | None = None
        try:
            reserved = self._ports.reserve_all(job.roles)
            with self._store.changing(job):
                run = begin_attempt(job, reserved, placed, self._around, self._notes)
        except Exception as error:  # noqa: BLE001 - one job must not keep the others, or the server, from starting
            self.scheduler.release(placed.values())
            for ports, _ in reserved or ():
                self._ports.release(ports)
            self._not_begun(job, error, has_ports=reserved is not None)
        else:
            self._follow(run)

    def _not_begun(self, job: Job, error: Exception, *, has_ports: bool) -> None:
        """Let a job that could not begin wait, or fail."""
        seconds, why = _AGAIN, "the server could not write its begin down"
        try:
            if not has_ports:
                with self._store.changing(job):
                    seconds, why = self._without_ports(job, error)
        except Exception:  # noqa: BLE001 - a full disk, most likely: the job must not be forgotten
            has_ports = True
        if has_ports:
            self._log.error("job %s cannot begin", job.name, exc_info=error)
        if job.sub_state != COMPLETED:
            self._line.delay(job, seconds, why, self._fill)

    def _without_ports(self, job: Job, error: Exception) -> tuple[float, str]:
        """Write down what becomes of a job without ports, and return how long it waits then, and why.

        The launcher of 0.7 goes on asking; on 1.8 the attempt fails with 253. Where it is not the
        machine that has no ports, the job has failed.
        """
        if not isinstance(error, OSError):
            self._complete(job, EXIT_NOT_STARTED, str(error))
        if not isinstance(error, OSError) or job.generation == 1:
            return _AGAIN, str(error)
        nothing: list[tuple[dict[str, list[int]], list[str]]] = [({}, [])] * sum(
            role["taskNumber"] for role in job.roles
        )
        run = begin_attempt(job, nothing, {}, self._around, self._notes)
        task = run.tasks[0]
        task.exit_code, task.completed = EXIT_NO_PORTS, now_ms()
        self._store.save_task(task)
        self._notes.happened(job, "ContainerPortConflict", str(error), warning=True)
        self._conclude(run, Outcome(EXIT_NO_PORTS, task, FIRST_FAILURE), "")
        return retry_delay(job.retries), _ABOUT_TO

    def _take_over(self, job: Job, attempt: Attempt) -> None:
        """Follow an attempt that an earlier server began."""
        run = take_over_attempt(job, attempt, self._around)
        for task in run.tasks:
            self._ports.hold(task.ports)
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
            run.is_decided = outcome is not None
        except TaskLost as lost:
            problem = str(lost)
        except Exception:  # noqa: BLE001 - a job must come to an end whatever is wrong with this server
            self._log.exception("following job %s failed", run.job.name)
            problem = "the server failed to follow it"
        try:
            await run.clean_up()
        except Exception:  # noqa: BLE001 - as above
            self._log.exception("cleaning up after job %s failed", run.job.name)
        run.give_back()
        for task in run.tasks:
            self._ports.release(task.ports)
        self._line.remove(run.job)  # it is not in the line; why its tasks waited is over
        await self._write_end(run, outcome, problem)
        self._fill()

    # ending an attempt

    async def _write_end(self, run: AttemptRun, outcome: Outcome | None, problem: str) -> None:
        """Write the end of an attempt down; again and again where the disk does not take it."""
        again = False
        while True:
            try:
                with self._store.changing(run.job, run.attempt, *run.tasks):
                    again = self._conclude(run, outcome, problem)
                break
            except Exception:  # noqa: BLE001 - a full disk, most likely: the job must not be forgotten
                self._log.exception("the end of job %s cannot be written down", run.job.name)
                if self._line.closed:
                    break  # the next server takes the attempt over
                await asyncio.sleep(_AGAIN)
        del self._runs[run.job.id]
        if again:
            self._line.delay(run.job, retry_delay(run.job.retries), _ABOUT_TO, self._fill)

    def _conclude(self, run: AttemptRun, outcome: Outcome | None, problem: str) -> bool:
        """Write the end of an attempt down, and what follows from it; True if that is another attempt."""
        job = run.job
        if run.ending == DELETE:
            self._forget(job)
            return False
        end_attempt(run, outcome, self._store, self._notes)
        if outcome is None and job.execution_type == "STOP":
            self._complete_stopped(job)
            return False
        again = self._again(job, outcome)
        if outcome is not None and not again.again:
            said = last_words(job, outcome, self._store, self._around.folders)
            self._complete(job, outcome.exit_code, said)
            return False
        if outcome is None:
            self._log.info("job %s is run again: %s", job.name, problem)
        job.retries += 1
        job.counted_retries += again.counted
        job.sub_state = WAITING
        self._store.save_job(job)
        return True

    @staticmethod
    def _again(job: Job, outcome: Outcome | None) -> Again:
        """Decide about another attempt; one without an outcome is always made again, uncounted."""
        if outcome is None:
            return Again(again=True)
        if job.execution_type == "STOP":
            return Again(again=False)
        return retry(job.spec["retryCount"], outcome.exit_code, job.counted_retries, job.generation)

    def _complete_stopped(self, job: Job) -> None:
        self._complete(job, stopped_code(job.generation), _STOPPED[job.generation])

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
        while True:
            try:
                self._store.purge_job(job)
                break
            except sqlite3.Error:
                self._log.exception("that job %s is deleted cannot be written down", job.name)
                if self._line.closed:
                    break  # the next server forgets it
                await asyncio.sleep(_AGAIN)

    def _current(self, job: Job) -> Job:
        """Return the one object that stands for an unfinished job."""
        if job.id in self._runs:
            return self._runs[job.id].job
        return self._line.get(job.id) or job
