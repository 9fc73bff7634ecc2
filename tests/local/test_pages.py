"""The pages for people: what they show, that they show it safely, when they refresh."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
import requests
from local_client import role, unique
from protocol_client import protocol, task_role

HOSTILE = "<script>alert(1)</script>&\"'"


class Page(HTMLParser):
    """The tags, links and text of a page."""

    def __init__(self, reply):
        super().__init__()
        self.status = reply.status_code
        self.headers = reply.headers
        self.tags = []
        self.links = []
        self.text = ""
        self.feed(reply.text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "a":
            self.links.append(dict(attrs)["href"])

    def handle_data(self, data):
        self.text += data

    @property
    def refreshes(self):
        return any(tag == "meta" and attrs.get("http-equiv") == "refresh" for tag, attrs in self.tags)


@pytest.fixture
def page(local_pai):
    def get(path, **query):
        return Page(requests.get(local_pai.url + path, params=query, timeout=20))

    return get


def test_the_page_of_a_running_job_shows_its_tasks_and_refreshes(client, page):
    """State, ports, links to stdout and stderr; nothing is loaded or run."""
    name = client.submit(role("echo hello; sleep 60", name="w", taskNumber=2))
    client.wait(name, "RUNNING")
    shown = page("/job-detail.html", username="admin", jobName=name)
    assert shown.status == 200
    assert shown.refreshes
    assert "RUNNING (APPLICATION_RUNNING)" in shown.text
    assert "w-0" in shown.text
    assert "w-1" in shown.text
    logs = [link for link in shown.links if link.endswith("/stdout/")]
    assert len(logs) == 2
    assert requests.get(logs[0], timeout=20).text in ("", "hello\n")
    assert shown.headers["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert {tag for tag, _ in shown.tags}.isdisjoint({"script", "img", "link", "iframe"})
    client.stop(name)


def test_the_page_of_a_failed_job_shows_the_reason_as_text(client, page):
    """Markup in a log is not markup on the page; an ended job's page stands still."""
    job = client.run(f"cat >&2 <<'X'\n{HOSTILE}\nX\nexit 3")
    shown = page("/job-detail.html", username="admin", jobName=job["name"])
    assert not shown.refreshes
    assert "FAILED" in shown.text
    assert "3 (UNKNOWN)" in shown.text
    assert HOSTILE in shown.text
    assert "script" not in [tag for tag, _ in shown.tags]
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", shown.text)


def test_the_tracking_url_of_a_job_is_its_page(client):
    """What Luigi's page will link to."""
    status = client.run("true")["jobStatus"]
    reply = requests.get(status["appTrackingUrl"], timeout=20)
    assert reply.status_code == 200
    assert status["name"] in reply.text


def test_the_page_of_a_v2_job_shows_its_tasks_and_what_plugins_wrote(v2, page):
    """As that of a v1 job, with one log more."""
    name = v2.submit(protocol(roles={"w": task_role("echo hello; sleep 60", instances=2)})).split("~")[1]
    v2.wait(f"admin~{name}", "RUNNING")
    shown = page("/job-detail.html", username="admin", jobName=name)
    assert shown.refreshes
    assert "RUNNING (AttemptRunning)" in shown.text  # each launcher's own word
    assert "w-1" in shown.text
    logs = [link for link in shown.links if "containerlogs" in link]
    assert [link.rpartition("/")[0].rpartition("/")[2] for link in logs[:3]] == [
        "stdout",
        "stderr",
        "runtime",
    ]
    assert requests.get(logs[0], timeout=20).text in ("", "hello\n")
    assert requests.get(logs[2], timeout=20).status_code == 200
    v2.stop(f"admin~{name}")
    assert page("/job-detail.html", username="zoe", jobName=name).status == 404
    assert page("/job-detail.html", username="admin", jobName=name, api="v1").status == 404


def test_the_page_of_a_failed_v2_job_shows_the_reason_as_text(v2, page):
    """What the command wrote is not markup; the exit code has its name."""
    job = v2.run(f"cat >&2 <<'X'\n{HOSTILE}\nX\nexit 3")
    shown = page("/job-detail.html", username="admin", jobName=job["name"])
    assert not shown.refreshes
    assert "255 (PAIRuntimeUnknownFailed)" in shown.text
    assert HOSTILE in shown.text
    assert "script" not in [tag for tag, _ in shown.tags]


@pytest.mark.parametrize("query", [{"jobName": HOSTILE}, {"jobName": "", "username": HOSTILE}, {}])
def test_a_job_that_is_not_there_has_a_404_page(query, page):
    """Without repeating what was asked for."""
    shown = page("/job-detail.html", **query)
    assert shown.status == 404
    assert "alert" not in shown.text


def test_a_job_of_another_user_is_not_shown_under_this_one(client, page):
    """The page is of USER's job."""
    name = client.submit("true")
    assert page("/job-detail.html", username="zoe", jobName=name).status == 404
    assert page("/job-detail.html", jobName=name).status == 200


def test_the_list_links_to_every_job(client, page):
    """Newest first; the links lead to the pages."""
    first, second = client.submit("true", name=unique("a~b")), client.submit("true")
    client.wait(first)
    client.wait(second)
    shown = page("/")
    links = [link for link in shown.links if first in link or second in link]
    assert len(links) == 2
    assert second in links[0]
    assert page(links[1]).status == 200


def test_an_address_that_is_not_there_is_a_404(page):
    """As any unknown route."""
    assert page("/nothing").status == 404
    assert page("/node/containerlogs/container_1_2_3_4/admin/").status == 404
    assert page("/node/containerlogs/..%2f..%2fserver.log/admin/").status == 404
