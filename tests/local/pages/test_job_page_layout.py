"""What is where on a job's page: the output first, of many tasks those that matter, all times alike."""

from __future__ import annotations

import re

import pytest
import requests
from local_client import role
from waiting import wait_until

from luigi_pai.local import LocalPai
from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import COMPLETED, Task

pytestmark = pytest.mark.slow

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


def page(server, name, **more):
    query = {"username": "admin", "jobName": name, **more}
    reply = requests.get(f"{server.url}/job-detail.html", params=query, timeout=20)
    assert reply.status_code == 200
    return reply.text


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
    assert '<p id="no-output" data-part>Nothing runs yet.</p>' in page(local_pai_v1, name)
    client.stop(name)
    assert "No task has run." in page(local_pai_v1, name)


def test_between_two_attempts_the_last_one_is_shown(local_pai_v1, client):
    """What it wrote is what somebody wants to see then."""
    name = client.submit(role("echo here; exit 3"), retryCount=50)

    def waits_for_long():
        status = client.status(name)
        return status["retries"] >= 5 and status["state"] == "WAITING"

    wait_until(waits_for_long)
    text = page(local_pai_v1, name)
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
