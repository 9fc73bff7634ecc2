"""The pages about the local server: their links lead somewhere, their pictures are small."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("local.md", "local-reference.md")
LARGEST = 150_000  # bytes of a picture


def anchors(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_to_a_page_and_a_heading(name):
    links = re.findall(r"\]\(([^)]+)\)", (DOCS / name).read_text())
    assert links
    for link in links:
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = DOCS / (file or name)
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


def test_pictures_are_small():
    """Those that docs/pictures/make.py makes, and no others."""
    pictures = list((DOCS / "pictures").glob("*.*g"))
    names = {"demo.svg", "job.png", "jobs.png", "luigi.png", "report.png"}
    assert {picture.name for picture in pictures} == names
    assert max(picture.stat().st_size for picture in pictures) < LARGEST


def test_the_demo_fits_a_terminal():
    """Its lines are those of 80 columns, and of no machine's own folders."""
    text = (DOCS / "pictures" / "demo.svg").read_text(encoding="utf-8")
    lines = [html.unescape(line) for line in re.findall(r"<text[^>]*>(.*)</text>", text)]
    assert len(lines) > 10
    assert max(map(len, lines)) <= 80
    assert not re.search(r"/(tmp|home|work|root)/", text)
