"""The pictures of the pages are small, and all are shown."""

from __future__ import annotations

import html
import re

import pytest
from places import ROOT

PICTURES = ROOT / "docs" / "pictures"
LARGEST = 150_000  # bytes of a picture

pytestmark = pytest.mark.tree


def test_pictures_are_small_and_shown():
    """Each is on a page of docs/ or in README.md."""
    pictures = list(PICTURES.glob("*.*g"))
    assert max(picture.stat().st_size for picture in pictures) < LARGEST
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
    shown = {name for page in pages for name in re.findall(r"pictures/([\w.-]+)\)", page)}
    assert {picture.name for picture in pictures} == shown


def test_the_demo_fits_a_terminal():
    """Its lines are those of 80 columns, and of no machine's own folders."""
    text = (PICTURES / "demo.svg").read_text(encoding="utf-8")
    lines = [html.unescape(line) for line in re.findall(r"<text[^>]*>(.*)</text>", text)]
    assert len(lines) > 10
    assert max(map(len, lines)) <= 80
    assert not re.search(r"/(tmp|home|work|root)/", text)
