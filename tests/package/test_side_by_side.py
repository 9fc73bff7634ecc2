"""`make test` and `make quick` run their parts side by side, and say what came of each."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

pytestmark = pytest.mark.slow

COMMAND = ROOT / "tests" / "support" / "side_by_side.py"
MAKEFILE = """\
good:
	@printf '......\\n..s [ 97%%]\\n\\n3 passed, 1 skipped in 2.50s\\n'
bad:
	@printf 'F. [100%%]\\nFAILED test_x\\n1 failed, 1 passed in 61.20s (0:01:01)\\n'; exit 3
failing:
	@printf 'F. [  1%%]\\nFAILED tests/a.py::test_x - it is wrong\\n'; while :; do sleep 0.02; done
stubborn:
	@trap '' TERM; while :; do sleep 0.02; done
first:
	@touch 1; while [ ! -e 2 ]; do sleep 0.02; done
second:
	@touch 2; while [ ! -e 1 ]; do sleep 0.02; done
"""


@pytest.fixture(autouse=True)
def _makefile(tmp_path: Path) -> None:
    """A Makefile of the test's own."""
    (tmp_path / "Makefile").write_text(MAKEFILE)


@pytest.fixture
def run(tmp_path: Path):
    """Run targets of the Makefile; what is shown, and the exit code."""

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


def test_a_failure_is_named_at_once_and_listed_at_a_signal(tmp_path) -> None:
    """SIGTERM ends the parts, also one that ignores it, without a traceback."""
    words = [sys.executable, COMMAND, "failing", "stubborn"]
    with subprocess.Popen(
        words, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert "failing: FAILED tests/a.py::test_x - it is wrong\n" in lines  # while both run
        process.terminate()
        rest = "".join(lines)
    assert rest == "\n== interrupted\nfailing: FAILED tests/a.py::test_x - it is wrong\n"
    assert process.returncode == 128 + signal.SIGTERM


def test_each_test_that_fails_is_named_at_once(tmp_path) -> None:
    """By the tests' conftest.py, with its reason, before the next one runs, also with workers."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (tmp_path / "test_two.py").write_text("def test_x():\n    assert 1 == 2\n\ndef test_y():\n    pass\n")
    support = [ROOT / "tests/support", *filter(Path.is_dir, (ROOT / "tests/support").iterdir())]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    places = os.pathsep.join(map(str, [ROOT, *support]))
    done = subprocess.run(
        [*words, "-n1", "--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    before, _, _ = done.stdout.partition("= FAILURES =")
    assert "FAILED test_two.py::test_x - assert 1 == 2" in before
