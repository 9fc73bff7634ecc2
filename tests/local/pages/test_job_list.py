"""The list of jobs: what it shows while there are none, its order, links between submissions."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from local_client import LocalClient, unique
from protocol_client import protocol

from luigi_pai.local import LocalPai


def get(server, path="/", **query):
    return requests.get(server.url + path, params=query, timeout=20).text


def names(text):
    return re.findall(r'id="job-\d+">(.*?)</a>', text)


@pytest.mark.slow
def test_an_empty_list_shows_how_to_run_the_first_job(tmp_path):
    """Its lines and its command work as they stand; the list and a search come with the first job."""
    with LocalPai() as server:
        text = get(server)
        assert "No job yet." in text
        assert 'role="search"' not in text
        lines, command = (
            html.unescape(found) for found in re.findall(r"<pre.*?>(.*?)</pre>", text, re.DOTALL)
        )
        assert lines.splitlines()[:4] == [
            "[OpenPai]",
            f"pai_url = {server.url}",
            "username = admin",
            "password = admin-password",
        ]
        (tmp_path / "luigi.cfg").write_text(lines + "\n")
        root = Path(__file__).resolve().parents[3]
        env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        run = command.replace("PYTHONPATH=.", f"PYTHONPATH=.:{root}")
        done = subprocess.run(
            ["bash", "-c", run],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        text = get(server)
        assert names(text) == ["hello"]
        assert 'role="search"' in text


@pytest.mark.slow
def test_a_search_without_a_result_is_not_an_empty_list(local_pai, client):
    client.run("true")
    assert "No job." in get(local_pai, q="no-such-job-anywhere")


@pytest.mark.slow
def test_a_password_of_ones_own_is_not_on_the_page():
    with LocalPai(password="own-secret-7") as server:
        text = get(server)
    assert "password = (the one in LUIGI_PAI_LOCAL_PASSWORD)" in text
    assert "own-secret-7" not in text


@pytest.fixture(scope="module")
def sorted_jobs():
    """A server with three jobs, and their names in the order they were submitted."""
    with LocalPai() as server:
        client = LocalClient(server)
        for name, command in (("b", "exit 4"), ("c", "true"), ("a", "exit 2")):
            client.run(command, name=name)
        yield server


@pytest.mark.parametrize(
    ("sort", "expected", "caption"),
    [
        (None, ["a", "c", "b"], "Jobs, newest first"),
        ("submitted", ["b", "c", "a"], "Jobs, oldest first"),
        ("job", ["a", "b", "c"], "Jobs, by job"),
        ("-job", ["c", "b", "a"], "Jobs, by job, descending"),
        ("exit code", ["c", "a", "b"], "Jobs, by exit code"),
        ("state", ["a", "b", "c"], "Jobs, by state"),
        ("; DROP TABLE jobs", ["a", "c", "b"], "Jobs, newest first"),
    ],
)
def test_a_column_sorts_the_list(sorted_jobs, sort, expected, caption):
    """Jobs of which a column says the same stay newest first."""
    text = get(sorted_jobs, **({} if sort is None else {"sort": sort}))
    assert names(text) == expected
    assert f"<caption>{caption}</caption>" in text


def test_a_heading_turns_the_order_round_and_keeps_the_search(sorted_jobs):
    """For readers of screens it says what the order is."""
    text = get(sorted_jobs, q="a", sort="job")
    assert '<a href="/?q=a&amp;sort=-job">Job</a>' in text
    assert re.search(r'aria-sort="ascending"><a [^>]*>Job</a>', text)
    assert text.count("aria-sort") == 1
    assert '<a href="/?q=a&amp;sort=-submitted">Submitted</a>' in text
    assert '<input type="hidden" name="sort" value="job">' in text


def test_the_portals_address_of_the_list_leads_to_it(local_pai):
    reply = requests.get(f"{local_pai.url}/job-list.html?vcName=default", timeout=20, allow_redirects=False)
    assert (reply.status_code, reply.headers["Location"]) == (302, "/")


@pytest.mark.slow
def test_the_submissions_of_a_task_are_linked(local_pai, client, v2):
    """From each to all others of its user and API; a job that was submitted once has no such line."""
    name = unique("again")
    client.run("exit 1", name=name)
    client.run("true", name=f"{name}__attempt2")
    client.run("true", name=f"{name}-other")
    v2.wait(v2.submit(protocol("true", name=f"{name}__attempt3")))

    def linked(job):
        text = get(local_pai, "/job-detail.html", username="admin", jobName=job)
        found = re.search(r"<dt>Submissions</dt><dd>(.*?)</dd>", text)
        return found and re.sub("<.*?>", "", found[1])

    both = f"{name} FAILED{name}__attempt2 SUCCEEDED"
    assert linked(name) == linked(f"{name}__attempt2") == both
    assert linked(f"{name}-other") is None
    text = get(local_pai, "/job-detail.html", username="admin", jobName=f"{name}__attempt2")
    assert f'<a href="/job-detail.html?username=admin&amp;jobName={name}">{name}</a>' in text


@pytest.mark.slow
def test_gpus_are_shown_as_numbers_not_as_a_count(local_pai, client):
    name = client.run({"name": "m", "command": "true", "cpuNumber": 1, "memoryMB": 1, "gpuNumber": 2})["name"]
    text = get(local_pai, "/job-detail.html", username="admin", jobName=name)
    assert re.search(r'data-label="GPUs">no. \d, \d</td>', text)


def test_every_page_names_the_product(local_pai):
    text = get(local_pai)
    assert "<title>Jobs - luigi-pai local</title>" in text
    assert '<span class="product">luigi-pai local</span>' in text


def test_a_foreign_host_gets_advice_on_proxies(local_pai):
    """Which passes on another name than this server's."""
    reply = requests.get(local_pai.url, headers={"Host": "pai.example"}, timeout=20)
    assert reply.status_code == 403
    netloc = local_pai.url.partition("//")[2]
    assert f'A proxy in front of it has to send "Host: {netloc}"' in reply.json()["message"]
