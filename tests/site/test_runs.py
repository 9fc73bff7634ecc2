"""The pages whose files and commands run from top to bottom, on an OpenPAI of this machine."""

from __future__ import annotations

import configparser
import contextlib
import os
import shutil
import subprocess
import sys

import pytest
from pages import blocks, file_name, run_page
from places import ROOT

from luigi_pai.local import LocalPai
from luigi_pai.testing.configuration import luigi_configured

TRAIN_YAML = """\
protocolVersion: 2
name: train
type: job
prerequisites:
  - {name: img, type: dockerimage}
taskRoles:
  worker:
    instances: 1
    dockerImage: img
    resourcePerInstance: {cpu: 1, memoryMB: 200, gpu: '1'}
    commands: ["true"]
"""
TESTS = """\
import subprocess
import sys
import time

import luigi
import pytest
from luigi_pai import PaiJobFailed, PaiJobForgotten
from pipeline import Report, Train
"""
ELSEWHERE = {
    "cluster.md": "package/test_packaging.py",
    "clusters.md": "tasks/options/test_clusters.py",
    "container.md": "runtime/test_page.py",
    "examples.md": "whole/test_examples.py",
    "failures.md": "tasks/options/test_failures_page.py",
    "notebook.md": "whole/test_notebook.py",
    "study.md": "sweep/test_study.py",
    "sweeps.md": "sweep/test_study.py",
}
"""Pages whose code other tests run, below tests/."""

NOT_RUN = {
    "command-line.md": "lines for a script and for the start of a shell, of jobs that are the reader's",
    "on-your-cluster.md": "needs a cluster of the reader's",
    "ssh.md": "needs a cluster whose containers run sshd",
    "tracking.md": "needs two packages; run by hand with mlflow-skinny 3.17.2 and tensorboardX 2.6.5",
}
"""Why the commands of a page are not run."""

PAGES = (
    "index.md",
    "get-started.md",
    "python.md",
    "functions.md",
    "tasks.md",
    "storages.md",
    "running-again.md",
    "files.md",
    "configuration.md",
    "protocol.md",
    "recipes.md",
    "coming-from.md",
    "coming-from-contrib.md",
    "reference/job-formats.md",
    "reliability.md",
    "reference/protocol-rules.md",
)

pytestmark = [pytest.mark.tree, pytest.mark.timeout(400), pytest.mark.slow]  # a process for each command


@pytest.fixture(scope="module")
def server():
    with LocalPai(password="admin-password") as running:
        yield running


@pytest.mark.parametrize("name", PAGES)
def test_the_page_runs_as_it_says(name, server, tmp_path):
    """Its pipelines, its commands, and what they print."""
    server.empty()
    config = configparser.RawConfigParser()
    config["OpenPai"] = server.luigi_section
    with (tmp_path / "server.cfg").open("w", encoding="utf-8") as file:
        config.write(file)
    page = ROOT / "docs" / name
    has_own = any(file_name(block) == "luigi.cfg" and "pai_url" in block.text for block in blocks(page))
    environment = {
        "HOME": str(tmp_path),
        "PAI_PASSWORD": server.password,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
    }
    if not has_own:
        environment["LUIGI_CONFIG_PATH"] = str(tmp_path / "server.cfg")
    folder = tmp_path / "pipeline"
    folder.mkdir()
    (folder / "train.yaml").write_text(TRAIN_YAML, encoding="utf-8")
    replaced = {
        "http://127.0.0.1:9186": server.url,
        "/home/anna/.local/share/luigi_pai/local": str(server.data),
        "/home/anna": str(tmp_path),
        "PYTHONPATH=. ": f"PYTHONPATH=.:{ROOT} ",
    }
    assert run_page(page, folder, environment, replaced) > 0


@pytest.mark.parametrize("name", ["hdfs.md", "local.md"])
def test_the_python_of_the_page_runs(name, server, tmp_path, monkeypatch):
    """Its blocks, one after the other."""
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(LocalPai(api="v1")) if name == "hdfs.md" else server
        running.empty()
        stack.enter_context(luigi_configured(running.luigi_section, tmp_path))
        monkeypatch.chdir(tmp_path)
        known: dict[str, object] = {}
        for block in python_of(name):
            exec(compile(block, name, "exec"), known)


def test_the_tests_of_the_page_on_testing_pass(tmp_path):
    """All in one module, with the pipeline that the page names."""
    shutil.copytree(ROOT / "examples/testing/code", tmp_path / "code")
    shutil.copy(ROOT / "examples/testing/pipeline.py", tmp_path)
    (tmp_path / "test_page.py").write_text("\n\n".join([TESTS, *python_of("testing.md")]), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "8 passed" in ran.stdout


def python_of(name):
    """Return the blocks of Python of a page; type checkers do not see those that are marked ``py``."""
    return [block.text for block in blocks(ROOT / "docs" / name) if block.language in ("python", "py")]


def test_each_page_with_code_runs_or_says_why_not():
    """Here, in another test, which names the page, or not at all, for a reason."""
    pages = {path.relative_to(ROOT / "docs").as_posix(): path for path in (ROOT / "docs").rglob("*.md")}
    with_code = {
        name
        for name, path in pages.items()
        if any(block.language in ("console", "python", "sh", "bash") for block in blocks(path))
    }
    here = {*PAGES, "hdfs.md", "local.md", "testing.md"}
    assert with_code - here - {*ELSEWHERE, *NOT_RUN} == set()
    for name, test in ELSEWHERE.items():
        assert name in (ROOT / "tests" / test).read_text(encoding="utf-8")
