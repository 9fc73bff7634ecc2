"""The pages in a headless Chromium: what grows, what the keyboard reaches, what can be read."""

from __future__ import annotations

import pytest
from local_client import role, unique
from places import DATA

pytestmark = pytest.mark.slow

CONTRAST = (DATA / "local" / "contrast.js").read_text("utf-8")
"""An expression: the lowest contrast of the texts that a page shows."""


@pytest.fixture
def browser(chromium):
    """The browser; at the end it must not have complained."""
    chromium.complaints.clear()
    yield chromium
    chromium.run("1")
    assert chromium.complaints == []
    chromium.call("Page.navigate", url="about:blank")


def job_page(server, name, **query):
    more = "".join(f"&{key}={value}" for key, value in query.items())
    return f"{server.url}/job-detail.html?username=admin&jobName={name}{more}"


def test_a_log_grows_and_a_state_changes_without_a_reload(local_pai_v1, client, browser, tmp_path):
    """Line by line while the job runs, to the last one; then the stop button is gone."""
    steps = [tmp_path / "one", tmp_path / "two"]
    wait = "; ".join(f"until [ -e {step} ]; do sleep 0.05; done; echo after {step.name}" for step in steps)
    name = client.submit(role(f"echo begun; {wait}; printf 'the ünd'"))
    client.wait(name, "RUNNING")
    browser.open(job_page(local_pai_v1, name))
    browser.run("window.sameDocument = true")
    log = "document.getElementById('log').textContent"
    browser.wait(f"{log} === 'begun\\n'")
    assert browser.run("document.getElementById('stop-job') !== null")
    steps[0].touch()
    browser.wait(f"{log} === 'begun\\nafter one\\n'")
    steps[1].touch()
    browser.wait(f"{log} === 'begun\\nafter one\\nafter two\\nthe ünd'")
    browser.wait("document.querySelector('#facts .state').textContent === 'SUCCEEDED'")
    assert browser.run("document.getElementById('stop-job') === null && window.sameDocument")


def test_a_long_log_is_shown_from_its_end_and_goes_on(local_pai_v1, client, browser, tmp_path):
    """The page does not fetch 3 MB to show a screenful; nothing is shown twice."""
    job = f"yes 0123456789 | head -n 300000; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo last"
    name = client.submit(job)
    client.wait(name, "RUNNING")
    browser.open(job_page(local_pai_v1, name))
    browser.wait("document.getElementById('log').textContent.length > 60000")
    (tmp_path / "go").touch()
    browser.wait("document.getElementById('log').textContent.endsWith('last\\n')")


@pytest.fixture
def before_the_page(browser):
    """Run a script on every page before its own."""
    scripts = []

    def add(source):
        scripts.append(browser.call("Page.addScriptToEvaluateOnNewDocument", source=source)["identifier"])

    yield add
    for script in scripts:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)


@pytest.mark.parametrize(
    "fault", ["Promise.reject(new TypeError('reset'))", "new Response('', {status: 503})"]
)
def test_a_piece_of_a_log_that_did_not_come_is_asked_for_again(
    local_pai_v1, client, browser, before_the_page, fault
):
    """Of an ended job, too, whose page is not looked at any more."""
    name = client.run("echo one; echo two")["name"]
    before_the_page(f"""
      const really = window.fetch;
      let first = true;
      window.fetch = async (address, ...more) => {{
        if (!first || !String(address).startsWith("/node/")) return really(address, ...more);
        first = false;
        return {fault};
      }};""")
    browser.open(job_page(local_pai_v1, name))
    browser.wait("document.getElementById('log').textContent === 'one\\ntwo\\n'")
    browser.wait("document.getElementById('trouble').textContent === ''")


def test_a_job_is_stopped_by_keyboard_alone(local_pai_v1, client, browser):
    """The first Tab is the skip link; Tab and Enter reach the job in the list, and its stop button."""
    name = client.submit(role("sleep 60"))
    client.wait(name, "RUNNING")
    browser.open(local_pai_v1.url)
    focus = "document.activeElement"
    browser.press("Tab")
    assert browser.run(f"{focus}.className === 'skip' && {focus}.getBoundingClientRect().left >= 0")

    def tab_to(condition):
        for _ in range(25):
            if browser.run(condition):
                return
            assert browser.run(f"getComputedStyle({focus}).outlineStyle") == "solid"
            browser.press("Tab")
        raise AssertionError(condition)

    tab_to(f"{focus}.textContent === '{name}'")
    browser.press("Enter")
    browser.wait("document.getElementById('stop-job') !== null")
    browser.press("Tab")
    tab_to(f"{focus}.id === 'stop-job'")
    browser.press("Enter")
    browser.wait("document.querySelector('#facts .state')?.textContent === 'STOPPED'")
    assert client.wait(name)["jobStatus"]["state"] == "STOPPED"


def test_a_failed_job_shows_the_error_log_of_the_task_that_decided_it(
    local_pai_v1, client, browser, tmp_path
):
    """Unless the reader has chosen another log, also while the page is open."""
    wait = f"until [ -e {tmp_path}/go ]; do sleep 0.02; done"
    roles = [role("echo fine; sleep 60", name="good"), role(f"{wait}; echo no data >&2; exit 3", name="bad")]
    name = client.submit(*roles)
    client.wait(name, "RUNNING")
    log, which = "document.getElementById('log')", "document.getElementById('which-log')"
    browser.open(job_page(local_pai_v1, name))
    browser.wait(f"{log}.textContent === 'fine\\n'")
    (tmp_path / "go").touch()
    browser.wait(f"{log}.textContent === 'no data\\n'")
    assert browser.run(f"{which}.selectedOptions[0].textContent") == "bad-0 stderr (FAILED)"
    browser.open(job_page(local_pai_v1, name))
    browser.wait(f"{log}.textContent === 'no data\\n'")


@pytest.mark.parametrize("dark", [False, True])
def test_pages_can_be_read_in_the_dark_and_on_a_narrow_screen(local_pai_v1, client, browser, dark):
    """Every text has a contrast of 4.5 to 1 and more; only tables scroll sideways."""
    failed = client.run("echo no; exit 3")["name"]
    running = client.submit(role("sleep 60", gpuNumber=1), name=unique("a-very-long-name-" * 8))
    client.wait(running, "RUNNING")
    for page in (f"{local_pai_v1.url}/", job_page(local_pai_v1, failed), job_page(local_pai_v1, running)):
        browser.screen(360, dark=dark)
        browser.open(page)
        assert browser.run(CONTRAST) >= 4.5
        assert browser.run("document.documentElement.scrollWidth") <= 360
        ground = browser.run("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(22, 22, 26)" if dark else "rgb(255, 255, 255)")
        fields = "[...document.querySelectorAll('input:not([type=hidden]), select')]"
        assert browser.run(f"{fields}.filter((field) => !field.labels.length).length") == 0
    client.stop(running)
