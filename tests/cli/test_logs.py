"""luigi-pai logs, and the LogReader behind it."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import responses

from luigi_pai import Cluster
from luigi_pai.api.logs.reader import LogReader
from luigi_pai.console import Console

both = pytest.mark.parametrize("dialect", ["v1", "v2"], indirect=True)
on_v2 = pytest.mark.parametrize("dialect", ["v2"], indirect=True)


@both
def test_both_streams_of_one_task(pai_command, job_file, name):
    pai_command("submit", job_file(name, "echo out; echo err >&2"), "--wait")
    assert pai_command("logs", name).stdout == "out\nerr\n"
    assert pai_command("logs", name, "--stdout").stdout == "out\n"
    assert pai_command("logs", name, "worker/0", "--stderr").stdout == "err\n"


@pytest.mark.slow
@on_v2
def test_characters_that_a_terminal_s_encoding_lacks(pai_command, job_file, name, with_luigi_cfg):
    """A terminal in ISO 8859 gets escapes, as on standard error; a job file is in UTF-8 everywhere."""
    file = job_file(name, "echo grüße └; printf '\\377\\n'")
    pai_command("submit", file, "--wait")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}

    def shown(*words: str) -> bytes:
        command = [sys.executable, "-m", "luigi_pai", *words]
        return subprocess.run(command, cwd=with_luigi_cfg, env=environment, stdout=-1, check=True).stdout

    assert shown("logs", name) == "grüße \\u2514\n\\ufffd\n".encode("latin-1")
    Path(file).write_text(Path(file).read_text("utf-8") + "description: grüße └\n", "utf-8")
    assert "grüße └" in shown("render", file).decode("utf-8")
    log = io.TextIOWrapper(io.BytesIO(), "ascii")
    Console(log).emit(logging.LogRecord("job", logging.INFO, "", 1, "grüße", (), None))
    assert log.buffer.getvalue().endswith(b"  gr\\xfc\\xdfe\n")


@on_v2
def test_lines_of_several_tasks_say_whose_they_are(pai_command, job_file, name):
    variable = "$PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"
    pai_command("submit", job_file(name, f"echo I am {variable}", instances=3), "--wait")
    lines = pai_command("logs", name).stdout.splitlines()
    assert lines == [f"worker/{index} | I am {index}" for index in range(3)]
    assert pai_command("logs", name, "worker/2").stdout == "I am 2\n"


@pytest.mark.slow
@both
def test_the_last_lines(pai_command, job_file, name):
    """Also of a log that is longer than what is looked through first."""
    pai_command("submit", job_file(name, "seq 100000; printf 'no end'"), "--wait")
    assert pai_command("logs", name, "-n", "3").stdout == "99999\n100000\nno end\n"
    assert pai_command("logs", name, "-n", "0").stdout == ""
    whole = pai_command("logs", name).stdout.splitlines()
    assert whole == [*map(str, range(1, 100_001)), "no end"]


@pytest.mark.slow
@both
def test_following_ends_with_the_job(pai_command, job_file, name):
    pai_command("submit", job_file(name, "for i in 1 2 3; do echo $i; sleep 0.5; done; exit 7"))
    result = pai_command("logs", "-f", name, expect=1)
    assert result.stdout == "1\n2\n3\n"
    assert result.stderr == f"{name}: FAILED\n"


@on_v2
def test_control_characters_do_not_reach_a_terminal(pai_command, job_file, name):
    pai_command(
        "submit",
        job_file(name, r"printf '\033[31mred\033[0m \033]0;title\007x\b\n10%%\r90%%\r100%%\n'"),
        "--wait",
    )
    assert pai_command("logs", name).stdout == "red x\n100%\n"


@on_v2
def test_a_task_that_is_not_there(pai_command, job_file, name):
    pai_command("submit", job_file(name), "--wait")
    for task, message in (
        ("x", f"job {name} has no task role 'x'; it has worker"),
        ("worker/5", f"job {name} has no worker/5; INDEX of worker is 0"),
        ("x/y", "x/y is not a task"),
    ):
        assert message in pai_command("logs", name, task, expect=2).stderr
    assert "nope" in pai_command("logs", "nope", expect=1).stderr


@pytest.fixture
def on_node(settings):
    """Mock a 0.x with an ended job whose log is a page of a node."""
    settings(pai_url="http://pai", username="admin", password="secret", api_version="v1")

    def mock(page):
        tasks = {"main": {"taskStatuses": [{"taskIndex": 0, "containerLog": page}]}}
        job = {"name": "train", "username": "admin", "createdTime": 1, "state": "SUCCEEDED"}
        reply = {"name": "train", "jobStatus": job, "taskRoles": tasks}
        responses.get("http://pai/api/v1/jobs/train", json=reply)
        responses.get("http://pai/api/v1/jobs?username=admin", json=[job])

    return mock


@responses.activate
def test_a_node_out_of_reach_names_the_page(pai_command, on_node):
    """Nodes of 0.x are often reached from the cluster only."""
    page = "http://node:8042/node/containerlogs/c1/admin/"
    on_node(page)
    result = pai_command("logs", "train", expect=1)
    assert result.stdout == ""
    assert "luigi-pai logs: main/0: GET http://node:8042/" in result.stderr
    assert f"; its page: {page}" in result.stderr


@responses.activate
def test_a_page_of_a_yarn_node_is_read(pai_command, on_node):
    """It is HTML, with the log in its last <pre>, and shows parts by byte numbers."""
    on_node("http://node/logs/c1/admin/")
    for stream, log in (("stdout", "a &lt;b&gt;\nc\n"), ("stderr", "")):
        page = f"<html><pre>menu</pre><td class='content'><pre>{log}</pre></td></html>"
        responses.get(f"http://node/logs/c1/admin/{stream}", body=page, content_type="text/html")
    assert pai_command("logs", "train").stdout == "a <b>\nc\n"


@both
def test_secrets_that_are_known_are_masked(pai_command, job_file, name, cluster, here, dialect):
    """Your password in every log that is shown; the secrets of a job where its file is at hand."""
    shows = f"echo {cluster.password}; echo 'http://store/x?sig=hush&y=1' >&2"
    file = Path(job_file(name, f"{shows}; echo KEY; exit 3"))
    if dialect == "v2":
        text = file.read_text("utf-8").replace("KEY", "<% $secrets.key %>") + "secrets: {key: a-hushed-key}\n"
        file.write_text(text, "utf-8")
    last = "******" if dialect == "v2" else "KEY"
    followed = pai_command("submit", str(file), "--follow", expect=1)
    assert sorted(followed.stdout.splitlines()) == sorted(["******", last, "http://store/x?sig=******&y=1"])
    assert "last lines of worker" in followed.stderr
    assert cluster.password not in followed.stderr
    assert "a-hushed-key" not in followed.stderr
    unknown = "a-hushed-key" if dialect == "v2" else "KEY"
    assert pai_command("logs", name, "--stdout").stdout == f"******\n{unknown}\n"
    log = here.job(name).logs("worker")
    assert cluster.password not in "".join(log.values())


def answer_with_task(name, states, tasks):
    """Mock a v1 or v2 server with one state, and one status of the job's task, after the other."""
    version = "v1" if name == "old" else "v2"
    full = name if version == "v1" else f"admin~{name}"
    for state, task in zip(states, tasks, strict=True):
        job = {"jobStatus": {"name": name, "username": "admin", "createdTime": 1, "state": state}}
        job["taskRoles"] = {"main": {"taskStatuses": [{"taskIndex": 0, **task}]}}
        responses.get(f"http://pai/api/{version}/jobs/{full}", json=job)
    return LogReader(Cluster("http://pai", "admin", token="t", api_version=version).book, name)


@responses.activate
def test_following_goes_over_to_the_log_of_a_restarted_task():
    """0.7 to 0.14 do not number the attempts: the new log has another URL. The old log is read to its end."""
    first, second = ({"containerLog": f"http://node/c{number}/"} for number in (1, 2))
    reader = answer_with_task("old", ["RUNNING", "RUNNING", "SUCCEEDED"], [first, second, second])
    logs = {"c1/stdout": ["a\n", "b"], "c1/stderr": ["", ""], "c2/stdout": ["c\n", "", ""]}
    for log, parts in (logs | {"c2/stderr": ["", "", ""]}).items():
        for part in parts:
            responses.get(f"http://node/{log}", body=part, content_type="text/plain")
    waits = []
    assert [line.text for line in reader.follow(waits.append)] == ["a", "b", "c"]
    assert min(waits) > 0, "each wait is handed to the caller's sleep"
    assert reader.unreadable == []


@responses.activate
@pytest.mark.parametrize(("statuses", "lines"), [([403, 206], ["a"]), ([403, 403], [])])
def test_an_expired_url_of_a_log_is_requested_again_once(statuses, lines):
    """1.4 and later send URLs with a signature that expires."""
    reader = answer_with_task("new", ["SUCCEEDED"], [{"attemptId": 0}])
    log = {"locations": [{"name": "stdout", "uri": "http://pai/log?sig=1"}]}
    responses.get(
        "http://pai/api/v2/jobs/admin~new/attempts/0/taskRoles/main/taskIndex/0/attempts/0/logs", json=log
    )
    for status in statuses:
        responses.get("http://pai/log", status=status, body="a\n")
    assert [line.text for line in reader.read()] == lines
    gone = [] if lines else ["main/0: no log at http://pai/log: 403 Forbidden"]
    assert [str(log) for log in reader.unreadable] == gone
