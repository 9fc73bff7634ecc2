"""PaiEvent: handlers of what becomes of a task's job, and messages of the scheduler to a running one."""

from __future__ import annotations

import logging
import queue
import signal
import subprocess
import threading

import luigi
import pytest
from lives import Life, lives
from local_client import unique
from luigi_process import start_worker
from train_task import Train

from luigi_pai import JobStatus, PaiEvent, PaiJobFailed, PaiProtocolTask, PaiTask, TaskRole

EVENTS = [name for name in vars(PaiEvent) if name.isupper()]


@pytest.fixture
def events(monkeypatch):
    """What the handlers of all events were called with."""
    monkeypatch.setattr(luigi.Task, "_event_callbacks", {})
    seen = []
    for event in EVENTS:

        def handle(task, status, *rest, event=event):
            assert isinstance(status, JobStatus)
            seen.append((event, task.name, status.name, *rest))

        PaiTask.event_handler(getattr(PaiEvent, event))(handle)
    return seen


class WithEvents(Life):
    """Lives with handlers of all events."""

    def __init__(self, seen, *given):
        super().__init__(*given)
        self._seen = seen

    def events(self, expected):
        numbers = {"train": 1, "train__attempt2": 2}
        assert [f"{event} {numbers[job]}" for event, _task, job, *_ in self._seen] == expected
        errors = [rest[0] for event, _task, _job, *rest in self._seen if event == "FAILED"]
        assert errors[-1:] == ([self.error] if self.error else [])


@lives("events")
def test_a_life(pai, events, settings, caplog, steps):
    WithEvents(events, pai, settings, caplog).play(steps)


@pytest.mark.slow
def test_a_job_that_waits_says_why_and_when_that_changes(local_pai_v1, as_settings, events, monkeypatch):
    """The reason is asked for after a second in the queue."""
    as_settings(local_pai_v1)
    monkeypatch.setattr("luigi_pai.api.waiting._FIRST_AFTER", 0.0)
    monkeypatch.setattr("luigi_pai.api.waiting._AGAIN_AFTER", 0.2)

    class Waits(Train):
        tasks = [TaskRole("main", "true", gpuNumber=24, memoryMB=100)]
        queue_timeout = 1.5
        virtual_cluster = "vc1"

    with pytest.raises(PaiJobFailed):
        Waits(name=unique()).run()
    assert [event[0] for event in events] == ["SUBMITTED", "WAITING", "FAILED"]
    assert "virtual cluster vc1 has" in events[1][3]


@pytest.mark.usefixtures("pai")
def test_handlers_belong_to_a_class(events):
    """As those of Luigi's events do: here to protocol tasks only."""
    seen = []
    PaiProtocolTask.event_handler(PaiEvent.SUBMITTED)(lambda *args: seen.append(args))
    Train().run()
    assert events
    assert seen == []


def test_a_handler_that_raises_is_logged_and_hurts_nothing(pai, events, caplog):
    @PaiTask.event_handler(PaiEvent.SUBMITTED)
    def broken(_task, _status):
        raise OSError("no mail today")

    task = Train()
    with caplog.at_level(logging.ERROR, "luigi-interface"):
        task.run()
    assert task.complete()
    assert "no mail today" in caplog.text
    assert [event[0] for event in events] == ["SUBMITTED", "SUCCEEDED"]
    assert pai.posts() == ["train"]


_PIPELINE = """
from luigi_pai import PaiEvent, PaiTask
from train_task import Train, build

Train.on_kill = "stop"

@PaiTask.event_handler(PaiEvent.EVENT)
def slow(task, status):
    print("handling", flush=True)
    time.sleep(60)

build(Train())
"""


@pytest.mark.slow
@pytest.mark.parametrize("event", ["SUBMITTED", "RUNNING"])
def test_a_signal_during_a_handler_takes_its_course(pai, tmp_path, event):
    """Luigi catches whatever a handler raises; the job is stopped all the same."""
    pai.plan = {"runs_for": 600}
    source = _PIPELINE.replace("EVENT", event)
    worker = start_worker(tmp_path, source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert worker.stdout.readline() == "handling\n"
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=30)
    assert worker.returncode == -signal.SIGTERM
    assert pai.jobs["train"].state == "STOPPED"


# ---------------------------------------------------------------- messages


class Message(str):
    """A message as Luigi's scheduler hands it over."""

    __slots__ = ("answers",)

    def respond(self, text):
        self.answers.put(text)


@pytest.fixture
def send(monkeypatch):
    """Put a message for a task that runs, and return the queue of its responses."""
    inbox = queue.Queue()
    monkeypatch.setattr(Train, "scheduler_messages", inbox, raising=False)
    luigi.Task.clear_instance_cache()  # an instance that a worker has run keeps an attribute of its own

    def send(word):
        message = Message(word)
        message.answers = queue.Queue()
        inbox.put(message)
        return message.answers

    return send


@pytest.mark.parametrize(("status", "times"), [(503, 0), (503, 2), (403, 1)])
def test_a_stop_message_stops_the_job(pai, send, status, times):
    """The message "stop" of Luigi's page stops the job; others are answered with what there is."""
    pai.plan = {"runs_for": 60}
    pai.fail("PUT", "/executionType", status, times=times, body='{"code": "Forbidden", "message": "no"}')
    answers = [send(word) for word in ("dance", "stop", *["stop"] * (status == 403))]
    with pytest.raises(PaiJobFailed, match="ended as STOPPED"):
        Train().run()
    refused = ["train could not be stopped: "] * (status == 403)
    starts = ["'dance' is not a valid message; send: stop", *refused, "train is being stopped"]
    assert [answer.get()[: len(start)] for answer, start in zip(answers, starts, strict=True)] == starts


@pytest.mark.usefixtures("real_time")
def test_messages_are_answered_while_the_job_is_submitted(pai, send):
    """The page inserts responses as HTML."""
    pai.plan = {"runs_for": 600}

    def run():
        with pytest.raises(PaiJobFailed):
            Train().run()

    running = threading.Thread(target=run, daemon=True)
    running.start()
    assert send("<b>").get(timeout=120) == "'&lt;b&gt;' is not a valid message; send: stop"
    while "not submitted yet" in (answer := send(" Stop ").get(timeout=120)):
        pass
    assert answer == "train is being stopped"
    running.join(120)
    assert not running.is_alive()
