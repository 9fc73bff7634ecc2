"""The launcher by itself: what no request can bring about."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor

from local_client import role

from luigi_pai.local import config_rules, launcher
from luigi_pai.local.records import COMPLETED, NewJob
from luigi_pai.local.server import LocalServer
from luigi_pai.local.settings import Settings


def test_a_job_whose_begin_cannot_be_written_down_is_not_forgotten(tmp_path, monkeypatch):
    """A full disk: it begins when there is room again, with what it needs; its first try holds nothing."""
    begin, failures = launcher.begin_attempt, [sqlite3.OperationalError("database or disk is full")] * 2

    def begin_attempt(*arguments):
        if failures:
            raise failures.pop()
        return begin(*arguments)

    monkeypatch.setattr(launcher, "begin_attempt", begin_attempt)
    monkeypatch.setattr(launcher, "_AGAIN", 0.05)
    config = {"jobName": "a", "image": "x", "taskRoles": [role("true", cpuNumber=2, gpuNumber=1)]}
    spec = config_rules.JOB_CONFIG.check(config)

    async def run():
        server = LocalServer(Settings(tmp_path, port=0, virtual_clusters=("default:cpu=2,memory=999,gpu=1",)))
        job = server._store.add_job(NewJob("a", "admin", "default", config, spec))
        server._launcher.add(job)
        await asyncio.sleep(0)
        why = server._launcher.why_waiting(job)
        for _ in range(400):
            await asyncio.sleep(0.02)
            found = server._store.job("a")
            if found.sub_state == COMPLETED:
                break
        held = server._launcher.running_tasks, server._launcher._ports._held
        await server.close()
        return why, found.exit_code, found.retries, held

    with ThreadPoolExecutor() as threads:  # this one's event loop is left to others
        ended = threads.submit(asyncio.run, run()).result()
    assert ended == ("the server could not write its begin down", 0, 0, (0, set()))
