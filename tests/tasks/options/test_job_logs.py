"""What Luigi's log shows of the containers' output while a job runs."""

from __future__ import annotations

import logging
import re
import threading
import time

import luigi
import pytest
import requests
import responses
from clocks import MovableClock
from local_client import unique
from mocked_job import QUICK, mocked_job
from ports import refused_port
from process_state import install_clock
from protocols import protocol
from train_task import Command

from luigi_pai import OpenPai, PaiProtocolTask
from luigi_pai.errors import PaiJobFailed

SECRET = "abra<kadabra>"


class Train(Command):
    logs = luigi.OptionalParameter(default="stream", significant=False)
    role = "worker"


@pytest.fixture(autouse=True)
def _level(caplog):
    caplog.set_level(logging.INFO, "luigi-interface")


@pytest.fixture
def moving_clock(monkeypatch):
    """A clock on which every wait is over at once."""
    clock = MovableClock()
    install_clock(clock, monkeypatch)
    return clock


class Protocol(PaiProtocolTask):
    name = luigi.Parameter()
    logs = "stream"
    secrets = {"key": SECRET}
    protocol = protocol("echo 'the key is <% $secrets.key %>'", secrets={"key": "none"})


def shown(caplog):
    """Return the lines that are none of luigi_pai's own."""
    own = re.compile(r"Job |Submitted|http|Logged in|.* speaks API")
    return [record.getMessage() for record in caplog.records if not own.match(record.getMessage())]


def held(go):
    """Return a command that waits for a file."""
    return f"while [ ! -e {go} ]; do sleep 0.1; done"


def run_held(go, caplog, command):
    """Run a task whose job prints ``first`` and waits for a file, which is made once the line is shown."""
    running = threading.Thread(target=Train(name=unique(), command=command).run)
    running.start()
    while "first" not in shown(caplog):
        assert running.is_alive()
        time.sleep(0.02)
    go.touch()
    running.join(60)


@pytest.mark.slow
@pytest.mark.usefixtures("either_cluster", "quick_logs")
def test_every_line_is_shown_once(caplog):
    """From the first to the last, which has no line end; without what a terminal would obey."""
    command = r"seq 300; printf '\033[31mred\033[0m\n10%%\r90%%\n'; sleep 1.2; printf end"
    Train(name=unique(), command=command).run()
    assert shown(caplog) == [*map(str, range(1, 301)), "red", "90%", "end"]


@pytest.mark.slow
@pytest.mark.usefixtures("either_cluster", "quick_logs")
def test_lines_are_shown_while_the_job_runs(tmp_path, caplog):
    """The job waits for what its first line leads to."""
    run_held(tmp_path / "go", caplog, f"echo first; {held(tmp_path / 'go')}; echo last")
    assert shown(caplog) == ["first", "last"]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_logs")
@pytest.mark.usefixtures("v2_cluster")
def test_a_portal_that_is_not_there_is_warned_of_once(settings, caplog):
    """While the job runs, with the setting to correct."""
    settings(portal_url=f"http://127.0.0.1:{refused_port()}")
    Train(name=unique(), command="sleep 2").run()
    said = [
        text for text in shown(caplog) if text.startswith("Logs cannot be read now, and are tried again: ")
    ]
    assert [text.partition("set ")[2] for text in said] == ["portal_url in [OpenPai] of luigi.cfg to its URL"]


@pytest.mark.slow
@pytest.mark.usefixtures("either_cluster", "quick_logs")
def test_of_several_tasks_each_line_says_whose_it_is(caplog):
    variable = "$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"
    Train(name=unique(), command=f"echo I am {variable}", number=2).run()
    assert sorted(shown(caplog)) == ["worker/0 | I am 0", "worker/1 | I am 1"]


@pytest.mark.slow
@pytest.mark.usefixtures("either_cluster", "quick_logs")
def test_the_log_of_a_task_that_is_started_again_is_shown(tmp_path, caplog, monkeypatch):
    """By OpenPAI, under the same name: it has another log."""
    monkeypatch.setattr(Train, "retry_count", 1)
    flag, go = tmp_path / "flag", tmp_path / "go"
    command = f"if [ -e {flag} ]; then echo second; else touch {flag}; echo first; {held(go)}; exit 1; fi"
    run_held(go, caplog, command)
    assert [line for line in shown(caplog) if "started again" not in line] == ["first", "second"]


@pytest.mark.usefixtures("either_cluster", "quick_logs")
def test_a_job_that_fails_shows_its_lines_before_its_error(caplog):
    with pytest.raises(PaiJobFailed):
        Train(name=unique(), command="echo why >&2; exit 3").run()
    assert shown(caplog) == ["why"]


@pytest.mark.usefixtures("quick_logs")
def test_secrets_are_masked(v2_cluster, caplog):
    Protocol(name=unique()).run()
    Train(name=unique(), command=f"echo the password is {v2_cluster.password}").run()
    assert "the key is ******" in shown(caplog)
    assert "the password is ******" in shown(caplog)
    assert SECRET not in caplog.text


@pytest.mark.slow
@responses.activate
def test_a_node_out_of_reach_is_said_once_and_not_asked_again(settings, caplog):
    """Nodes of 0.x are often reached from the cluster only; the job does not depend on it."""
    page = "http://node:8042/node/containerlogs/c1/admin/"
    mocked_job(settings, "far", page, count=3, **QUICK)
    Train(name="far").run()
    assert len([call for call in responses.calls if "node:8042" in call.request.url]) == 1
    told = [message for message in caplog.messages if "could not be read" in message]
    assert len(told) == 3
    assert told[2].startswith(f"Job far: a log could not be read: main/2: GET {page.removesuffix('admin/')}")
    assert told[2].endswith(f"; its page: {page}")


@pytest.mark.slow
@responses.activate
def test_two_requests_a_second_are_made_at_most(settings, moving_clock):
    """However many tasks there are and however much they write."""
    mocked_job(settings, "wide", "http://node/c{}/", count=5, states=[*["RUNNING"] * 24, "SUCCEEDED"])
    asked = []

    def log(_request):
        asked.append(moving_clock.monotonic())
        return 200, {"Content-Type": "text/plain"}, "line\n" if len(asked) % 2 else ""

    responses.add_callback(responses.GET, re.compile("http://node/.*"), log)
    Train(name="wide").run()
    assert len(asked) > 15
    assert all(later - first >= 0.99 for first, later in zip(asked, asked[2:], strict=False))


@pytest.mark.slow
def test_by_default_no_log_is_read(either_cluster, caplog):
    assert either_cluster.url
    assert OpenPai().logs == "none"
    with caplog.at_level(logging.DEBUG, "luigi-interface"):
        Train(name=unique(), logs=None, command="echo unseen; sleep 1").run()
    assert "unseen" not in caplog.messages
    assert "/logs" not in caplog.text


@responses.activate
def test_a_server_that_gives_no_logs_out_is_asked_once(settings, caplog):
    """OpenPAI 0.15 to 1.3."""
    path = mocked_job(settings, "old", "http://node/c{}/", count=2, version="v2", **QUICK)
    missing = {"code": "NoApiError", "message": "API is not found."}
    responses.get(re.compile(f"{path}/attempts/.*"), status=404, json=missing)
    Train(name="old").run()
    assert len([call for call in responses.calls if "/attempts/" in call.request.url]) == 1
    told = [message for message in caplog.messages if "could not be read" in message]
    page = "http://pai/job-detail.html?username=admin&jobName=old"
    assert told == [f"Job old: a log could not be read: OpenPAI before 1.4 serves no logs; see {page}"]


@pytest.mark.slow
@responses.activate
@pytest.mark.parametrize("name", ["addresses", "logs"])
def test_logs_that_never_answer_do_not_hold_an_ended_job(settings, moving_clock, caplog, name):
    """Neither their addresses nor they themselves, however long read_timeout is."""
    attempts = f"{mocked_job(settings, name, count=20, version='v2', read_timeout=300)}/attempts/.*"
    silent, waited = re.compile(attempts), []
    if name == "logs":
        silent = "http://node/log"
        places = [{"name": stream, "uri": silent} for stream in ("stdout", "stderr")]
        responses.get(re.compile(attempts), json={"locations": places})

    def never(request):
        waited.append(request.req_kwargs["timeout"][1])
        moving_clock.advance(waited[-1])
        raise requests.ReadTimeout("no answer")

    responses.add_callback(responses.GET, silent, never)
    Train(name=name).run()
    assert sum(waited) <= 20, "5 s while the job runs, 15 s at its end"
    assert moving_clock.elapsed < 30, "no wait for the logs after the one that was given up"
    assert "could not be read" in caplog.text
