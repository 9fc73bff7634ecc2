"""The page of a sweep's table: without injection, readable without its script, sorted and drawn with it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from luigi_pai.sweep.results import Summary, SweepResults
from luigi_pai.sweep.rows import Row

HOSTILE = '</script><script>document.title="run"</script><img src=x onerror=alert(1)>"\'&'


def write(folder: Path, rows: list[Row], *, complete: bool = True) -> Path:
    """Write a table, and return its page."""
    results = SweepResults(str(folder))
    about = {"started_ms": 1_763_815_000_000, "updated_ms": 1_763_815_061_000, "digest": ""}
    results.write(rows, Summary("my study", points=len(rows), complete=complete, **about))
    return Path(results.path("html"))


def row(number: int, state: str = "SUCCEEDED", **parameters) -> Row:
    accuracy = {"accuracy": (number * 7 % 10) / 10} if state == "SUCCEEDED" else {}
    page = f"http://pai/job-detail.html?username=anna&jobName=train_{number}"
    return (
        {"rate": 10.0**-number, **parameters},
        Row(state, accuracy, 60.0 + number, f"train_{number}", page),
    )


class _Texts(HTMLParser):
    """The texts, links and tags of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str | None] = []
        self.texts: list[str] = []
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "a":
            self.links.append(dict(attrs)["href"])

    def handle_data(self, data):
        self.texts.append(data)


def test_it_is_readable_without_scripts(tmp_path):
    """Counts, times, and a row for each point whose job is a link to its page."""
    page = _Texts(write(tmp_path, [row(1), row(2, "FAILED")], complete=False))
    text = "".join(page.texts)
    assert "2 points: 1 SUCCEEDED, 1 FAILED." in text
    assert (
        "Not complete. Began 2025-11-22 12:36:40 UTC, this page was written 2025-11-22 12:37:41 UTC." in text
    )
    assert page.tags.count("tr") == 3
    assert page.links == [row(number)[1].page for number in (1, 2)]


def test_it_begins_with_what_varies(tmp_path):
    """Parameters that all points have in common are near the end."""
    rows = [
        ({"seed": 1, "rate": rate}, Row("SUCCEEDED", {"accuracy": rate}, 1.0, "j")) for rate in (0.1, 0.2)
    ]
    heads = re.findall("<th .*?>(.*?)</th>", write(tmp_path, rows).read_text("utf-8"))
    assert heads == ["rate", "state", "accuracy", "seconds", "job", "seed", "error"]


def test_it_is_one_file_that_loads_nothing(tmp_path):
    """The browser is told so, too."""
    text = write(tmp_path, [row(1)]).read_text("utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"<(link|iframe|img|object)|<script [^>]*src|@import|url\(", text)


def test_nothing_of_a_point_becomes_markup(tmp_path):
    """Texts, names of columns, job names and addresses of pages are escaped; other schemes are no links."""
    hostile = (
        {HOSTILE: HOSTILE},
        Row(HOSTILE, {HOSTILE: HOSTILE}, 1.0, HOSTILE, "javascript:alert(1)", HOSTILE),
    )
    page = _Texts(write(tmp_path, [hostile]))
    assert "img" not in page.tags
    assert page.tags.count("script") == 1
    assert page.links == []
    assert page.texts.count(HOSTILE) == 7


@pytest.fixture
def browser(chromium):
    """The browser; a test fails over whatever its console complains about."""
    chromium.complaints.clear()
    yield chromium
    assert chromium.complaints == []
    chromium.screen(1200)
    chromium.call("Page.navigate", url="about:blank")


@pytest.mark.slow
def test_a_browser_runs_nothing_of_a_point(browser, tmp_path):
    """Nor does sorting and drawing make markup of it."""
    points = [
        (
            {HOSTILE: f"{number}{HOSTILE}"},
            Row(HOSTILE, {HOSTILE: number}, 1.0, HOSTILE, "javascript:alert(1)"),
        )
        for number in range(3)
    ]
    browser.open(write(tmp_path, points).as_uri())
    browser.run("document.querySelectorAll('th button').forEach(button => button.click())")
    assert browser.run("document.title") != "run"
    assert browser.run("document.querySelectorAll('img, script:not(:first-of-type)').length") == 0
    assert browser.run("document.querySelectorAll('a[href^=javascript]').length") == 0
    assert HOSTILE in browser.run("document.querySelector('table').textContent")


@pytest.mark.slow
def test_it_may_have_no_points(browser, tmp_path):
    """A search begins without any."""
    browser.open(write(tmp_path, [], complete=False).as_uri())
    assert browser.run("document.querySelector('figure').hidden")


def column(browser, number: int) -> list[str]:
    """Return the texts of a column from top to bottom."""
    return browser.run(f"[...document.querySelectorAll('td:nth-child({number})')].map(c => c.textContent)")


@pytest.mark.slow
def test_it_sorts(browser, tmp_path):
    """By number or text, in both directions; points without a value come last."""
    page = write(tmp_path, [row(3), row(1), row(4, "FAILED"), row(2)])
    browser.open(page.as_uri())
    assert column(browser, 1) == ["0.001", "0.1", "0.0001", "0.01"]
    browser.run("document.querySelector('th button').click()")
    assert column(browser, 1) == ["0.0001", "0.001", "0.01", "0.1"]
    browser.run("document.querySelector('th button').click()")
    assert column(browser, 1) == ["0.1", "0.01", "0.001", "0.0001"]
    browser.run("document.querySelectorAll('th button')[2].click()")
    assert column(browser, 3) == ["0.1", "0.4", "0.7", ""]
    assert browser.run("document.querySelectorAll('th')[2].ariaSort") == "ascending"


def paths(browser) -> int:
    return browser.run("document.querySelector('svg').innerHTML.split('M').length - 1")


@pytest.mark.slow
def test_it_draws_one_parameter_as_dots_and_several_as_lines(browser, tmp_path):
    """Points without a result are not drawn; pointing at a row shows it."""
    browser.open(
        write(tmp_path / "one", [row(number) for number in range(1, 5)] + [row(9, "FAILED")]).as_uri()
    )
    assert browser.run("document.querySelector('svg').ariaLabel") == "accuracy by rate"
    assert paths(browser) == 1 + 4  # the axes, and a dot for each point
    several = [row(number, batch=16 * (number % 3), optimizer="adam") for number in range(1, 8)]
    browser.open(write(tmp_path / "two", several).as_uri())
    assert browser.run("document.querySelector('svg').ariaLabel") == "accuracy by rate, batch"
    assert paths(browser) == 3 + 7
    browser.run(
        "document.querySelector('td').dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"
    )
    assert browser.run("document.querySelector('figcaption').textContent").startswith("rate 0.1, batch 16")
