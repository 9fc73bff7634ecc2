"""examples/python: a pipeline whose jobs are methods, in one file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT


@pytest.mark.slow
def test_it_fits_the_line(tmp_path: Path) -> None:
    """By the command in its docstring."""
    folder = shutil.copytree(ROOT / "examples" / "python", tmp_path / "python")
    (shown,) = [
        line for line in (folder / "fit_method.py").read_text().splitlines() if " local -- luigi" in line
    ]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    run = subprocess.run(
        ["bash", "-c", shown],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    best = json.loads((folder / "best.json").read_text())
    assert best["loss"] < 0.003
    assert best["slope"] == pytest.approx(3, abs=0.05)
