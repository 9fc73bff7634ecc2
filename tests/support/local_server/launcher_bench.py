"""A launcher without a server, for what no request can bring about."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3

from event_loop import until
from local_client import role
from protocol_client import protocol, task_role

from luigi_pai.local.config.rules import JobScripts
from luigi_pai.local.config.settings import HdfsAddress, virtual_clusters
from luigi_pai.local.container import processes
from luigi_pai.local.container.processes import Orphans
from luigi_pai.local.container.protocol_spec import job_spec
from luigi_pai.local.container.storages import Storages
from luigi_pai.local.container.task_files import JobFolders
from luigi_pai.local.launcher.launcher import Launcher
from luigi_pai.local.launcher.scheduler import Scheduler
from luigi_pai.local.launcher.task_runner import Services
from luigi_pai.local.rest.v1 import read_config
from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import COMPLETED, RUNNING


class FailingCalls:
    """Makes the first calls of a method fail, as on a full disk.

    Args:
        monkeypatch: pytest's.
        place: the object.
        name: its method.
        failures: how many calls fail, and do nothing.
    """

    def __init__(self, monkeypatch, place, name, failures):
        self.left = failures
        self.real = getattr(place, name)
        monkeypatch.setattr(place, name, self)

    def __call__(self, *arguments, **more):
        if self.left:
            self.left -= 1
            raise sqlite3.OperationalError("database or disk is full")
        return self.real(*arguments, **more)


class Bench:
    """A launcher, and what it works with.

    Args:
        kind: of its jobs: ``v1``; ``v2``, ``gang``, ``loose`` and all else are of 1.8.

    Attributes:
        go: the file whose existence ends commands that begin with ``hold``.
        services: the launcher's services.
    """

    def __init__(self, folder, clusters=(), max_tasks=64, kind="v1"):
        folder.mkdir(exist_ok=True)
        self.data = folder
        self.go = folder / "go"
        self.hold = f"until [ -e {self.go} ]; do sleep 0.02; done; "
        self.store = Store(folder / "server.sqlite", "v1" if kind == "v1" else "v2")
        self.services = Services(
            store=self.store,
            folders=JobFolders(folder / "jobs", folder / "run-task.sh"),
            orphans=Orphans(),
            bin=folder / "bin",
            hdfs=HdfsAddress("http://127.0.0.1:1", "hdfs://127.0.0.1:1"),
            storages=Storages(folder / "storages"),
            scheduler=Scheduler(virtual_clusters(clusters), max_tasks),
            stop_grace=0.2,
            scripts=JobScripts(),
            start_delay=0,
            retry_seconds=0.05,
        )
        self.launcher = Launcher(self.services, logging.getLogger("tests.launcher"))

    async def close(self):
        await self.launcher.shut_down()
        self.store.close()

    # jobs

    def v1(self, name, *roles, **more):
        return self.add(*v1_job(name, *roles, **more))

    def v2(self, name, role=None, *, gang=True, text=None, **more):
        """Add a v2 job of one role, or of a protocol's text."""
        config = json.loads(text or protocol(name=name, roles={"main": role}, **more))
        config["extras"] = {**config.get("extras", {}), "gangAllocation": gang}
        return self.add(name, "admin", "default", config, job_spec(config))

    def job(self, kind, command, *, tasks=1, cpu=1, retries=0, gang=None, name="a"):
        """Add a job of one role: v1, gang or loose."""
        if kind == "v1":
            return self.v1(name, role(command, taskNumber=tasks, cpuNumber=cpu), retryCount=retries)
        wanted = {"cpu": cpu, "memoryMB": 1, "gpu": 0}
        main = task_role(command, instances=tasks, resourcePerInstance=wanted)
        return self.v2(name, main, gang=kind == "gang" if gang is None else gang, jobRetryCount=retries)

    def add(self, *new):
        job = self.store.add_job(*new)
        self.launcher.add(job)
        return job

    # what is known of them

    def found(self, job):
        """Return a job as the file has it; None if it has gone."""
        return self.store.job(job.name)

    def stop(self, job):
        self.launcher.stop(self.found(job))

    def why(self, job):
        return self.launcher.queue.why(job)

    def tasks(self, job):
        """Return the tasks of a job's last attempt."""
        attempt = self.store.last_attempt(job)
        return [] if attempt is None else self.store.tasks(attempt)

    def folders(self, job):
        return [self.services.folders.task_files(task.folder).folder for task in self.tasks(job)]

    def logs(self, job, name):
        return [folder / name for folder in self.folders(job) if (folder / name).exists()]

    def processes(self, job):
        """Return the processes of a job's last tasks."""
        return processes.members({str(folder): None for folder in self.folders(job)})

    def runs(self, job):
        """Say whether a job has an attempt that goes on."""
        return self.found(job).sub_state == RUNNING

    async def began(self, *jobs):
        await until(lambda: all(self.runs(job) for job in jobs))

    async def ended(self, job):
        """Return a job as the file has it once it has ended."""
        await until(lambda: self.found(job).sub_state == COMPLETED)
        return self.found(job)

    def kept(self):
        """Return what is kept of jobs: all 0 when none waits or runs."""
        launcher = self.launcher
        return {
            "running jobs": len(launcher._runs),
            "running tasks": len(launcher.scheduler.allocations),
            "in the queue": len(launcher.queue),
            "ports": len(launcher.ports),
        }


NOTHING = {"running jobs": 0, "running tasks": 0, "in the queue": 0, "ports": 0}
"""What `Bench.kept` returns when all jobs have ended."""


def v1_job(name, *roles, **more):
    config = {"jobName": name, "image": "x", "taskRoles": list(roles), **more}
    spec = {**read_config(config), "gang": True}
    return name, "admin", "default", config, spec


async def at_once(condition):
    """Wait no longer than to the turn of the loop that brings it about."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come about in time")


def on(*clusters, **more):
    """Give the bench of a test these virtual clusters, and other arguments of `Bench`."""

    def mark(test):
        test.bench = {"clusters": clusters, **more}
        return test

    return mark
