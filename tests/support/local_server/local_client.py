"""Talks to a local server the plain way: requests, no part of luigi_pai's own client."""

from __future__ import annotations

import itertools
import os

import requests
from container_environments import Role
from waiting import wait_until

ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
_numbers = itertools.count(1)


def unique(word="job"):
    """A job name that no other test of this session uses."""
    return f"{word}-{os.getpid()}-{next(_numbers)}"


def role(command, name="main", **more):
    return {"name": name, "command": command, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0, **more}


class JobClient:
    """What the clients of both APIs do with jobs; ``send`` is theirs."""

    def job(self, name):
        reply = self.send("GET", f"/jobs/{name}")
        assert reply.status_code == 200, reply.text
        return reply.json()

    def status(self, name):
        return self.job(name)["jobStatus"]

    def wait(self, name, *states):
        """Return the job as soon as it is in one of the states (default: ended)."""

        def there():
            job = self.job(name)
            return job if job["jobStatus"]["state"] in (states or ENDED) else None

        return wait_until(there)

    def end(self, name):
        """Wait for the end of a job, and return its state, exit code and number of retries."""
        status = self.wait(name)["jobStatus"]
        return status["state"], status["appExitCode"], status["retries"]

    def run(self, *jobs, **more):
        """Submit a job and return it when it has ended."""
        return self.wait(self.submit(*jobs, **more))

    def stop(self, name):
        reply = self.send("PUT", f"/jobs/{name}/executionType", {"value": "STOP"})
        assert reply.status_code == 202, reply.text

    def task(self, job, role="main", index=0):
        for status in job["taskRoles"][role]["taskStatuses"]:
            if status["taskIndex"] == index:
                return status
        raise AssertionError(f"no task {role}-{index} in {job}")


class LocalClient(JobClient):
    """One user's view of a server."""

    def __init__(self, server, username=None, password=None):
        self.server = server
        self.api = f"{server.url}/api/v1"
        reply = self.call(
            "POST",
            "/token",
            {"username": username or server.username, "password": password or server.password},
        )
        assert reply.status_code == 200, reply.text
        self.token = reply.json()["token"]

    def call(self, method, path, body=None, *, token=None, **more):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return requests.request(method, self.api + path, json=body, headers=headers, timeout=20, **more)

    def send(self, method, path, body=None):
        return self.call(method, path, body, token=self.token)

    def post(self, name, *roles, **more):
        """Submit a job; roles may be plain commands."""
        roles = [role(item) if isinstance(item, str) else item for item in roles]
        return self.send("POST", "/jobs", {"jobName": name, "image": "python", "taskRoles": roles, **more})

    def submit(self, *roles, name=None, **more):
        name = name or unique()
        reply = self.post(name, *roles, **more)
        assert reply.status_code == 202, reply.text
        return name

    def log(self, job, task="main", index=0, stream="stdout"):
        """Return what a task wrote."""
        return requests.get(self.task(job, task, index)["containerLog"] + stream, timeout=20).text


def roles_of(job):
    """Return the roles of a job, with the addresses and ports of their tasks."""
    return [_placed(name, role["taskStatuses"]) for name, role in job["taskRoles"].items()]


def _placed(name, tasks):
    ports = [task["containerPorts"].items() for task in tasks]
    numbers = [{label: [int(port) for port in group.split(",")] for label, group in each} for each in ports]
    return Role(name, [task["containerIp"] for task in tasks], numbers)
