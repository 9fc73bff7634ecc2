"""luigi-pai on servers of other releases than the local ones, and on servers in trouble."""

from __future__ import annotations

import base64
import math
from pathlib import Path

import pytest
import requests
import yaml
from faulty_pai import PASSWORD, RELEASES, USER, FaultyPai


@pytest.fixture
def server(settings):
    """A server whose release the test says; luigi.cfg names it."""
    server = FaultyPai()
    settings(pai_url=server.url, username=USER, password=PASSWORD, poll_min=0.01, poll_max=0.02)
    yield server
    server.close()


@pytest.fixture
def add(server, protocol_file):
    """Let the server be of a release and have a job."""

    def add(release, name="train", *, config=None, **about):
        server.release = release
        document = yaml.safe_load(Path(protocol_file(name, instances=2)).read_text("utf-8"))
        server.add(name, task_codes={}, **about).config = {**document, **(config or {})}

    return add


@pytest.mark.parametrize(("release", "told"), [("0.15.0", False), ("1.0.1", False), ("1.8.0", True)])
def test_logs_are_recommended_where_they_can_be_read(add, pai_command, protocol_file, release, told):
    """By status, of a running and of a failed job, and by submit: before 1.4 servers give none out."""
    add(release, runs_for=1000.0)
    assert ("luigi-pai logs -f train" in pai_command("status", "train").stdout) == told
    add(release, "broken", ends_as="FAILED", exit_code=1)
    assert ("luigi-pai logs broken" in pai_command("status", "broken").stdout) == told
    submitted = pai_command("submit", protocol_file("new")).stderr
    assert "page: " in submitted
    assert ("luigi-pai logs -f new" in submitted) == told


def test_a_server_that_gives_no_logs_out_says_it_once(add, server, pai_command):
    """Not for each task, and with the page where a person finds them."""
    add("1.0.1")
    page = f"{server.url}/job-detail.html?username={USER}&jobName=train"
    expected = f"luigi-pai logs: OpenPAI before 1.4 serves no logs; see {page}\n"
    assert pai_command("logs", "train", expect=1).stderr == expected


def test_a_job_with_secrets_is_not_to_be_submitted_like(add, pai_command):
    """Servers do not give secrets out."""
    add("1.8.0", ends_as="FAILED", exit_code=1, config={"secrets": "******"})
    text = pai_command("status", "train").stdout
    assert "--like" not in text
    assert "again: run its Luigi task again, or submit its file" in text


def test_a_job_with_a_number_out_of_range_is_not_submitted_again(add, pai_command, monkeypatch):
    add("1.8.0", ends_as="FAILED", exit_code=1)
    monkeypatch.setattr("luigi_pai.api.cluster.Cluster.config", lambda *_: {"jobName": math.inf})
    text = pai_command("submit", "--like", "train", expect=1).stderr
    assert text.startswith("luigi-pai submit: the server's copy of job train is not a valid job: ")


@pytest.mark.parametrize("release", RELEASES)
def test_ssh_without_such_a_job_is_a_sentence(server, pai_command, release):
    server.release = release
    text = pai_command("ssh", "nosuch", expect=1).stderr
    assert text.startswith("luigi-pai ssh: admin has no job 'nosuch' on ")
    assert "GET " not in text


@pytest.mark.parametrize(
    "words", [("status", "train"), ("list",), ("stop", "train", "--yes"), ("logs", "train")]
)
def test_a_database_that_is_down_is_exit_code_3(add, server, pai_command, words):
    """As a server that is not there: nothing is wrong with the job."""
    add("1.8.0", runs_for=1000.0)
    body = {"message": "There is a problem with your database connection."}
    server.fail("GET", "/jobs", 500, times=float("inf"), body=body)
    pai_command(*words, expect=3)


def test_an_address_that_nobody_has_set_is_a_wrong_configuration(settings, pai_command):
    """Without pai_url it is tried where the documents' example is."""
    settings(username=USER, password=PASSWORD)
    result = pai_command("list", expect=2)
    assert "pai_url is not set" in result.stderr


def test_doctor_names_the_password_that_is_wrong(server, settings, pai_command):
    """Nothing is said of pai_url, which is right, on releases whose reads need a login."""
    server.release = "1.8.0"
    settings(password="another-password")
    text = pai_command("doctor", expect=1).stdout
    assert "fail  login: login of user 'admin'" in text
    assert "is pai_url the rest-server" not in text


@pytest.mark.parametrize(("server", "exit_code"), [("local_pai_v1", 0), ("local_pai_v2", 1)])
def test_doctor_asks_whether_a_token_is_taken(server, exit_code, request, as_settings, settings, pai_command):
    """One that has not expired may have been revoked; 0.x does not say it before a job is submitted."""
    as_settings(request.getfixturevalue(server))
    settings(token=f"e30.{base64.urlsafe_b64encode(b'{}').decode().rstrip('=')}.sig")
    text = pai_command("doctor", expect=exit_code).stdout
    login = next(line for line in text.splitlines() if " login: " in line)
    told = "ok    login: the server has not said whether it accepts the token"
    assert login.startswith("fail" if exit_code else told)


@pytest.mark.slow
def test_doctor_tells_ltp_from_openpai(local_pai_ltp, local_pai_v2, as_settings, settings, pai_command):
    """Both say version 1.8; a password of LTP may be refused once somebody has looked at the user's page."""
    as_settings(local_pai_v2)
    assert "server: OpenPAI 1.8" in pai_command("doctor").stdout
    as_settings(local_pai_ltp)
    text = pai_command("doctor").stdout
    assert "server: LTP, based on OpenPAI 1.8" in text
    assert "make an application token" in text
    login = {"username": local_pai_ltp.username, "password": local_pai_ltp.password}
    token = requests.post(f"{local_pai_ltp.url}/api/v1/token", json=login, timeout=20).json()["token"]
    settings(token=token)
    assert "make an application token" not in pai_command("doctor").stdout


def test_doctor_names_the_limit_of_submissions(server, pai_command):
    """A server speaks of it only when a job is submitted."""
    server.release = "1.8.0"
    server.limits = {"call": 600}
    assert "limits: submit: 60 an hour by default" in pai_command("doctor", expect=1).stdout
