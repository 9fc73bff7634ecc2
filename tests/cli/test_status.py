"""luigi-pai list, status and stop."""

from __future__ import annotations

import json
import re

import pytest

from luigi_pai.cli.tables import fields, table
from luigi_pai.durations import duration

both = pytest.mark.parametrize("dialect", ["v1", "v2"], indirect=True)
on_v2 = pytest.mark.parametrize("dialect", ["v2"], indirect=True)


@pytest.mark.slow
@both
def test_list_shows_my_jobs(pai_command, job_file, name):
    pai_command("submit", job_file(name), "--wait")
    pai_command("submit", job_file(f"{name}-b", "exit 1"), "--wait", expect=1)
    lines = pai_command("list", f"{name}*").stdout.splitlines()
    assert lines[0].split()[:2] == ["NAME", "STATE"]
    assert [line.split()[:2] for line in lines[1:]] == [[f"{name}-b", "FAILED"], [name, "SUCCEEDED"]]
    assert pai_command("list", "-q", "-s", "failed", f"{name}*").stdout == f"{name}-b\n"
    rows = json.loads(pai_command("list", "--json", f"{name}*").stdout)
    assert [(row["name"], row["state"], row["exit_code"] == 0) for row in rows] == [
        (f"{name}-b", "FAILED", False),
        (name, "SUCCEEDED", True),
    ]
    assert pai_command("list", "no-such-job*").stderr == "no job of that kind\n"


@both
def test_status_says_why_a_job_failed(pai_command, job_file, name, here, dialect):
    pai_command("submit", job_file(name, "echo no such thing >&2; exit 127"), "--wait", expect=1)
    text = pai_command("status", name).stdout
    headline = text.splitlines()[0]
    assert headline.startswith(f"{name}  FAILED")
    assert (" after " in headline) == (dialect == "v2")  # 0.x do not say when a job began to run
    assert re.search("exit code +(255, its command with )?127", text)
    assert "usual cause      the command was not found: is it in the image, and on PATH?" in text
    assert f"page             {here.page(name)}" in text
    assert f"logs: luigi-pai logs {name}" in text


@pytest.mark.slow
@both
def test_status_of_a_task_shows_its_latest_submission_and_those_before(pai_command, job_file, name):
    pai_command("submit", job_file(name, "exit 4"), "--wait", expect=1)
    pai_command("submit", job_file(name), "--name", f"{name}__attempt2", "--wait")
    text = pai_command("status", name).stdout
    assert text.startswith(f"{name}__attempt2  SUCCEEDED")
    assert re.search(f"before +{name}  FAILED, exit code (4|255)", text)


@pytest.mark.slow
@both
def test_a_task_whose_name_is_another_on_v2_is_its_latest_submission(pai_command, job_file, name, here):
    """v2 servers allow no dot: NAME__attempt2 is made of the name that the job has there."""
    task, there = f"{name}.b", here.book.api.job_name(f"{name}.b")
    pai_command("submit", job_file(there, "exit 4"), "--wait", expect=1)
    assert pai_command("status", task, "--json").stdout == pai_command("status", there, "--json").stdout
    pai_command("submit", job_file(f"{there}__attempt2", "sleep 60"))
    for text in (task, f"{task}__attempt2"):
        assert json.loads(pai_command("status", text, "--json").stdout)[0]["name"] == f"{there}__attempt2"
    assert pai_command("stop", task).stdout == f"{there}__attempt2: STOPPED\n"
    assert f"{name}.c" in pai_command("status", f"{name}.c", expect=1).stderr


@pytest.mark.slow
@on_v2
def test_status_of_the_latest_and_of_several(pai_command, job_file, name):
    pai_command("submit", job_file(name), "--wait")
    pai_command("submit", job_file(f"{name}-b"), "--wait")
    assert pai_command("status", "@latest").stdout.startswith(f"{name}-b  SUCCEEDED")
    rows = json.loads(pai_command("status", name, f"{name}-b", "--json").stdout)
    assert [row["name"] for row in rows] == [name, f"{name}-b"]
    result = pai_command("status", "no-such-job", name, expect=1)
    assert "no-such-job" in result.stderr
    assert result.stdout.startswith(name)


@pytest.mark.slow
@both
def test_status_says_why_a_job_waits(pai_command, job_file, name):
    """The session's virtual cluster has 24 GPUs."""
    pai_command("submit", job_file(name, "sleep 30", gpu=22))
    pai_command("submit", job_file(f"{name}-b", gpu=4))
    text = pai_command("status", f"{name}-b").stdout
    assert pai_command("stop", f"{name}*", "--yes").stdout
    assert re.match(rf"{name}-b  WAITING for \d+ s\n", text)
    assert "waits            virtual cluster default has 2 of 24 GPUs free, the job wants 4" in text


@pytest.mark.slow
@both
def test_stop_waits_until_jobs_have_ended(pai_command, job_file, name):
    pai_command("submit", job_file(name, "sleep 60"))
    assert pai_command("stop", name).stdout == f"{name}: STOPPED\n"
    assert pai_command("stop", name).stdout == f"{name}: has already ended (STOPPED)\n"
    assert "no-such-job" in pai_command("stop", "no-such-job", expect=1).stderr


def test_many_jobs_take_one_list(pai, pai_command):
    """A cluster takes 60 lists a minute: `luigi-pai status $(luigi-pai list -q)` may have more jobs."""
    pai.release = "1.8.0"
    pai.limits = {"call": 600, "list": 5, "submit": 60}
    names = [f"job{number}" for number in range(20)]
    for name in names:
        pai.add(name)
    shown = pai_command("status", "--json", *names).stdout
    assert [job["name"] for job in json.loads(shown)] == names


def test_status_marks_the_task_that_ended_the_job(pai, pai_command):
    """Of many, it is the first; of one, there is nothing to mark."""
    pai.release = "1.8.0"
    for name, count, codes in (("train", 19, {3: 137, 12: 4, 14: 137}), ("one", 1, {0: 4})):
        job = pai.add(name, ends_as="FAILED", exit_code=4, task_codes=codes)
        job.config = {"taskRoles": {"main": {"instances": count}}}
    shown = pai_command("status", "train", "one").stdout
    assert re.search(r"\n *tasks +main/12  FAILED  exit code 4  \(it ended the job\)\n", shown)
    assert shown.count("(it ended the job)") == 1


@pytest.mark.slow
def test_stop_goes_on_after_an_error_of_the_server(pai, pai_command, settings):
    """Each job that was asked to stop has its line, whatever one lookup says."""
    settings(api_version="v1")
    for name in ("one", "two"):
        pai.add(name, runs_for=60)
        pai.fail("GET", f"/jobs/{name}$", 200, body={"jobStatus": {"state": "RUNNING", "username": "admin"}})
    pai.fail("GET", "/jobs/one$", 500, times=2, body={"code": "UnknownError", "message": "boom"})
    pai.fail("GET", "/jobs/two$", 403, body={"code": "ForbiddenUserError", "message": "no"})
    result = pai_command("stop", "one", "two", expect=1)
    assert result.stdout == "one: STOPPED\n"
    assert "two was asked to stop; whether it has ended is unknown: " in result.stderr


@pytest.mark.parametrize("release", ["0.7.1", "1.8.0"])
def test_a_list_that_fails_is_the_error_of_a_job_that_is_not_there(pai, pai_command, release):
    """A later submission of the job may be in the list."""
    pai.release = release
    pai.fail("GET", "/jobs(?!/)", 403, body={"code": "ForbiddenUserError", "message": "no lists"})
    assert "no lists" in pai_command("status", "nosuch", expect=1).stderr


@pytest.mark.slow
@on_v2
def test_a_pattern_is_never_stopped_unasked(pai_command, job_file, name, here):
    """Without a terminal it takes --yes. It may begin like an address."""
    name = f"http-{name}"
    for number in range(2):
        pai_command("submit", job_file(f"{name}-{number}", "sleep 60"))
    refused = pai_command("stop", f"{name}-*", expect=2)
    assert "2 jobs match; use --yes to stop them" in refused.stderr
    assert not here.job(f"{name}-0").status().finished
    done = pai_command("stop", f"{name}-*", "--yes")
    assert sorted(done.stdout.splitlines()) == [f"{name}-0: STOPPED", f"{name}-1: STOPPED"]
    assert "none of these jobs is waiting or running" in pai_command("stop", f"{name}-*", "--yes").stderr


@pytest.mark.usefixtures("dialect")
@on_v2
def test_what_can_be_no_name_is_one_error(pai_command):
    for text in ("", ".", "a b", "../x", "ü", "a\udcff", "http://[::1"):
        line = pai_command("status", text, expect=2 if text in ("a\udcff", "http://[::1") else 1).stderr
        assert line.startswith("luigi-pai status: ")
        assert line.count("\n") == 1


@pytest.mark.usefixtures("cluster")
def test_the_address_of_a_page_stands_for_its_job(pai_command, settings):
    settings(api_version="v2")
    other = "http://portal/job-detail.html?username=berta&jobName=x"
    assert "is a job of berta" in pai_command("status", other, expect=2).stderr
    assert "is not a job's page" in pai_command("status", "http://portal/list.html", expect=2).stderr


def test_an_address_without_a_server_is_exit_code_3(pai_command, settings):
    settings(pai_url="http://127.0.0.1:9", username="u", password="p", api_version="v2")
    for words in (["list"], ["status", "x"], ["stop", "x"], ["logs", "x"]):
        result = pai_command(*words, expect=3)
        assert "127.0.0.1:9" in result.stderr


def test_a_wrong_setting_is_exit_code_2(pai_command, settings):
    settings(pai_url="nonsense", username="u", password="p")
    assert "pai_url" in pai_command("list", expect=2).stderr


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.4, "0 s"), (59, "59 s"), (60, "1 min"), (3600, "1 h 0 min")),
        *((12_345, "3 h 25 min"), (200_000, "2 d 7 h")),
    ],
)
def test_durations_are_short(seconds, text):
    assert duration(seconds) == text


def test_a_table_fits_a_terminal(monkeypatch):
    """The widest columns are cut there; elsewhere nothing is."""
    rows = [["a" * 100, "RUNNING", "b" * 30]]
    assert max(map(len, table(["NAME", "STATE", "CLUSTER"], rows))) == 100 + 2 + 7 + 2 + 30
    monkeypatch.setattr("luigi_pai.cli.tables.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    lines = list(table(["NAME", "STATE", "CLUSTER"], rows, states=1))
    assert max(map(len, lines)) == 80
    assert lines[1].startswith("aaaa")
    assert "…" in lines[1]
    monkeypatch.setenv("COLUMNS", "5")
    assert len(list(table(["NAME", "STATE", "CLUSTER"], rows))[1]) == 8 + 2 + 7 + 2 + 8, "not less than 8"
    assert list(fields([("why", "a\nb"), ("none", "")])) == ["  why  a", "       b"]
