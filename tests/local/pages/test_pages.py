"""The pages for people: what they show and where, that they show it safely, when they refresh."""

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
from luigi_pai.local.store.records import COMPLETED, Task

pytestmark = pytest.mark.slow

SCRIPT = {"src": "/assets/page.js", "defer": None}
HOSTILE = "<script>alert(1)</script>&\"'"


class Page(HTMLParser):
    """The tags, links and text of a page."""

    def __init__(self, reply):
        super().__init__()
        self.status, self.headers, self.html = reply.status_code, reply.headers, reply.text
        self.tags = []
        self.text = ""
        self.feed(reply.text)
        self.links = [attrs["href"] for tag, attrs in self.tags if tag == "a"]
        self.refreshes = any(attrs.get("http-equiv") == "refresh" for _, attrs in self.tags)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def get(server, path="/", **query):
    return Page(requests.get(server.url + path, params=query, timeout=20))


def job_page(server, name, username="admin"):
    return get(server, "/job-detail.html", username=username, jobName=name)


@pytest.fixture
def page(local_pai_v1):
    """Gets a page of the 0.7.1."""
    return functools.partial(get, local_pai_v1)


def shows_only_its_own(page):
    """Assert that nothing is loaded from elsewhere or run in a page."""
    policy = page.headers["Content-Security-Policy"].split("; ")
    assert policy[:3] == ["default-src 'none'", "script-src 'self'", "style-src 'self'"]
    assert {"form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"} < set(policy)
    assert {tag for tag, _ in page.tags}.isdisjoint({"style", "img", "iframe"})
    keys = [key for _, attrs in page.tags for key in attrs]
    assert [key for key in keys if key.startswith("on") or key == "style"] == []
    loaded = [attrs.get("src") or attrs["href"] for tag, attrs in page.tags if tag in ("script", "link")]
    assert loaded == ["data:,", "/assets/page.css", "/assets/page.js"]


@pytest.mark.parametrize(
    ("user", "logs"), [("client", ["stdout", "stderr"]), ("v2", ["stdout", "stderr", "runtime"])]
)
def test_the_page_of_a_running_job_shows_its_tasks_and_refreshes(user, logs, request):
    """State, ports, links to the logs of its release; the page is of this user's job."""
    user = request.getfixturevalue(user)
    job = task_role("echo hello; sleep 60", instances=2)
    is_v1 = len(logs) == 2
    name = user.submit(
        role("echo hello; sleep 60", name="w", taskNumber=2) if is_v1 else protocol(roles={"w": job})
    )
    user.wait(name, "RUNNING")
    own, server = name.rpartition("~")[2], user.server
    shown = job_page(server, own)
    assert (shown.status, shown.refreshes) == (200, True)
    assert [word for word in ("RUNNING", "w-0", "w-1") if word not in shown.text] == []
    links = [link for link in shown.links if "containerlogs" in link]
    assert [link.split("/")[-2] for link in links] == logs * 2
    assert requests.get(server.url + links[0], timeout=20).text in ("", "hello\n")
    assert requests.get(server.url + links[-1], timeout=20).status_code == 200
    shows_only_its_own(shown)
    user.stop(name)
    assert job_page(server, own, "zoe").status == 404
    assert get(server, "/job-detail.html", jobName=own).status == 200


@pytest.mark.parametrize(
    ("job", "found", "absent"),
    [
        (role("true", gpuNumber=2), r'data-label="GPUs">no. \d, \d</td>', "FAILED"),  # numbers, not a count
        (role("exit 214"), "STOPPED", "FAILED"),  # a stop on 0.x
    ],
)
def test_a_task_is_shown_as_its_release_has_it(job, found, absent, local_pai_v1, client):
    html = job_page(local_pai_v1, client.run(job)["name"]).html
    assert re.search(found, html)
    assert absent not in html


def test_the_page_of_a_failed_job_shows_the_reason_as_text(client, page):
    """Markup in a log is not markup on the page; an ended job's page stands still."""
    job = client.run(f"cat >&2 <<'X'\n{HOSTILE}\nX\nexit 3")
    shown = page("/job-detail.html", username="admin", jobName=job["name"])
    assert not shown.refreshes
    assert "FAILED" in shown.text
    assert HOSTILE in shown.text
    assert [attrs for tag, attrs in shown.tags if tag == "script"] == [SCRIPT]
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", shown.text)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/job-detail.html", {"jobName": HOSTILE}),
        ("/job-detail.html", {"jobName": "", "username": HOSTILE}),
        ("/job-detail.html", {}),
        ("/nothing", {}),
        ("/node/containerlogs/container_1_2_3_4/admin/", {}),
        ("/node/containerlogs/..%2f..%2fserver.log/admin/", {}),
    ],
)
def test_an_address_that_is_not_there_is_a_404(path, query, page):
    """Without repeating what was asked for."""
    shown = page(path, **query)
    assert shown.status == 404
    assert "alert" not in shown.text


def test_the_list_links_to_every_job(client, page):
    """Newest first; the links lead to the pages."""
    first, second = client.submit("true", name=unique("a~b")), client.submit("true")
    client.wait(first)
    client.wait(second)
    shown = page("/")
    assert "<title>Jobs - luigi-pai local</title>" in shown.html
    assert '<span class="product">luigi-pai local</span>' in shown.html
    links = [link for link in shown.links if first in link or second in link]
    assert len(links) == 2
    assert second in links[0]
    assert page(links[1]).status == 200


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


MANY = 200
FAILED, SUCCEEDED = 137, range(60)


def add_many(store, name="many"):
    """Write a job of many tasks that has failed; one task failed, some succeeded, the others were stopped."""
    main = {"name": "w", "taskNumber": MANY, "cpuNumber": 1, "memoryMB": 9, "shmMB": 9, "gpuNumber": 0}
    spec = {"taskRoles": [main], "retryCount": 0}
    job = store.add_job(name, "admin", "default", {}, spec)
    attempt = store.add_attempt(job)
    for index in range(MANY):
        task = Task(f"{job.id:08x}-0000-0000-0000-{index:012d}", attempt.id, "w", index, f"{name}/{index}")
        store.add_task(task)
        task.exit_code = 3 if index == FAILED else 0 if index in SUCCEEDED else -220
        task.launched, task.completed = job.created, job.created + 2500
        store.save_task(task)
    attempt.exit_code, attempt.trigger_role, attempt.trigger_index = 3, "w", FAILED
    store.end_attempt(attempt)
    job.sub_state, job.exit_code, job.completed = COMPLETED, 3, job.created
    job.exit_type, job.diagnostics = "FAILED", "task w-137 ended with exit code 3"
    store.save_job(job)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """The address of the page of a job of 200 tasks."""
    folder = tmp_path_factory.mktemp("many") / "data"
    folder.mkdir()
    store = Store(folder / "server.sqlite")
    with store.changing():
        add_many(store)
    store.close()
    with LocalPai(folder) as server:
        yield f"{server.url}/job-detail.html?username=admin&jobName=many"


def rows(text, caption):
    """Return the cells of the table of this caption, as text."""
    body = re.search(rf"<caption>{re.escape(caption)}</caption>.*?<tbody>(.*?)</tbody>", text, re.DOTALL)[1]
    return [
        [re.sub("<.*?>", "", cell) for cell in re.findall(r"<t[hd]\b.*?</t[hd]>", row)]
        for row in re.findall("<tr>.*?</tr>", body, re.DOTALL)
    ]


def test_of_many_tasks_what_failed_comes_first(many):
    """A hundred at once; the log comes before them."""
    text = requests.get(many, timeout=20).text
    shown = rows(text, "Tasks of attempt 1: 100 of 200")
    assert len(shown) == 100
    assert [row[:2] for row in shown[:2]] == [["w-137", "FAILED"], ["w-60", "STOPPED"]]
    assert text.index('id="output"') < text.index('id="tasks"')


def test_a_job_that_has_begun_nothing_says_so(local_pai_v1, client):
    """In place of an empty log; a job that never began does, too."""
    name = client.submit(role("true", cpuNumber=5000))
    assert '<p id="no-output" data-part>Nothing runs yet.</p>' in job_page(local_pai_v1, name).html
    client.stop(name)
    assert "No task has run." in job_page(local_pai_v1, name).html


def test_between_two_attempts_the_last_one_is_shown(local_pai_v1, client):
    """What it wrote is what somebody wants to see then."""
    name = client.submit(role("echo here; exit 3"), retryCount=50)

    def waits_for_long():
        status = client.status(name)
        return status["retries"] >= 5 and status["state"] == "WAITING"

    wait_until(waits_for_long)
    text = job_page(local_pai_v1, name).html
    assert "WAITING" in text
    caption = re.search(r"Tasks of attempt \d+", text)[0]
    assert rows(text, caption)[0][1] == "FAILED"
    client.stop(name)


@pytest.fixture
def browser(chromium):
    """The browser, left without a page that would go on asking."""
    yield chromium
    chromium.open("about:blank")
    chromium.complaints.clear()


@pytest.mark.parametrize("width", [380, 1280])
def test_a_log_among_two_hundred_is_a_few_presses_away(many, browser, width):
    """And on the first screens of the page."""
    browser.screen(width)
    browser.open(many)
    for _ in range(8):
        if browser.run("document.activeElement.id") != "which-log":
            browser.press("Tab")
    assert browser.run("document.activeElement.id") == "which-log"
    assert browser.run("document.getElementById('log').getBoundingClientRect().top + scrollY") < 1400
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.complaints == []


def test_the_log_appears_with_the_first_task(local_pai_v1, client, browser):
    """Until then there is neither a choice of logs nor a box for one."""
    roles = (role(f"echo {word}; sleep 60", gpuNumber=8) for word in ("one", "two"))
    first, name = (client.submit(one, virtualCluster="vc1") for one in roles)
    browser.open(f"{local_pai_v1.url}/job-detail.html?username=admin&jobName={name}")
    shown = "['log', 'which-log'].map((id) => document.getElementById(id).checkVisibility()).join()"
    said = "document.getElementById('no-output')"
    browser.wait(f"document.getElementById('output').checkVisibility() && {shown} === 'false,false'")
    assert browser.run(f"{said}.innerText") == "Nothing runs yet."
    client.stop(first)
    browser.wait(f"{shown} === 'true,true' && !{said}.checkVisibility()")
    browser.wait("document.getElementById('log').textContent === 'two\\n'")
    assert browser.complaints == []
    client.stop(name)
