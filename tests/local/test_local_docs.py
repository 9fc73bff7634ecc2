"""The pages about the local server: their links lead somewhere, their pictures are small."""

from __future__ import annotations

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
    pictures = list((DOCS / "pictures").glob("*.png"))
    assert {picture.name for picture in pictures} == {"job.png", "jobs.png"}
    assert max(picture.stat().st_size for picture in pictures) < LARGEST
