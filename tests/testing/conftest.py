"""Runs a test file in a pytest of its own, with the plugin."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from places import DATA


@pytest.fixture
def run(tmp_path):
    """Run a test file in a pytest with the plugin, and return its exit code and output."""

    def run_file(body, *words, config="", before="from pipeline import *\n", **more):
        shutil.copy(DATA / "plugin" / "pipeline.py", tmp_path)
        (tmp_path / "test_it.py").write_text(before + body)
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
        environ = os.environ | more
        if config:
            (tmp_path / "user.cfg").write_text(config)
            environ["LUIGI_CONFIG_PATH"] = str(tmp_path / "user.cfg")
        done = subprocess.run(
            [
                sys.executable, "-m", "pytest", "-q", "-p", "luigi_pai.testing", "-p", "no:cacheprovider",
                "-p", "no:randomly", "-n0", "-rs", *words,
            ],
            cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=150,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return run_file
