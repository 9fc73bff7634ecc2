"""The pytest plugin luigi_pai.testing, in pytests of its own: fixtures, marker, option."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from places import DATA, ROOT

pytestmark = pytest.mark.timeout(600)  # a pytest of its own, on a busy machine

USER = """
[OpenPai]
pai_url = http://real.example:1
token = secret
[OpenPai:eu]
pai_url = http://eu.example:2
[Train]
Rate = 7%%
"""


@pytest.mark.slow
def test_the_tests_of_a_user(run_files):
    """Jobs that end as a test says, faults, time, markers, mocked routes, configuration.

    Each of two processes of pytest-xdist has its own server.
    """
    names = ("uses", "configuration")
    files = {f"test_{name}.py": (DATA / "plugin" / f"{name}.py").read_text("utf-8") for name in names}
    files |= {
        "user.cfg": USER,
        "test.cfg": "[OpenPai:new]\npai_url = http://new.example:1\n[Other]\nkey = 1\n",
    }
    own = {"LUIGI_CONFIG_PATH": "user.cfg", "XDG_STATE_HOME": "mine"}
    folder, code, out = run_files(files, "-n2", "--dist", "loadfile", **own)
    assert code == 0, out
    assert "36 passed" in out
    assert not (folder / "mine").exists()


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
