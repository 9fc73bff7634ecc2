"""examples/first: the pipeline that README shows; and how long examples may be."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

EXAMPLES = ROOT / "examples"
SHOWS_ALL = EXAMPLES / "digits" / "digits.py"


@pytest.mark.slow
def test_it_trains_once_and_picks_the_best(tmp_path: Path) -> None:
    """A second run has nothing to do; without the result, it reads those of the jobs."""
    folder = shutil.copytree(EXAMPLES / "first", tmp_path / "first")
    (shown,) = [
        line.strip() for line in (folder / "rates.py").read_text().splitlines() if "local -- " in line
    ]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", shown.replace("local --", "local --data pai --")],
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    first = run()
    assert first.returncode == 0, first.stderr
    assert first.stderr.count("Submitted job rates-") == 3
    assert json.loads((folder / "best.json").read_text()) == {"rate": 0.01, "accuracy": 0.99}
    (folder / "best.json").unlink()
    again = run()
    assert "Submitted" not in again.stderr
    assert json.loads((folder / "best.json").read_text())["rate"] == 0.01


@pytest.mark.tree
def test_the_readme_shows_it() -> None:
    """Word for word, from the imports on; its docstring is prose there."""
    code = (EXAMPLES / "first" / "rates.py").read_text().split('"""\n\n', 1)[1]
    assert f"```python\n{code}```" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.name)
def test_an_example_is_read_at_one_sitting(path: Path) -> None:
    """Fewer than 100 lines; one shows all."""
    lines = len(path.read_text().splitlines())
    assert lines < 100 or path == SHOWS_ALL
    assert lines < 200
