"""`make demo`: the example pipeline runs, resumes, fails loudly; set-up says what it lacks."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hdfs_backend import NEEDS_REAL_HDFS
from places import ROOT

from luigi_pai.files import WebHdfs

BIN = Path(sys.executable).parent

pytestmark = pytest.mark.tree


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Run the pipeline as the Makefile does, each time on the same data."""
    for library in ("sklearn", "matplotlib"):
        pytest.importorskip(library)
    folder = tmp_path_factory.mktemp("demo-run")

    def run(models, rows, *options, api="v1"):
        command = [BIN / "luigi-pai", "local", "--api", api, "--data", folder / f"pai-{api}", *options, "--"]
        command += [BIN / "luigi", "--module", "digits", "Digits", "--models", models, "--rows", str(rows)]
        command += ["--folder", folder / f"report-{api}", "--workers", "3", "--local-scheduler"]
        env = {**os.environ, "PYTHONPATH": ".", "DEMO_API": api}
        env.pop("LUIGI_CONFIG_PATH", None)
        return subprocess.run(
            command,
            cwd=ROOT / "examples" / "digits",
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    run.folder = folder
    return run


@pytest.mark.slow
def test_the_demo_runs_and_then_resumes(demo):
    """Two jobs and a report; again: nothing; one model more: one job more."""
    first = demo("nearest,svm", 200)
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout.count("Submitted job") == 2
    assert "Job digits-svm-200: SUCCEEDED" in first.stdout
    assert "Done: 2 jobs ran.\n" in first.stdout
    report = demo.folder / "report-v1" / "nearest-svm-200" / "report.html"
    assert f"Report: {report}\n" in first.stdout
    assert "<code>digits-nearest-200</code>" in report.read_text()
    for picture in ("confusion.png", "misread.png"):
        assert (report.parent / picture).read_bytes().startswith(b"\x89PNG")
        assert f'src="{picture}"' in report.read_text()

    again = demo("nearest,svm", 200)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "Submitted" not in again.stdout
    assert re.search(r"\n  make demo +again: it submits nothing\n", again.stdout)
    assert "Nothing to do: all 2 jobs already succeeded, nothing was submitted." in again.stdout
    assert again.stdout.index("Nothing to run: ") < again.stdout.index("Nothing to do: ")

    more = demo("nearest,svm,forest", 200)
    assert more.returncode == 0, more.stdout + more.stderr
    assert more.stdout.count("Submitted job") == 1
    assert "Done: 1 job ran; 2 had succeeded before.\n" in more.stdout


@pytest.mark.slow
@pytest.mark.parametrize("api", ["v2", "ltp"])
def test_the_demo_runs_on_later_releases(demo, api):
    """Its jobs are those of v1, and its tasks the same."""
    run = demo("nearest", 200, api=api)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("Submitted job") == 1
    assert "Done: 1 job ran.\n" in run.stdout
    assert f"\n  make demo API={api} " in run.stdout
    assert f"luigi-pai local --api {api} --data demo-run/{api}/pai" in run.stdout
    storage = demo.folder / f"pai-{api}" / "storages" / "nfs1"
    assert (storage / "digits-nearest-200" / "output" / "metrics.json").is_file()


@pytest.mark.slow
@NEEDS_REAL_HDFS
def test_the_demo_on_a_real_hdfs(demo):
    """With --hdfs, data, code, results and flags lie on a real HDFS, and what to try next names it."""
    url, user = os.environ["HDFS_TEST_URL"], os.environ.get("HDFS_TEST_USER") or getpass.getuser()
    fs = WebHdfs(url, user)
    folders = ["/digits", "/digits-nearest-300"]
    for folder in folders:
        if fs.exists(folder):
            fs.remove(folder)
    try:
        run = demo("nearest", 300, "--hdfs", url, "--user", user)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "Done: 1 job ran.\n" in run.stdout
        assert f"  make demo HDFS={url} HDFS_USER={user} MODELS=" in run.stdout
        found = {path for folder in folders for path in fs.listdir(folder, recursive=True)}
        assert found >= {
            "/digits/code/train.py",
            "/digits/data/digits.csv",
            "/digits-nearest-300/output/_SUCCESS",
            "/digits-nearest-300/output/metrics.json",
        }
    finally:
        for folder in folders:
            if fs.exists(folder):
                fs.remove(folder)


@pytest.mark.slow
def test_a_job_that_fails_fails_the_demo(demo):
    """The exit code is Luigi's for a failed task, and the job's last words are shown, not a traceback."""
    run = demo("svm", 0)
    assert run.returncode == 30
    assert "job 'digits-svm-0' ended as FAILED with exit code 2" in run.stdout
    assert "train.py: error: --rows 0" in run.stdout
    assert "Traceback" not in run.stdout


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ("exit 1", "No Python 3.10 to 3.13 among: {python}.\n"),
        ('case "$2" in *ensurepip*) exit 1;; esac', "{python} cannot make virtual environments"),
    ],
    ids=["too old", "no ensurepip"],
)
def test_setup_says_what_it_lacks(python, message, tmp_path):
    """Neither a traceback nor a half-made environment."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    fake = tmp_path / "python3"
    fake.write_text(f"#!/bin/sh\n{python}\n")
    fake.chmod(0o755)
    run = subprocess.run(
        ["make", "demo", f"PYTHON={fake}"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 2
    assert message.format(python=fake) in run.stderr
    assert not (tmp_path / ".venv").exists()
