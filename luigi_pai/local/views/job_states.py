"""The states of jobs, as a value and as SQL, in the words of the release that runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.store.records import COMPLETED, WAITING

if TYPE_CHECKING:
    from luigi_pai.local.releases.release import Release
    from luigi_pai.local.store.records import Job

__all__ = ["ended_state", "job_state", "state_sql"]


def job_state(job: Job) -> str:
    """Return WAITING, RUNNING, STOPPING (not on 0.7.1), SUCCEEDED, STOPPED or FAILED."""
    if job.sub_state == COMPLETED:
        return ended_state(job.release, job.exit_code)
    if job.sub_state == WAITING:
        return "WAITING"
    stopping = job.execution_type == "STOP" and job.release.launcher.shows_stopping
    return "STOPPING" if stopping else "RUNNING"


def ended_state(release: Release, exit_code: int | None) -> str:
    """Return SUCCEEDED, STOPPED or FAILED, the state of what ended with this exit code."""
    if exit_code == 0:
        return "SUCCEEDED"
    return "STOPPED" if exit_code in release.launcher.stopped_codes else "FAILED"


def state_sql(release: Release) -> str:
    """Return the SQL expression of `job_state` for rows of the table ``jobs``."""
    stopping = int(release.launcher.shows_stopping)
    stopped = ", ".join(map(str, release.launcher.stopped_codes))
    return f"""CASE
    WHEN sub_state = '{WAITING}' THEN 'WAITING'
    WHEN sub_state <> '{COMPLETED}' AND execution_type = 'STOP' AND {stopping} THEN 'STOPPING'
    WHEN sub_state <> '{COMPLETED}' THEN 'RUNNING'
    WHEN exit_code = 0 THEN 'SUCCEEDED'
    WHEN exit_code IN ({stopped}) THEN 'STOPPED'
    ELSE 'FAILED' END"""
