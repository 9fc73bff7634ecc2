"""Reports of containers, as Luigi's web page shows them."""

from __future__ import annotations

import json
from unittest.mock import Mock

import pytest
from clocks import MovableClock
from local_client import unique

from luigi_pai import PaiTask, TaskRole
from luigi_pai.files import HdfsError, WebHdfs
from luigi_pai.tasks import reports
from luigi_pai.tasks.reports import Reports, percentage_of, shown

REPORT = (
    'python -c \'import sys; sys.path.insert(0, "code"); import pai_runtime as pai; '
    "pai.report(step=30, steps=40, loss=0.25)'"
)


@pytest.fixture
def hdfs(cluster):
    assert cluster.webhdfs_url
    return WebHdfs.from_config()


def write(hdfs, folder, name, *values, end="\n"):
    """Write the file of reports of a container: dicts, or lines as they are."""
    text = "\n".join(json.dumps(each) if isinstance(each, dict) else each for each in values) + end
    with hdfs.open_writer(f"{folder}/_reports/{name}.jsonl") as file:
        file.write(text.encode())


def report(time, attempt=1, **values):
    return {"time": time, "attempt": attempt, **values}


@pytest.fixture
def folder():
    """An output folder that no other test has."""
    return f"/{unique()}"


def newest(hdfs, folder, job="train"):
    clock = MovableClock()
    found = Reports(hdfs, folder, clock, lambda *_: None)
    assert found.newest(job) is None
    clock.advance(reports.INTERVAL)
    return found.newest(job)


@pytest.mark.slow
@pytest.mark.parametrize("server", ["local_pai_v1", "storage_pai_v2"])
def test_luigis_page_shows_the_last_report_while_the_job_runs(
    request, settings, monkeypatch, tmp_path, server
):
    """Progress and values, sent by the container's own hdfs command, or written on the storage."""
    settings(**request.getfixturevalue(server).luigi_section, poll_min=0.05, poll_max=0.5)
    monkeypatch.setattr(reports, "INTERVAL", 0.1)
    seen, messages, percentages = tmp_path / "seen", [], []

    class Reporting(PaiTask):
        image = "python:3.6"
        runtime = True
        name = unique()
        code_dir = f"$PAI_DEFAULT_FS_URI/{name}/code"
        tasks = [TaskRole("main", f"{REPORT}; while [ ! -e {seen} ]; do sleep 0.1; done", memoryMB=100)]

    def message(text):
        messages.append(text)
        if "loss" in text:
            seen.touch()

    task = Reporting()
    task.set_status_message, task.set_progress_percentage = message, percentages.append
    task.run()
    assert f"{task.name}: RUNNING, 1 task; step=30 loss=0.25" in messages
    assert 75 in percentages


def test_the_newest_line_of_all_tasks_counts(hdfs, folder):
    write(hdfs, folder, "worker-0", *(report(number, step=number) for number in range(500)))
    write(hdfs, folder, "worker-1", report(700, step=7, steps=70, note="a"))
    found = newest(hdfs, folder)
    assert shown(found) == "step=7 note=a"
    assert percentage_of(found) == 10


def test_lines_of_other_submissions_and_broken_ones_do_not_count(hdfs, folder):
    """A line that is being written is read the next time."""
    write(hdfs, folder, "a-0", report(900, step=9))
    write(hdfs, folder, "a-1", "not json")
    write(hdfs, folder, "a-2", report(100, 2, step=1), '{"time": 1', end="")
    write(hdfs, folder, "a-3", "", end="")
    write(hdfs, folder, "a-4", report(950, "2", step=8))
    write(hdfs, folder, "a-5", "[" * 3000)
    assert shown(newest(hdfs, folder, "train__attempt2")) == "step=1"
    assert newest(hdfs, folder, "train__attempt3") is None


def test_a_folder_without_reports(hdfs, folder, caplog):
    """Most jobs report nothing, which is not logged every ten seconds; Luigi logs DEBUG by default."""
    caplog.set_level("DEBUG", "luigi-interface")
    assert newest(hdfs, folder) is None
    assert "reports" not in caplog.text


def test_reports_that_cannot_be_read_are_logged_once(hdfs, caplog, monkeypatch):
    """They are asked for once in ten seconds."""
    caplog.set_level("DEBUG", "luigi-interface")
    clock, listdir = MovableClock(), Mock(side_effect=HdfsError("HDFS is in safe mode"))
    monkeypatch.setattr(hdfs, "listdir", listdir)
    found = Reports(hdfs, "/a", clock, lambda *_: None)
    for _ in range(31):
        assert found.newest("train") is None
        clock.advance(1.0)
    assert listdir.call_count == 3
    assert caplog.text.count("Job train: its reports cannot be read: HDFS is in safe mode") == 1


@pytest.mark.slow
def test_a_job_of_many_tasks_costs_a_few_requests(hdfs, folder, monkeypatch):
    """Of the files that were changed last."""
    for number in range(20):
        write(hdfs, folder, f"a-{number}", report(number, step=number))
    opened, at = [], hdfs.at
    monkeypatch.setattr(hdfs, "at", lambda path: opened.append(path) or at(path))
    assert shown(newest(hdfs, folder)) == "step=19"
    assert len(opened) == 9  # with the listing


def test_progress_without_other_values(hdfs, folder):
    clock, calls = MovableClock(), []
    write(hdfs, folder, "a-0", report(1, progress=0.5))
    found = Reports(hdfs, folder, clock, lambda *call: calls.append(call))
    clock.advance(reports.INTERVAL)
    found.show("train", "train: RUNNING")
    assert calls == [("set_status_message", "train: RUNNING"), ("set_progress_percentage", 50)]


@pytest.mark.parametrize(
    ("values", "percentage"),
    [
        ({"progress": 0.5}, 50),
        ({"progress": 7}, 100),
        ({"step": 1, "steps": 0}, None),
        ({"step": 1}, None),
        ({"progress": "a"}, None),
        ({"progress": float("nan")}, None),
        ({"step": float("inf"), "steps": 10}, 100),
        ({"step": float("nan"), "steps": 10}, None),
        ({"step": 10**400, "steps": 3}, None),
    ],
)
def test_progress(values, percentage):
    assert percentage_of(values) == percentage
