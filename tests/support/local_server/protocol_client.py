"""Talks to a local server's v2 API the plain way: requests, no part of luigi_pai's own client."""

from __future__ import annotations

import json

import requests
from local_client import JobClient, unique

IMAGE = {"name": "img", "type": "dockerimage", "uri": "python"}


def protocol(*commands, name=None, roles=None, **more):
    """Return the text of a job protocol: one role ``main`` with these commands, or these roles.

    JSON is YAML, so texts arrive exactly.
    """
    document = {
        "protocolVersion": 2,
        "name": name or unique(),
        "type": "job",
        "jobRetryCount": 0,
        "prerequisites": [
            {"name": "img", "type": "dockerimage", "uri": "python"},
            *more.pop("prerequisites", []),
        ],
        "taskRoles": roles or {"main": task_role(*commands)},
        **more,
    }
    return json.dumps(document)


def task_role(*commands, **more):
    return {
        "instances": 1,
        "dockerImage": "img",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0},
        "commands": list(commands),
        **more,
    }


def plugin(name, parameters, **more):
    return {"com.microsoft.pai.runtimeplugin": [{"plugin": name, "parameters": parameters, **more}]}


class ProtocolClient(JobClient):
    """One user's view of a server's v2 API."""

    def __init__(self, server, username=None, password=None):
        self.server = server
        self.username = username or server.username
        reply = self.call(
            "POST",
            "/authn/basic/login",
            json={"username": self.username, "password": password or server.password},
        )
        assert reply.status_code == 200, reply.text
        self.token = reply.json()["token"]

    def call(self, method, path, **more):
        return requests.request(method, f"{self.server.url}/api/v2{path}", timeout=20, **more)

    def send(self, method, path, body=None, **query):
        headers = {"Authorization": f"Bearer {self.token}"}
        return self.call(method, path, json=body, headers=headers, params=query)

    def post(self, text, kind="text/yaml"):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        return self.call("POST", "/jobs", data=text.encode(), headers=headers)

    def submit(self, text):
        reply = self.post(text)
        assert reply.status_code == 202, reply.text
        return f"{self.username}~{json.loads(text)['name']}"

    def run(self, *commands, **more):
        """Submit a job of such a protocol and return it when it has ended."""
        return super().run(protocol(*commands, **more))

    def logs(self, job, role="main", index=0, **query):
        """Return the log files of a task: name -> address."""
        reply = self.send("GET", self.task(job, role, index)["containerLog"].removeprefix("/api/v2"), **query)
        assert reply.status_code == 200, reply.text
        return {item["name"]: self.server.url + item["uri"] for item in reply.json()["locations"]}

    def log(self, job, role="main", index=0, name="stdout"):
        """Return what a task wrote."""
        reply = requests.get(self.logs(job, role, index)[name], timeout=20)
        assert reply.status_code == 200, reply.text
        return reply.text
