"""luigi-pai in this process, against the local OpenPAI in either dialect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from inspect import signature
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from luigi.task_register import Register

from luigi_pai.api.cluster import Cluster
from luigi_pai.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    from luigi_pai.local import LocalPai

PROTOCOL = """\
protocolVersion: 2
name: {name}
type: job
prerequisites:
  - {{name: img, type: dockerimage, uri: "python:3"}}
parameters: {{word: hello}}
taskRoles:
  worker:
    instances: {instances}
    dockerImage: img
    resourcePerInstance: {{cpu: 1, memoryMB: 200, gpu: {gpu}}}
    commands: [{command}]
"""


@pytest.fixture(params=["v1", "v2"])
def dialect(request: pytest.FixtureRequest, as_settings, settings: Callable[..., None]) -> str:
    """Each dialect in turn, of a local OpenPAI that speaks it, as [OpenPai] of luigi.cfg."""
    as_settings(request.getfixturevalue(f"local_pai_{request.param}"))
    settings(api_version=request.param)
    return str(request.param)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, as_settings) -> LocalPai:
    """The local OpenPAI of the dialect; 0.7.1 where a test has none."""
    if "dialect" in request.fixturenames:
        return request.getfixturevalue(f"local_pai_{request.getfixturevalue('dialect')}")
    server: LocalPai = request.getfixturevalue("local_pai_v1")
    as_settings(server)
    return server


@pytest.fixture
def here(cluster, dialect: str) -> Cluster:
    """The same cluster, as the tests look at it."""
    return Cluster(cluster.url, cluster.username, password=cluster.password, api_version=dialect)


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"cli-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def protocol_file(tmp_path: Path) -> Callable[..., str]:
    """Write a job protocol, and return its path."""

    def write(name: str, command: str = "true", *, instances: int = 1, gpu: int = 0) -> str:
        path = tmp_path / f"{name}.yaml"
        text = PROTOCOL.format(name=name, command=json.dumps(command), instances=instances, gpu=gpu)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def job_file(tmp_path: Path, dialect: str, protocol_file: Callable[..., str]) -> Callable[..., str]:
    """Write a job file in the dialect's format, and return its path."""
    if dialect == "v2":
        return protocol_file

    def write(name: str, command: str = "true", *, instances: int = 1, gpu: int = 0) -> str:
        path = tmp_path / f"{name}.json"
        role = {
            "name": "worker",
            "taskNumber": instances,
            "cpuNumber": 1,
            "memoryMB": 200,
            "gpuNumber": gpu,
            "command": command,
        }
        path.write_text(
            json.dumps({"jobName": name, "image": "python:3", "taskRoles": [role]}), encoding="utf-8"
        )
        return str(path)

    return write


@pytest.fixture
def with_luigi_cfg(cluster, dialect: str, tmp_path: Path) -> Path:
    """A folder with a luigi.cfg, for luigi-pai in a process of its own."""
    keys = {**cluster.luigi_section, "api_version": dialect, "poll_min": "0.05", "poll_max": "0.5"}
    lines = "".join(f"{key} = {value}\n" for key, value in keys.items())
    (tmp_path / "luigi.cfg").write_text(f"[OpenPai]\n{lines}", encoding="utf-8")
    return tmp_path


@pytest.fixture
def here_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, whose modules luigi-pai imports; they and their tasks are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = [task for task in Register._reg if task.__module__.startswith("luigi")]  # no other test's
    monkeypatch.setattr(Register, "_reg", known)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def pai_command() -> Callable[..., Result]:
    """Run luigi-pai and check its exit code."""

    def run(*words: str, expect: int = 0, stdin: str | None = None) -> Result:
        mixes = "mix_stderr" in signature(CliRunner).parameters  # up to click 8.1
        apart = {"mix_stderr": False} if mixes else {}
        result = CliRunner(**apart).invoke(main, list(words), input=stdin, catch_exceptions=False)
        assert result.exit_code == expect, result.output
        return result

    return run


@pytest.fixture
def as_process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run luigi-pai in a process, in a folder with a luigi.cfg, and check its exit code."""

    def run(*words: object, expect: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "luigi_pai", *map(str, words)],
            cwd=tmp_path,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        return done

    return run
