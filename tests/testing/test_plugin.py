"""The pytest plugin luigi_pai.testing, in pytests of its own: fixtures, marker, option."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from places import DATA, ROOT

pytestmark = pytest.mark.timeout(600)  # a pytest of its own, on a busy machine


@pytest.mark.slow
def test_the_tests_of_a_user(run):
    """Jobs that end as a test says, faults, time, markers, configuration, mocked routes."""
    config = "[OpenPai]\npai_url = http://real.example:1\n[OpenPai:eu]\npai_url = http://eu.example:2\n"
    code, out = run((DATA / "plugin" / "uses.py").read_text(encoding="utf-8"), config=config, before="")
    assert code == 0, out
    assert "29 passed" in out


@pytest.mark.slow
def test_a_wrong_marker_is_named(run):
    wrong = ["api='v3'", "'v3'", "", "'v1', 'v2'", "'v1', api='v1'", "version='v1'", "hdfs='http://nn'"]
    code, out = run(
        "import pytest\n"
        + "".join(
            f"@pytest.mark.pai({words})\ndef test_{number}(pai): pass\n" for number, words in enumerate(wrong)
        )
    )
    assert code == 1
    for number, words in enumerate(wrong):
        assert f"test_it.py::test_{number}: pai({words}): use api='v1', 'v2' or 'ltp'" in out


@pytest.mark.slow
def test_several_processes(run):
    """Each process of pytest-xdist has a server of its own."""
    code, out = run(
        """
@pytest.mark.parametrize("number", range(4))
def test_it(pai, number):
    pai.when("*").succeeds()
    Train(name=f"train-{number}").run()
    assert pai.submitted == [f"train-{number}"]
""",
        "-n2",
    )
    assert code == 0, out
    assert "4 passed" in out


@pytest.mark.slow
@pytest.mark.tree
def test_the_example_project():
    """examples/testing, as its own pytest runs it."""
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "luigi_pai.testing", "-p", "no:cacheprovider",
            "-n0", "-c", os.devnull, "--rootdir", ".",
        ],
        cwd=ROOT / "examples" / "testing", capture_output=True, text=True, check=False, timeout=170,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout


@pytest.mark.slow
def test_nothing_heavy_is_loaded_before_a_fixture_is_used():
    """pytest loads the plugin whenever it starts."""
    script = (
        "import pytest, sys; before = {*sys.modules}; import luigi_pai.testing; "
        "print(*{*sys.modules} - before)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} == {"luigi_pai", "luigi_pai.testing"}


def test_the_entry_point_is_declared():
    text = (ROOT / "pyproject.toml").read_text()
    assert re.search(
        r'^\[project.entry-points.pytest11\]\n"luigi_pai.testing" = "luigi_pai.testing"$', text, re.MULTILINE
    )
