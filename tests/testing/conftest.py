"""Runs test files in a pytest of its own, with the plugin."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from places import DATA


@pytest.fixture(scope="module")
def run_files(tmp_path_factory):
    """Run files in a pytest with the plugin; return their folder, the exit code and the output."""

    def run(files, *words, **variables):
        folder = tmp_path_factory.mktemp("tests")
        shutil.copy(DATA / "plugin" / "pipeline.py", folder)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
        done = subprocess.run(
            [
                sys.executable, "-m", "pytest", "-q", "-p", "luigi_pai.testing", "-p", "no:cacheprovider",
                "-p", "no:randomly", "-n0", "-rs", *words,
            ],
            cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False, timeout=500,
        )  # fmt: skip
        return folder, done.returncode, done.stdout + done.stderr

    return run
