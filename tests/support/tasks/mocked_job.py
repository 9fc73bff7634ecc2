"""A job whose lookups are mocked with responses."""

from __future__ import annotations

import responses

__all__ = ["QUICK", "mocked_job"]

QUICK = {"poll_min": 0.01, "poll_max": 0.02}


def mocked_job(
    settings, name: str, log: str = "", *, count: int, states=("RUNNING", "SUCCEEDED"), version="v1", **keys
) -> str:
    """Mock the login and the lookups of a job, and return its address.

    Args:
        settings: the fixture.
        name: of the job.
        log: the address of the log of each task; ``{}`` is its index.
        count: the number of its tasks, of the role main.
        states: its state in each lookup; the last one stays.
        version: of the API.
        keys: more settings of [OpenPai].
    """
    settings(pai_url="http://pai", username="admin", password="secret", api_version=version, **keys)
    path = f"http://pai/api/v1/jobs/{name}" if version == "v1" else f"http://pai/api/v2/jobs/admin~{name}"
    responses.post("http://pai/api/v1/token", json={"token": "t"})
    tasks = [{"taskIndex": index, "containerLog": log.format(index)} for index in range(count)]
    for state in states:
        status = {"name": name, "username": "admin", "createdTime": 1, "state": state}
        job = {"name": name, "jobStatus": status, "taskRoles": {"main": {"taskStatuses": tasks}}}
        responses.get(path, json=job)
    return path
