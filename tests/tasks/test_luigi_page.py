"""What Luigi's scheduler, and so its page, knows of a task while its job runs."""

from __future__ import annotations

import os
import queue
from concurrent.futures import ThreadPoolExecutor

import luigi
import luigi.configuration
import luigi.scheduler
import luigi.worker
from luigi.cmdline_parser import CmdlineParser
from train_task import Train

from luigi_pai import OpenPai
from luigi_pai.tasks.luigi_page import may_send_messages


class PageTrain(Train):
    """Its family is not that of tasks of other tests."""


def test_a_running_task_keeps_its_stop_button(pai):
    """Luigi's own callback for the link announces the task as one that takes no messages."""
    pai.plan = {"runs_for": 1e6}
    scheduler = luigi.scheduler.Scheduler(send_messages=True)
    task = Train()
    with ThreadPoolExecutor(1) as pool, luigi.worker.Worker(scheduler, worker_id="w") as worker:
        worker.add(task)
        running = pool.submit(worker.run)
        while not (shown := scheduler.task_list("RUNNING", "").get(task.task_id, {})).get("tracking_url"):
            assert not running.done()
        assert shown["accepts_messages"] is True
        assert shown["tracking_url"].endswith("/view.html?jobName=train")
        pai.jobs["train"].runs_for = 0.0
        assert running.result(20)


def test_without_a_page_no_queue_is_opened_for_each_task():
    """A queue is two open files for each job in flight, and with the local scheduler nobody could use it."""
    assert Train().accepts_messages
    config = luigi.configuration.get_config()
    config.set("core", "local_scheduler", "true")
    try:
        assert not Train().accepts_messages
    finally:
        config.remove_section("core")
    for words in ([], ["--local-scheduler"]):
        with CmdlineParser.global_instance(["PageTrain", *words]):
            assert PageTrain().accepts_messages is not bool(words)


def test_the_settings_are_read_once_for_many_tasks(pai, monkeypatch):
    """They are read anew when the configuration has changed, and only then."""
    luigi.task_register.Register.clear_instance_cache()  # which may have read these settings before
    made = []
    original = OpenPai.get_param_values.__func__
    monkeypatch.setattr(
        OpenPai, "get_param_values", classmethod(lambda cls, *args: made.append(1) or original(cls, *args))
    )
    for number in range(20):
        pai.add(f"t{number}")
        assert Train(name=f"t{number}").complete()
        if number == 0:
            reads = len(made)
    assert len(made) == reads
    luigi.configuration.get_config().set("OpenPai", "portal_url", "http://portal.example")
    assert OpenPai.current().portal_url == "http://portal.example"
    assert len(made) == 2 * reads


def test_a_password_of_the_environment_is_read_anew(settings, monkeypatch):
    """A variable that a value names is a part of the configuration."""
    settings(password="${PAI_PASSWORD}")
    monkeypatch.setitem(os.environ, "PAI_PASSWORD", "first")
    assert OpenPai.current().password == "first"
    monkeypatch.setitem(os.environ, "PAI_PASSWORD", "second")
    assert OpenPai.current().password == "second"


def test_messages_need_a_queue_and_a_central_scheduler(monkeypatch):
    task = PageTrain()
    assert not may_send_messages(task)
    monkeypatch.setattr(task, "scheduler_messages", queue.Queue(), raising=False)
    assert may_send_messages(task)
    reporter = luigi.worker.TaskStatusReporter(luigi.scheduler.Scheduler(), task.task_id, "w", None)
    monkeypatch.setattr(task, "set_status_message", reporter.update_status_message, raising=False)
    assert not may_send_messages(task)
