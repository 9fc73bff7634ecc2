"""The distributions: what they hold, what they bring along, and that they can be built again bit by bit."""

from __future__ import annotations

import email
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from places import ROOT

import luigi_pai

TREE = (
    *("luigi_pai", "tests", "docs", "examples", "benchmarks", ".ci", ".github"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
    *("Makefile", "pyproject.toml", "luigi.cfg.example", ".gitignore"),
)
NOT_KEPT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*_cache", "build", "_build")
MOST_DISTRIBUTIONS, MOST_MIB = 25, 60


def build(tree: Path) -> dict[str, Path]:
    """Build a tree as a frontend does; suffix -> file."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", "dist"],
        cwd=tree,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,), (sdist,) = (tree / "dist").glob("*.whl"), (tree / "dist").glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def copied(tree: Path, *, modified: int) -> Path:
    """Copy this project; all its files were changed at a certain time."""
    for name in TREE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=NOT_KEPT)
        else:
            tree.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    for path in tree.rglob("*"):
        os.utime(path, (modified, modified))
    return tree


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A wheel and an sdist of this tree."""
    return build(copied(tmp_path_factory.mktemp("built") / "tree", modified=1_700_000_000))


@pytest.mark.slow
@pytest.mark.tree
def test_a_second_build_is_the_same_bit_by_bit(built: dict[str, Path], tmp_path: Path) -> None:
    """In another folder, at another time."""
    again = build(copied(tmp_path / "elsewhere", modified=1_750_000_000))
    assert {kind: digest(path) for kind, path in again.items()} == {
        kind: digest(path) for kind, path in built.items()
    }


@pytest.mark.slow
@pytest.mark.tree
def test_the_sdist_is_the_whole_tree_and_gives_the_same_wheel(built: dict[str, Path], tmp_path: Path) -> None:
    """With its tests and all that they read, so that a packager can run them."""
    with tarfile.open(built["sdist"]) as archive:
        archive.extraction_filter = lambda member, _path: member  # which Python 3.12 asks for
        archive.extractall(tmp_path)
    (unpacked,) = tmp_path.iterdir()
    tree = built["sdist"].parents[1]
    expected = {path.relative_to(tree) for path in tree.rglob("*") if path.is_file()}
    expected = {path for path in expected if path.parts[0] != "dist"}
    found = {path.relative_to(unpacked) for path in unpacked.rglob("*") if path.is_file()}
    assert found == {*expected, Path("PKG-INFO")}
    assert digest(build(unpacked)["wheel"]) == digest(built["wheel"])


@pytest.mark.tree
def test_the_wheel_holds_the_package_only(built: dict[str, Path]) -> None:
    """All of its modules and data, no tests, and the mark that it is typed."""
    with zipfile.ZipFile(built["wheel"]) as archive:
        names = set(archive.namelist())
    package = ROOT / "luigi_pai"
    files = [path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {f"luigi_pai/{path.relative_to(package)}" for path in files} == {
        name for name in names if name.startswith("luigi_pai/")
    }
    assert {"luigi_pai/py.typed", "luigi_pai/jobspec/schemas/job.v1.json"} <= names
    assert {name.split("/")[0] for name in names} == {
        "luigi_pai",
        f"luigi_pai-{luigi_pai.__version__}.dist-info",
    }


@pytest.mark.tree
def test_what_a_package_index_shows(built: dict[str, Path]) -> None:
    """The version of the module, absolute links, and extras that are for users."""
    with zipfile.ZipFile(built["wheel"]) as archive:
        text = archive.read(f"luigi_pai-{luigi_pai.__version__}.dist-info/METADATA").decode()
    shown = email.message_from_string(text)
    assert shown["Version"] == luigi_pai.__version__
    assert shown.get_all("Provides-Extra") == ["kerberos", "optuna", "python", "testing"]
    urls = dict(line.split(", ") for line in shown.get_all("Project-URL", []))
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= urls.keys()
    assert all(url.startswith("https://") for url in urls.values())


def needed(name: str) -> set[str]:
    """Return a distribution and all that it needs here, without extras."""
    found: set[str] = set()
    asked = [name]
    while asked:
        one = canonicalize_name(asked.pop())
        if one in found:
            continue
        found.add(one)
        for line in metadata.requires(one) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                asked.append(requirement.name)
    return found


def size(name: str) -> int:
    """Return the bytes of the files of a distribution, without byte code."""
    files = metadata.files(name) or []
    paths = [Path(str(file.locate())) for file in files if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.exists())


def test_what_an_installation_brings_along_is_limited() -> None:
    """Fewer than 25 distributions beside this one, and 60 MiB in all."""
    others = needed("luigi-pai") - {"luigi-pai"}
    assert {"luigi", "hdfs", "requests"} <= others
    assert len(others) < MOST_DISTRIBUTIONS, sorted(others)
    own = sum(path.stat().st_size for path in Path(luigi_pai.__file__).parent.rglob("*.py"))
    assert sum(map(size, others)) + own < MOST_MIB * 2**20
