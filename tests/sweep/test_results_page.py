"""The page of a sweep's table: without injection, readable without its script, sorted and drawn with it."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from luigi_pai.sweep.results import SweepResults
from luigi_pai.sweep.rows import Row
from luigi_pai.sweep.sheet import Summary

HOSTILE = '</script><script>document.title="run"</script><img src=x onerror=alert(1)>"\'&'


def write(folder: Path, rows: list[Row], *, complete: bool = True, best: str = "") -> Path:
    """Write a table, and return its page."""
    results = SweepResults(str(folder))
    about = {"started_ms": 1_763_815_000_000, "updated_ms": 1_763_815_061_000, "digest": ""}
    results.write(rows, Summary("my study", points=len(rows), complete=complete, best=best, **about))
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
        "Not complete. Started 2025-11-22 12:36:40 UTC, this page was written 2025-11-22 12:37:41 UTC."
        in text
    )
    assert page.tags.count("tr") == 3
    assert page.links == [row(number)[1].page for number in (1, 2)]


def test_it_begins_with_what_varies(tmp_path):
    """Parameters that all points have in common are near the end."""
    rows = [
        ({"seed": 1, "rate": rate}, Row("SUCCEEDED", {"accuracy": rate}, 1.0, "j")) for rate in (0.1, 0.2)
    ]
    heads = re.findall("<th .*?>(.*?)</th>", write(tmp_path, rows).read_text("utf-8"))
    assert heads == ["rate", "state", "accuracy", "seconds", "job", "seed"]
    failed = [*rows, ({"seed": 1, "rate": 0.3}, Row("FAILED", error="exit code 1"))]
    assert re.findall("<th .*?>(.*?)</th>", write(tmp_path, failed).read_text("utf-8")) == [*heads, "error"]


def test_it_is_one_file_that_loads_nothing(tmp_path):
    """The browser is told so, too."""
    text = write(tmp_path, [row(1)]).read_text("utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"<(link|iframe|img|object)|<script [^>]*src|@import|url\(", text)


def test_nothing_of_a_point_becomes_markup(tmp_path):
    """Texts, names of columns, job names and addresses of pages are escaped; other schemes are no links."""
    row = Row(HOSTILE, {HOSTILE: HOSTILE}, 1.0, HOSTILE, "javascript:alert(1)", HOSTILE)
    hostile = ({HOSTILE: HOSTILE}, row)
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
    row = Row(HOSTILE, {HOSTILE: 1}, 1.0, HOSTILE, "javascript:alert(1)")
    points = [({HOSTILE: f"{number}{HOSTILE}"}, row) for number in range(3)]
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


def lines(browser) -> int:
    """Return the number of points in the chart; the path of the point that is looked at is empty."""
    return browser.run("document.querySelectorAll('svg path:not(.axis):not([d=\"\"]):not(.hot)').length")


def chart(browser) -> str:
    return browser.run("document.getElementById('picture').ariaLabel.split(':')[0]")


@pytest.mark.slow
def test_it_draws_one_parameter_as_dots_and_several_as_lines(browser, tmp_path):
    """Failed points are drawn, too, without a colour; pointing at a row shows it."""
    rows = [*(row(number) for number in range(1, 5)), row(9, "FAILED"), row(8, "PENDING")]
    browser.open(write(tmp_path / "one", rows).as_uri())
    assert chart(browser) == "accuracy by rate"
    assert browser.run("document.querySelector('select').parentElement.hidden")
    assert lines(browser) == 5
    assert browser.run("document.querySelectorAll('svg path[style*=color-mix]').length") == 4
    several = [row(number, batch=16 * (number % 3), optimizer="adam") for number in range(1, 8)]
    browser.open(write(tmp_path / "two", several).as_uri())
    assert chart(browser) == "accuracy by rate, batch"
    assert lines(browser) == 7
    browser.run(
        "document.querySelector('td').dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"
    )
    assert browser.run("document.querySelector('figcaption').textContent").startswith("rate 0.1, batch 16")


def choose(browser, number: int, text: str) -> None:
    """Choose an option of the chart: 0 is its kind, 1 and 2 its columns, 3 the column of its colours."""
    browser.run(
        f"""(() => {{
          const select = document.querySelectorAll('figure select')[{number}];
          select.value = [...select.options].find(({{ text }}) => text === '{text}').value;
          select.dispatchEvent(new Event('change', {{ bubbles: true }}));
        }})()"""
    )


@pytest.mark.slow
def test_two_columns_and_the_colour_can_be_chosen(browser, tmp_path):
    """Also columns of results, states and seconds."""
    several = [row(number, batch=16 * (number % 3)) for number in range(1, 8)]
    browser.open(write(tmp_path, several).as_uri())
    choose(browser, 0, "two columns")
    assert chart(browser) == "accuracy by rate"
    choose(browser, 1, "batch")
    choose(browser, 2, "seconds")
    assert chart(browser) == "seconds by batch"
    assert lines(browser) == 7
    shown = browser.run("[...document.querySelectorAll('figure select')[1].options].map(o => o.text)")
    assert shown == ["rate", "batch", "accuracy", "seconds"]


@pytest.mark.slow
def test_keys_go_from_point_to_point(browser, tmp_path):
    """The best point is the first; Enter shows its row."""
    rows = [row(number, batch=16 * (number % 3)) for number in range(1, 8)]
    browser.open(write(tmp_path, rows, best="max accuracy").as_uri())
    browser.run("document.getElementById('picture').focus()")
    browser.press("ArrowRight")
    caption = "document.querySelector('figcaption').textContent"
    assert browser.run(caption) == "rate 1e-07, batch 16, state SUCCEEDED, accuracy 0.9"
    browser.press("ArrowLeft")
    assert browser.run(caption).endswith("accuracy 0.1")
    browser.press("Enter")
    assert browser.run("document.querySelector('tr.hot td').textContent") == "0.001"


def points(kind: str) -> list:
    """Return rows of many kinds of values."""
    long = "/a/path/with/many/parts/and/a/long/name/"
    if kind == "a grid":
        return [
            ({"rate": rate, "batch": batch}, Row("SUCCEEDED", {"loss": batch * rate}, 1.0, "j"))
            for rate in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
            for batch in (2, 4, 8, 16, 32)
        ]
    if kind == "one parameter":
        return [({"x": 2019 + n}, Row("SUCCEEDED", {"y": n * 1e6 - 3e6}, 1.0, "j")) for n in range(500)]
    if kind == "names":
        return [({"data": f"{long}{n}"}, Row("SUCCEEDED", {"y": n}, 1.0, "j")) for n in range(30)]
    if kind == "extremes":
        sizes = (5e-324, 1e-300, 0.0, -1e308, 1e308, 1e17, 1e17 + 16, None, math.inf)
        return [({"x": size}, Row("SUCCEEDED", {"y": size}, 1.0, "j")) for size in sizes]
    return [
        (
            {
                "learning_rate": 10 ** (-1 - number % 50 / 10),
                "a_parameter_whose_name_is_rather_long": f"{long}{number % 5}",
                "augment": number % 2 == 0,
                "dropout": None if number % 7 == 0 else number % 10 / 10,
                HOSTILE: f"{number % 3}{HOSTILE}",
            },
            Row(*[("SUCCEEDED", {"accuracy": number % 13 / 13}), ("FAILED",), ("PRUNED",)][number % 11 % 3]),
        )
        for number in range(int(kind))
    ]


OVERLAPS = """(() => {
  const texts = [...document.querySelectorAll('svg text:not(.star)')];
  const boxes = texts.map((text) => text.getBoundingClientRect());
  const picture = document.querySelector('svg').getBoundingClientRect();
  const apart = (a, b) => a.right <= b.x || b.right <= a.x || a.bottom - 3 <= b.y || b.bottom - 3 <= a.y;
  const outside = boxes.filter((box) => box.x < picture.x - 1 || box.right > picture.right + 1);
  const over = boxes.flatMap((a, n) => boxes.slice(n + 1).filter((b) => !apart(a, b)));
  return [boxes.length >= 4, outside.length, over.length, document.documentElement.scrollWidth > innerWidth];
})()"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a grid", "one parameter", "names", "extremes", "5", "500"])
def test_texts_of_the_chart_do_not_collide(browser, tmp_path, kind):
    """At 360 and 1600 pixels, nothing overlaps in either chart, and the page is not wider."""
    page = write(tmp_path, points(kind), best="max accuracy")
    for width in (360, 1600):
        browser.screen(width)
        browser.open(page.as_uri())
        for shown in ("all parameters", "two columns"):
            choose(browser, 0, shown)
            assert browser.run(OVERLAPS) == [True, 0, 0, False], (width, shown)


@pytest.mark.slow
def test_ticks_are_round_numbers(browser, tmp_path):
    """Few values are ticks themselves; an axis of many decades is logarithmic."""
    browser.screen(1600)
    ticks = "[...document.querySelectorAll('svg text:not(.star)')].map((text) => text.textContent)"
    browser.open(write(tmp_path / "grid", points("a grid")).as_uri())
    assert browser.run(ticks)[:13] == [
        *("rate", "0.003", "0.01", "0.03", "0.1", "0.3", "1"),
        *("batch", "2", "4", "8", "16", "32"),
    ]
    browser.open(write(tmp_path / "one", points("one parameter")).as_uri())
    assert browser.run(ticks)[1:11] == [str(year) for year in range(2050, 2550, 50)]
    assert browser.run(ticks)[12:16] == ["0", "5e+7", "1e+8", "1.5e+8"]
    browser.open(write(tmp_path / "decades", points("500")).as_uri())
    assert browser.run(ticks)[1:6] == ["2e-6", "5e-6", "1e-5", "2e-5", "5e-5"]


def test_the_best_point_is_named_marked_and_first(tmp_path):
    """Then come the others, the best first; points that have not succeeded keep their order at the end."""
    rows = [row(4, "FAILED"), row(1), row(3, "PRUNED"), row(2)]
    rows[2] = (rows[2][0], Row("PRUNED", {"accuracy": 0.99}, 1.0, "train_3"))
    text = write(tmp_path, rows, best="min accuracy").read_text("utf-8")
    assert "<b>★ Best accuracy 0.4 (rate=0.01)</b>" in text
    assert re.findall('<tr class="best" title="the best point"><td>(.*?)</td>', text) == ["0.01"]
    assert re.findall("<tr[^>]*><td>(.*?)</td>", text) == ["0.01", "0.1", "0.0001", "0.001"]
    assert '<th scope="col" aria-sort="ascending">accuracy</th>' in text
    for best in ("", "max nothing", "maximum"):
        text = write(tmp_path, rows, best=best).read_text("utf-8")
        assert "★ Best" not in text
        assert "<tr class" not in text
        assert re.findall("<tr[^>]*><td>(.*?)</td>", text) == ["0.0001", "0.1", "0.001", "0.01"]
