"""jobStatusChangeNotification: events, and what a webhook is told."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from event_loop import in_a_loop, until
from protocol_client import ProtocolClient, protocol
from waiting import wait_until

from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai
from luigi_pai.local.config.settings import Address, Settings
from luigi_pai.local.releases.release import OPENPAI_1_8
from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import COMPLETED, Job, NewJob
from luigi_pai.local.views.job_events import JobEvents
from luigi_pai.local.views.notifications import Webhook

ALL = dict.fromkeys(("running", "succeeded", "stopped", "failed", "retried"), True)


class Receiver(ThreadingHTTPServer):
    """Takes calls; answers as it is told."""

    def __init__(self):
        self.calls = []
        self.answers = []
        super().__init__(("127.0.0.1", 0), _Call)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/hook?key=very-private"


class _Call(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.calls.append((self.path, self.headers["Content-Type"], body))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def receiver():
    server = Receiver()
    yield server
    server.shutdown()
    server.server_close()


def notified(v2, name):
    """Return what the events of a job tell of, the first one first."""
    events = v2.send("GET", f"/jobs/{name}/events").json()["data"]
    return [
        event["message"] for event in reversed(events) if event["reason"] == "JobStatusChangeNotification"
    ]


@pytest.mark.slow
def test_a_job_has_an_event_for_each_change_that_it_asks_for(v2):
    """And for no other; a job that does not ask has none."""
    name = v2.submit(protocol("true", extras={"jobStatusChangeNotification": ALL}))
    v2.wait(name)
    assert notified(v2, name) == [f"job {name} is running", f"job {name} has succeeded"]
    name = v2.submit(
        protocol("true", extras={"jobStatusChangeNotification": {"failed": True, "running": False}})
    )
    v2.wait(name)
    assert notified(v2, name) == []
    name = v2.submit(protocol("exit 1", extras={"jobStatusChangeNotification": {"failed": True}}))
    v2.wait(name)
    assert notified(v2, name) == [f"job {name} has failed"]
    name = v2.submit(protocol("exit 1"))
    v2.wait(name)
    assert notified(v2, name) == []


@pytest.mark.slow
def test_retries_and_stops_are_notified(v2, tmp_path):
    """Running once, however often it is tried again."""
    command = f"[ -e {tmp_path}/again ] && sleep 60; touch {tmp_path}/again; exit 1"
    name = v2.submit(protocol(command, jobRetryCount=1, extras={"jobStatusChangeNotification": ALL}))
    wait_until(lambda: len(notified(v2, name)) == 2)
    v2.stop(name)
    v2.wait(name)
    assert notified(v2, name) == [
        f"job {name} is running",
        f"job {name} is tried again",
        f"job {name} was stopped",
    ]


@pytest.mark.slow
def test_a_webhook_gets_what_a_person_wants_to_know_and_no_secret(receiver):
    """Once for each change, in JSON."""
    with LocalPai(webhook=receiver.url) as server:
        v2 = ProtocolClient(server)
        text = protocol(
            "echo '<% $secrets.pw %>' >&2; exit 3",
            secrets={"pw": "hunter2hunter2"},
            extras={"jobStatusChangeNotification": ALL},
        )
        name = v2.submit(text)
        job = v2.wait(name)
        wait_until(lambda: len(receiver.calls) == 2)
        log = (server.data / "server.log").read_text()
    assert {(path, kind) for path, kind, _ in receiver.calls} == {
        ("/hook?key=very-private", "application/json")
    }
    running, failed = sorted((body for _, _, body in receiver.calls), key=lambda body: body["time"])
    assert (running["change"], running["state"], running["exitCode"]) == ("running", "RUNNING", None)
    assert failed == {
        "event": "jobStatusChange",
        "change": "failed",
        "state": "FAILED",
        "jobName": job["name"],
        "username": "admin",
        "virtualCluster": "default",
        "retries": 0,
        "exitCode": 255,
        "submissionTime": job["jobStatus"]["createdTime"],
        "completedTime": job["jobStatus"]["completedTime"],
        "time": failed["time"],
        "url": f"{server.url}/job-detail.html?username=admin&jobName={job['name']}&api=v2",
    }
    assert "hunter2" not in json.dumps(receiver.calls)
    assert "very-private" not in log


@pytest.mark.slow
def test_a_call_that_fails_is_made_again_and_bothers_no_job(receiver):
    """Its job has ended meanwhile."""
    receiver.answers = [500]
    with LocalPai(webhook=receiver.url) as server:
        v2 = ProtocolClient(server)
        wanted = {"jobStatusChangeNotification": {"succeeded": True}}
        job = v2.wait(v2.submit(protocol("true", extras=wanted)))
        assert job["jobStatus"]["state"] == "SUCCEEDED"
        wait_until(lambda: len(receiver.calls) == 2)


@pytest.mark.slow
@pytest.mark.parametrize(("answers", "said"), [([500, 502, 503], ["status 503"]), ([500, 500, 200], [])])
def test_a_call_is_made_three_times_and_then_left(answers, said, receiver, caplog):
    """With a line in the log, without the address's key."""
    receiver.answers = list(answers)
    job = Job(
        1,
        "a",
        "anna",
        "default",
        "{}",
        "{}",
        COMPLETED,
        "START",
        0,
        0,
        1,
        2,
        0,
        "Succeeded",
        None,
        deleted=False,
        release=OPENPAI_1_8,
    )

    def reported():
        return [record.getMessage() for record in caplog.records if record.name == "tests.webhook"]

    async def call():
        log = logging.getLogger("tests.webhook")
        webhook = Webhook(receiver.url, Address("127.0.0.1", 1), log, pauses=(0.01, 0.01))
        webhook.prepare(job, "succeeded")()
        await until(lambda: (len(receiver.calls), len(reported())) == (3, len(said)))
        await webhook.close()

    in_a_loop(call())
    assert len(receiver.calls) == 3
    assert reported() == [
        f"webhook at 127.0.0.1: not notified that anna~a has succeeded: {problem}" for problem in said
    ]


def test_a_change_that_could_not_be_stored_is_not_notified(tmp_path):
    """The end of a job that is written again and again on a full disk is told of once: when it is written."""
    store = Store(tmp_path / "server.sqlite")
    called = []
    webhook = SimpleNamespace(prepare=lambda job, change: lambda: called.append((job.name, change)))
    events = JobEvents(store, webhook)
    role = {"name": "main", "taskNumber": 1, "gpuNumber": 0}
    config = {"extras": {"jobStatusChangeNotification": ALL}, "taskRoles": [role]}
    job = store.add_job(NewJob("a", "anna", "default", config, config, "v2"))

    def write(error):
        with store.changing():
            events.record(job, "AttemptBegan", "")
            assert called == []
            if error is not None:
                raise error

    for _ in range(3):
        with pytest.raises(sqlite3.OperationalError):
            write(sqlite3.OperationalError("database or disk is full"))
    write(None)
    assert called == [("a", "running")]
    assert len(events.of(job)) == 2
    store.close()


@pytest.mark.parametrize(
    "url", ["", "hook", "ftp://host/x", "http://", "http://a b/", "http://u:p@host/", "http://h:0/"]
)
def test_an_address_that_cannot_be_called_is_refused_without_showing_it(url, tmp_path):
    with pytest.raises(ConfigError, match=r"^--webhook is not of the form http://HOST/PATH$"):
        Settings(tmp_path, webhook=url).check()


@pytest.mark.parametrize("more", [{"webhook": "http://h/x"}, {"rate_limits": "default"}])
def test_what_only_the_v2_api_has_is_refused_without_it(more, tmp_path):
    with pytest.raises(
        ConfigError, match=r"^--webhook and --rate-limits are of the v2 API; leave out --api v1"
    ):
        Settings(tmp_path, api="v1", **more).check()
