"""The pictures of the pages about the local server are small."""

from __future__ import annotations

from places import ROOT

LARGEST = 150_000  # bytes of a picture


def test_pictures_are_small():
    pictures = list((ROOT / "docs" / "pictures").glob("*.png"))
    assert {picture.name for picture in pictures} == {"job.png", "jobs.png"}
    assert max(picture.stat().st_size for picture in pictures) < LARGEST
