"""The workflows of GitHub Actions: which Pythons they test, and what they run."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Any

import pytest
import yaml
from places import ROOT

FOLDER = ROOT / ".github" / "workflows"

pytestmark = pytest.mark.tree


def jobs(name: str) -> dict[str, Any]:
    return yaml.safe_load((FOLDER / name).read_text())["jobs"]


def test_the_newest_libraries_are_tested_on_each_python_that_is_supported() -> None:
    classifiers = metadata.metadata("luigi-pai").get_all("Classifier", [])
    supported = [found[1] for line in classifiers if (found := re.search(r":: (3\.\d+)$", line))]
    assert len(supported) >= 4
    assert jobs("checks.yml")["newest"]["strategy"]["matrix"]["python"] == supported
    assert jobs("checks.yml")["oldest"]["strategy"]["matrix"]["python"][0] == supported[0]


def test_nothing_is_published_before_all_checks_have_passed() -> None:
    release = jobs("release.yml")
    assert release["checks"]["uses"] == "./.github/workflows/checks.yml"
    assert {"checks", "version"} <= set(release["attest"]["needs"])
    assert release["publish"]["needs"] == "attest"


@pytest.mark.parametrize("name", [path.name for path in sorted(FOLDER.glob("*.yml"))])
def test_actions_of_others_are_pinned_by_their_commits(name: str) -> None:
    """With the release that it is of as a comment. A tag can be moved."""
    used = re.findall(r"^ +(?:- )?uses: (.*)$", (FOLDER / name).read_text(), re.MULTILINE)
    foreign = [line for line in used if not line.startswith("./")]
    assert foreign
    assert [
        line for line in foreign if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)
    ] == []
