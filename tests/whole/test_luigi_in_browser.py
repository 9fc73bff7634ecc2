"""Luigi's web page, of a real luigid and in a browser, while a job runs."""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest
from browser import CHROMIUM, MISSING, Browser
from luigid import Luigid

from luigi_pai.api.cluster import Cluster

pytestmark = pytest.mark.slow

PIPELINE = """
import luigi
from luigi_pai import PaiTask, TaskRole


class PageInBrowser(PaiTask):
    name = luigi.Parameter()
    image = "python:3"
    tasks = [TaskRole("first", "true"), TaskRole("second", "sleep 60")]
"""
ROW = "#taskTable tbody tr"
LINK = 'a[title="Track Progress"]'


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip(MISSING)
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    browser.screen(1200)
    browser.call("Network.enable")
    browser.call("Network.setBlockedURLs", urls=["*://*.googleapis.com/*"])  # its font
    yield browser
    browser.close()


@pytest.fixture
def luigid(tmp_path):
    with Luigid(tmp_path) as scheduler:
        yield scheduler


@pytest.fixture
def task(local_pai_v1, luigid, tmp_path):
    """A task whose job runs, in a process of Luigi; it is named ``.job``."""
    keys = {**local_pai_v1.luigi_section, "api_version": "v1", "poll_min": "0.05", "poll_max": "0.3"}
    lines = "".join(f"{key} = {value}\n" for key, value in keys.items())
    config = f"[OpenPai]\n{lines}[worker]\nping_interval = 0.2\n"
    (tmp_path / "luigi.cfg").write_text(config, encoding="utf-8")
    (tmp_path / "page_in_browser.py").write_text(PIPELINE, encoding="utf-8")
    name = f"page-{uuid.uuid4().hex[:8]}"
    words = ["--module", "page_in_browser", "PageInBrowser", "--name", name, "--scheduler-url", luigid.url]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "luigi", *words, "--no-lock"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    process.job = name
    yield process
    process.kill()
    process.wait()


def there(button):
    return f"document.querySelector('{ROW} {button}') !== null"


def test_a_running_task_shows_its_job_and_can_be_stopped(task, luigid, chromium, local_pai_v1):
    """The link, the status message, the progress and the form for messages; and what is left at the end."""
    here = Cluster(local_pai_v1.url, "admin", password=local_pai_v1.password, api_version="v1")
    page = f"{luigid.url}/static/visualiser/index.html"
    while True:  # the table is read when the page is opened
        chromium.open(page)
        chromium.wait(f"document.querySelectorAll('{ROW}').length")
        if chromium.run(f"{there('.statusMessage')} && {there(LINK)}"):
            break
        assert task.poll() is None
    assert chromium.run(f"document.querySelector('{ROW} {LINK}').href") == here.page(task.job)

    chromium.run(f"document.querySelector('{ROW} .statusMessage').click()")
    message = "document.querySelector('#statusMessageModal pre').innerText"
    chromium.wait(f"{message} === '{task.job}: RUNNING, 2 tasks'")
    progress = "document.querySelector('#statusMessageModal .progress-bar').innerText"
    chromium.wait(f"{progress}.trim() === '50%'")

    chromium.open(page)
    chromium.wait(there(".schedulerMessage"))
    chromium.run(f"document.querySelector('{ROW} .schedulerMessage').click()")
    form = "document.querySelector('#schedulerMessageModal')"
    chromium.run(f"{form}.querySelector('#schedulerMessageInput').value = 'stop'")
    chromium.run(f"{form}.querySelector('#schedulerMessageAwaitResponse').checked = true")
    chromium.run(f"{form}.querySelector('#schedulerMessageButton').click()")
    response = f"{form}.querySelector('#schedulerMessageResponse').innerText"
    chromium.wait(f"{response}.includes('{task.job} is being stopped')")

    assert task.wait(60) == 0  # Luigi's own exit code, without [retcode]
    assert here.job(task.job).status().raw_state == "STOPPED"
    chromium.open(page)
    chromium.wait(f"document.querySelector('{ROW}').innerText.includes('FAILED')")
    left = {button for button in (LINK, ".statusMessage", ".schedulerMessage") if chromium.run(there(button))}
    assert left == {LINK, ".statusMessage"}
