"""The pages for people: what they show, that they show it safely, when they refresh."""

from __future__ import annotations

import functools
import re
from html.parser import HTMLParser

import pytest
import requests
from local_client import role, unique
from protocol_client import protocol, task_role
from waiting import wait_until

from luigi_pai.local import LocalPai
from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import COMPLETED

pytestmark = pytest.mark.slow

SCRIPT = {"src": "/assets/page.js", "defer": None}
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
        self.html = reply.text
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


def get(server, path="/", **query):
    return Page(requests.get(server.url + path, params=query, timeout=20))


def job_page(server, name, username="admin"):
    return get(server, "/job-detail.html", username=username, jobName=name)


@pytest.fixture
def page(local_pai_v1):
    """Gets a page of the 0.7.1."""
    return functools.partial(get, local_pai_v1)


def test_the_page_of_a_running_job_shows_its_tasks_and_refreshes(local_pai_v1, client, page):
    """State, ports, links to stdout and stderr; nothing is loaded from elsewhere or run in it.

    The page is of this user's job.
    """
    name = client.submit(role("echo hello; sleep 60", name="w", taskNumber=2))
    client.wait(name, "RUNNING")
    shown = page("/job-detail.html", username="admin", jobName=name)
    assert shown.status == 200
    assert shown.refreshes
    assert "RUNNING" in shown.text
    assert "w-0" in shown.text
    assert "w-1" in shown.text
    logs = [link for link in shown.links if link.endswith("/stdout/")]
    assert len(logs) == 2
    assert requests.get(local_pai_v1.url + logs[0], timeout=20).text in ("", "hello\n")
    policy = shown.headers["Content-Security-Policy"].split("; ")
    assert policy[:3] == ["default-src 'none'", "script-src 'self'", "style-src 'self'"]
    assert {"form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"} < set(policy)
    assert {tag for tag, _ in shown.tags}.isdisjoint({"style", "img", "iframe"})
    assert not [
        attrs for _, attrs in shown.tags if any(key.startswith("on") or key == "style" for key in attrs)
    ]
    loaded = [attrs.get("src") or attrs["href"] for tag, attrs in shown.tags if tag in ("script", "link")]
    assert loaded == ["data:,", "/assets/page.css", "/assets/page.js"]
    client.stop(name)
    assert page("/job-detail.html", username="zoe", jobName=name).status == 404
    assert page("/job-detail.html", jobName=name).status == 200


def test_the_page_of_a_failed_job_shows_the_reason_as_text(client, page):
    """Markup in a log is not markup on the page; an ended job's page stands still."""
    job = client.run(f"cat >&2 <<'X'\n{HOSTILE}\nX\nexit 3")
    shown = page("/job-detail.html", username="admin", jobName=job["name"])
    assert not shown.refreshes
    assert "FAILED" in shown.text
    assert HOSTILE in shown.text
    assert [attrs for tag, attrs in shown.tags if tag == "script"] == [SCRIPT]
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", shown.text)


def test_the_state_of_a_task_is_the_one_that_its_release_gives_its_exit_code(client, page):
    """On 0.x, 214 is a stop."""
    job = client.run("exit 214")
    assert job["jobStatus"]["state"] == "STOPPED"
    assert "FAILED" not in page("/job-detail.html", username="admin", jobName=job["name"]).text


def test_the_page_of_a_v2_job_shows_its_tasks_and_what_plugins_wrote(local_pai_v2, v2):
    """As that of a v1 job, with one log more."""
    name = v2.submit(protocol(roles={"w": task_role("echo hello; sleep 60", instances=2)})).split("~")[1]
    v2.wait(f"admin~{name}", "RUNNING")
    shown = job_page(local_pai_v2, name)
    assert shown.refreshes
    assert "RUNNING" in shown.text
    assert "w-1" in shown.text
    logs = [link for link in shown.links if "containerlogs" in link]
    assert [link.split("/")[-2] for link in logs[:3]] == ["stdout", "stderr", "runtime"]
    assert requests.get(local_pai_v2.url + logs[0], timeout=20).text in ("", "hello\n")
    assert requests.get(local_pai_v2.url + logs[2], timeout=20).status_code == 200
    v2.stop(f"admin~{name}")
    assert job_page(local_pai_v2, name, "zoe").status == 404


@pytest.mark.parametrize("query", [{"jobName": HOSTILE}, {"jobName": "", "username": HOSTILE}, {}])
def test_a_job_that_is_not_there_has_a_404_page(query, page):
    """Without repeating what was asked for."""
    shown = page("/job-detail.html", **query)
    assert shown.status == 404
    assert "alert" not in shown.text


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


def test_of_many_jobs_the_newest_hundred_are_shown(tmp_path):
    """The caption has their number."""
    role_spec = {"name": "m", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0}
    store = Store(tmp_path / "server.sqlite")
    with store.changing():
        for number in range(1200):
            job = store.add_job(f"many-{number}", "admin", "default", {}, {"taskRoles": [role_spec]})
            job.sub_state, job.exit_code, job.completed = COMPLETED, number % 3, job.created
            store.save_job(job)
    store.close()
    with LocalPai(tmp_path) as server:
        shown = Page(requests.get(server.url, timeout=100))
    names = [link for link in shown.links if "jobName" in link]
    assert "jobName=many-1199" in names[0]
    assert len(names) == 100
    assert "1,200 jobs, newest first; the newest 100" in shown.text


def form_of(server, name):
    """Return the fields of a job's stop form."""
    shown = job_page(server, name)
    return {
        attrs["name"]: attrs.get("value", "")
        for tag, attrs in shown.tags
        if tag == "input" and "name" in attrs
    }


def send(server, fields, **headers):
    return requests.post(
        f"{server.url}/stop-job", data=fields, headers=headers, timeout=20, allow_redirects=False
    )


def test_the_stop_button_stops_and_leads_back(local_pai_v1, client):
    """Without a password, for whoever runs the server."""
    name = client.submit(role("sleep 60"))
    client.wait(name, "RUNNING")
    fields = form_of(local_pai_v1, name)
    assert set(fields) == {"username", "jobName"}
    reply = send(local_pai_v1, fields, Origin=local_pai_v1.url)
    assert reply.status_code == 303
    assert reply.headers["Location"] == f"/job-detail.html?username=admin&jobName={name}"
    assert client.wait(name)["jobStatus"]["state"] == "STOPPED"
    assert form_of(local_pai_v1, name) == {}


def test_no_other_site_can_make_the_browser_stop_a_job(local_pai_v1, client):
    """No foreign Origin, no foreign Host (DNS rebinding), which gets advice on proxies."""
    name = client.submit(role("sleep 60"))
    fields = form_of(local_pai_v1, name)
    netloc = local_pai_v1.url.partition("//")[2]
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        reply = send(local_pai_v1, fields, **headers)
        assert reply.status_code == 403
        assert f'A proxy in front of it must send "Host: {netloc}"' in reply.json()["message"]
    assert send(local_pai_v1, {**fields, "jobName": "no-such"}).status_code == 404
    assert requests.get(f"{local_pai_v1.url}/stop-job", params=fields, timeout=20).status_code == 405
    assert client.status(name)["state"] in ("WAITING", "RUNNING")
    client.stop(name)


def test_a_job_that_is_being_stopped_has_no_stop_button(client, page, tmp_path):
    """It takes its time: a command may take no notice of SIGTERM for a while."""
    go = tmp_path / "go"
    trap = f"until [ -e {go} ]; do sleep 0.02; done"
    name = client.submit(role(f"trap '{trap}' TERM; echo ready; sleep 60 & wait; wait"))
    client.wait(name, "RUNNING")
    wait_until(lambda: client.log(client.job(name)) == "ready\n")
    client.stop(name)
    shown = page("/job-detail.html", username="admin", jobName=name)
    go.touch()
    assert "It is being stopped." in shown.text
    assert "button" not in [tag for tag, _ in shown.tags]
    assert client.wait(name)["jobStatus"]["state"] == "STOPPED"


def test_gpus_are_shown_as_numbers_not_as_a_count(local_pai_v1, client):
    name = client.run(role("true", gpuNumber=2))["name"]
    assert re.search(r'data-label="GPUs">no. \d, \d</td>', job_page(local_pai_v1, name).html)


def test_every_page_names_the_product(page):
    assert "<title>Jobs - luigi-pai local</title>" in page().html
    assert '<span class="product">luigi-pai local</span>' in page().html
