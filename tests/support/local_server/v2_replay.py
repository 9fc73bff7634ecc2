"""The requests of the v2 recordings, sent to a local server; the answers are kept."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import requests
from recording import check_answer
from waiting import wait_until


def job(name, more="", command="sleep 60", cluster=None, role="worker"):
    return (
        f"""protocolVersion: 2
name: {name}
type: job
jobRetryCount: 0
prerequisites:
  - {{protocolVersion: 2, name: img, type: dockerimage, uri: ubuntu}}
secrets: {{pw: hush}}
parameters: {{x: 1}}
taskRoles:
  {role}:
    instances: 1
    completion: {{minFailedInstances: 1}}
    dockerImage: img
    resourcePerInstance: {{cpu: 1, memoryMB: 1024, gpu: 0}}
    commands: ["{command}"]
"""
        + (f"defaults: {{virtualCluster: {cluster}}}\n" if cluster else "")
        + more
    )


NOT_THERE = (
    "users",
    "user get",
    "user v1",
    "user missing",
    "groups",
    "sku",
    "alerts",
    "nodes",
    "bob nodes",
)
"""The steps of what the local server does not have: docs/local-reference.md names them."""


class Replay:
    """Sends the recorded requests, with names of this run, and keeps the answers."""

    def __init__(self, url, name, recording, recorded_name):
        self.url = url
        self.name = name
        self.recorded_name = recorded_name
        self.recorded = {entry["step"]: entry for entry in recording}
        self.answers = {}
        self.token = self.bob = self.application = None

    def send(self, step, body=None, *, kind=None, auth=None, path=None):
        method, recorded = self.recorded[step]["req"].split(" ", 1)
        headers = {"Authorization": auth if " " in auth else f"Bearer {auth}"} if auth else {}
        if isinstance(body, dict) and kind is None:
            body, kind = json.dumps(body), "application/json"
        if isinstance(body, str):
            headers["Content-Type"] = kind
            body = body.encode()
        reply = requests.request(
            method,
            self.url + (path or recorded).replace(self.recorded_name, self.name),
            data=body,
            headers=headers,
            timeout=20,
        )
        self.answers[step] = reply
        return reply

    def ask(self, *steps):
        for step in steps:
            self.send(step, auth=self.token)

    def run(self):
        self.run_logins()
        self.run_submissions()
        self.run_readings()
        self.run_lists()
        self.run_stops()
        self.run_cluster()
        self.run_second_user()

    def run_logins(self):
        send = self.send
        for step in (
            "info v1",
            "info v2",
            "info",
            "authn info",
            "unknown route",
            "v1 jobs list",
            "v1 user jobs",
        ):
            send(step)
        login = {"username": "admin", "password": "admin-password"}
        send("login bad schema", {"username": "admin"})
        send("login short pw", {"username": "admin", "password": "x"})
        send("login wrong pw", {"username": "admin", "password": "wrong-password"})
        send("login no user", {"username": "nobody1", "password": "wrong-password"})
        self.token = send("login", login).json()["token"]
        send("login form", login, kind="application/x-www-form-urlencoded")
        form = "username=admin&password=admin-password&expiration=4000"
        send("login form", form, kind="application/x-www-form-urlencoded")
        send("login v1 token", login)
        send("login expiration 10", {**login, "expiration": 10})
        send("list no auth")
        send("list bad token", auth="abc")
        send("get no auth")
        self.application = send("app token", {}, auth=self.token).json()["token"]
        self.ask("tokens list", "token check")
        send("app bearer list", auth=self.application)
        basic = base64.b64encode(f"admin:{self.application}".encode()).decode()
        send("app basic list", auth=f"Basic {basic}")
        send("app -> tokens (403)", auth=self.application)

    def submit(self, step, text, kind="text/yaml"):
        self.send(step, text, kind=kind, auth=self.token)

    def run_submissions(self):
        name, submit = self.name, self.submit
        self.send("submit no auth", job(name), kind="text/yaml")
        submit("submit", job(f"{name}a"))
        submit("submit text/plain", job(f"{name}b"), "text/plain")
        submit("submit dup", job(f"{name}a"))
        submit("submit json ctype", '{"protocolVersion": 2}', "application/json")
        submit("submit json of yaml", job(f"{name}c"), "application/json")
        submit("submit application/yaml", job(f"{name}d"), "application/x-yaml")
        submit("submit no ctype", job(f"{name}e"), "")
        submit("submit bad yaml", "a: [1, 2")
        submit("submit schema err", 'protocolVersion: 2\nname: "a b"\n')
        submit("submit bad vc", job(f"{name}f", cluster="nosuchvc"))
        submit("submit bad image", job(f"{name}g").replace("dockerImage: img", "dockerImage: nope"))
        submit("submit bad storage", job(f"{name}h", "extras: {storages: [{name: nope}]}\n"))
        submit("submit storage", job(f"{name}i", "extras: {storages: [{name: nfs1}]}\n"))
        submit("submit >100kB", job(f"{name}j", command="x" * 120000))
        submit("submit underscore role", job(f"{name}k", role="My_Role"))
        submit("submit alias yaml", job(f"{name}l"), "text/x-yaml; charset=utf-8")
        wait_until(lambda: self.state("a") == "RUNNING")

    def state(self, suffix):
        headers = {"Authorization": f"Bearer {self.token}"}
        path = f"{self.url}/api/v2/jobs/admin~{self.name}{suffix}"
        return requests.get(path, headers=headers, timeout=20).json()["jobStatus"]["state"]

    def run_readings(self):
        self.ask(
            "get", "get missing", "get no-tilde", "get underscore role", "config", "config missing", "ssh"
        )
        self.ask("attempt 0", "attempt 9", "task attempts", "logs")
        self.ask("job-attempts", "job-attempts healthz", "job-attempts/0", "events")
        for step in ("tag add", "tag add again"):
            self.send(step, {"value": "t1"}, auth=self.token)
        self.send("tag bad", {"v": "t1"}, auth=self.token)

    def run_lists(self):
        self.ask("list", "list paging", "list tag", "list not tag", "list user", "list state", "list vc")
        self.ask("list keyword", "list limit big", "list limit NaN", "list order bad", "list prio default")
        for step in ("tag del", "tag del missing"):
            self.send(step, {"value": "t1"}, auth=self.token)

    def run_stops(self):
        stop = {"value": "STOP"}
        self.send("stop bad value", {"value": "PAUSE"}, auth=self.token)
        self.send("stop lower", {"value": "stop"}, auth=self.token)
        self.send("stop no auth", stop)
        self.send("stop missing", stop, auth=self.token)
        self.send("stop", stop, auth=self.token)
        wait_until(lambda: self.state("a") == "STOPPED")
        self.ask("get stopped")
        self.send("stop again", stop, auth=self.token)
        self.send("start again", {"value": "START"}, auth=self.token)
        self.ask("delete job", "v1 get", "v2 user jobs")
        self.send("put job", {}, auth=self.token)
        self.send("v1 post", {"jobName": "x"}, auth=self.token)
        for suffix, command, step, state in (
            ("s", "true", "get succeeded", "SUCCEEDED"),
            ("x", "exit 1", "get failed", "FAILED"),
        ):
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "text/yaml"}
            text = job(self.name + suffix, command=command)
            requests.post(f"{self.url}/api/v2/jobs", data=text, headers=headers, timeout=20)
            wait_until(lambda suffix=suffix, state=state: self.state(suffix) == state)
            self.send(step, auth=self.token, path=f"/api/v2/jobs/admin~{self.name}{suffix}")

    def run_cluster(self):
        self.ask("vc list", "vc get", "vc missing", "storages", "storages default", "storage get")
        self.send("vc noauth")
        self.ask("storage missing", "users", "user get", "user v1", "user missing", "groups")
        self.ask("sku", "alerts", "nodes")

    def run_second_user(self):
        send, stop = self.send, {"value": "STOP"}
        bob = {"username": f"bob{self.name}", "password": "bobpassword"}
        send("create user", {**bob, "virtualCluster": ["default"]}, auth=self.token)
        self.bob = send("login bob", bob).json()["token"]
        send("bob stops admin job", stop, auth=self.bob)
        send("bob tags admin job", {"value": "z"}, auth=self.bob)
        send("bob gets admin job", auth=self.bob)
        send("bob creates user", {"username": "x", "password": "xxxxxx"}, auth=self.bob)
        send("bob nodes", auth=self.bob)
        send("bob submits", job(f"{self.name}bob"), kind="text/yaml", auth=self.bob)
        send("admin stops bob job", stop, auth=self.token)
        send("revoke app", auth=self.token, path=f"/api/v2/tokens/{quote(self.application)}")
        send("revoked app used", auth=self.application)
        self.ask("logout", "after logout")

    def check(self, step):
        """Compare an answer with the recorded one."""
        check_answer(self.answers[step], self.recorded[step], (self.recorded_name, self.name))
