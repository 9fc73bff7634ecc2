"""`make test` and `make quick` run their parts side by side, and say what came of each."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

COMMAND = ROOT / "tests" / "support" / "side_by_side.py"
MAKEFILE = """\
good:
	@printf '......\\n..s [ 97%%]\\n\\n3 passed, 1 skipped in 2.50s\\n'
bad:
	@printf 'F. [100%%]\\nFAILED test_x\\n1 failed, 1 passed in 61.20s (0:01:01)\\n'; exit 3
first:
	@touch 1; while [ ! -e 2 ]; do sleep 0.02; done
second:
	@touch 2; while [ ! -e 1 ]; do sleep 0.02; done
"""


@pytest.fixture
def run(tmp_path: Path):
    """Run targets of a Makefile of its own; what is shown, and the exit code."""
    (tmp_path / "Makefile").write_text(MAKEFILE)

    def run(*targets: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, COMMAND, *targets],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


def test_all_pass(run) -> None:
    """Each part has its line at the end, with the counts of pytest; progress is left out."""
    done = run("good", "first", "second")  # the latter two wait for each other
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n== good\n3 passed, 1 skipped in 2.50s\n" in done.stdout
    summary = done.stdout.partition("\n== summary\n")[2].splitlines()
    assert [re.sub(r" \d:\d\d", " TIME", line) for line in summary] == [
        "good         passed  TIME min  3 passed, 1 skipped",
        "first        passed  TIME min",
        "second       passed  TIME min",
    ]


def test_one_fails(run) -> None:
    """The others go on, what it wrote is shown, and the exit code is 1."""
    done = run("bad", "good")
    assert done.returncode == 1
    assert "\n== bad\nFAILED test_x\n1 failed, 1 passed in 61.20s (0:01:01)\n" in done.stdout
    bad, good = done.stdout.partition("\n== summary\n")[2].splitlines()
    assert re.fullmatch(r"bad +FAILED +0:0\d min  1 failed, 1 passed", bad)
    assert re.fullmatch(r"good +passed +0:0\d min  3 passed, 1 skipped", good)
