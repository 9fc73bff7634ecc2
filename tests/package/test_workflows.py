"""The workflows of GitHub Actions: which Pythons they test, and what they run."""

from __future__ import annotations

import os
import re
import subprocess
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from packaging.requirements import Requirement
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

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
    assert {"checks", "attest"} <= set(release["publish"]["needs"])


@pytest.mark.parametrize("job", ["attest", "publish"])
@pytest.mark.parametrize("change", ["none", "other content", "another file", "no digests"])
def test_the_files_that_are_published_are_those_that_were_built(
    job: str, change: str, tmp_path: Path
) -> None:
    """The scripts of the workflows, one after the other, with a change of the artifact in between."""
    dist = tmp_path / "dist"
    dist.mkdir()
    for name in ("luigi_pai-1.whl", "luigi_pai-1.tar.gz"):
        (dist / name).write_text(name)
    (build,) = [step for step in jobs("checks.yml")["build"]["steps"] if step.get("id") == "dist"]
    output = tmp_path / "output"
    shell(build["run"].replace("make dist PYTHON=python", ""), tmp_path, GITHUB_OUTPUT=str(output))
    digests = output.read_text().strip().removeprefix("digests=")
    if change == "other content":
        (dist / "luigi_pai-1.whl").write_text("x")
    elif change == "another file":
        (dist / "luigi_pai-2.whl").write_text("x")
    steps = jobs("release.yml")[job]["steps"]
    (compare,) = [number for number, step in enumerate(steps) if "DIGESTS" in step.get("env", {})]
    assert [step["uses"].partition("@")[0] for step in steps[:compare]] == ["actions/download-artifact"]
    assert steps[compare]["env"]["DIGESTS"] == "${{ needs.checks.outputs.digests }}"
    code = shell(steps[compare]["run"], tmp_path, DIGESTS="" if change == "no digests" else digests)
    assert (code == 0) == (change == "none")


def shell(script: str, folder: Path, **variables: str) -> int:
    """Run a script as GitHub does, and return its exit code."""
    env = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=env, check=False).returncode


def test_what_is_published_is_built_with_pinned_packages_only() -> None:
    """Each with a hash, and all that hatchling needs among them."""
    text = (ROOT / ".ci" / "build-requirements.txt").read_text()
    pinned = re.findall(
        r"^([\w-]+)==\S+(?: ; \S+ < \S+)? \\\n    --hash=sha256:[0-9a-f]{64}$", text, re.MULTILINE
    )
    assert len(pinned) == text.count("==")
    needed = [Requirement(one).name for one in metadata.requires("hatchling") or []]
    assert set(pinned) == {"hatchling", *needed}


@pytest.mark.parametrize("name", [path.name for path in sorted(FOLDER.glob("*.yml"))])
def test_actions_of_others_are_pinned_by_their_commits(name: str) -> None:
    """With the release that it is of as a comment. A tag can be moved."""
    used = re.findall(r"^ +(?:- )?uses: (.*)$", (FOLDER / name).read_text(), re.MULTILINE)
    foreign = [line for line in used if not line.startswith("./")]
    assert foreign
    assert [
        line for line in foreign if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)
    ] == []
