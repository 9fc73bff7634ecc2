"""Nothing is imported from the current folder: not a module of it runs, whatever its name."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from ports import refused_port

from luigi_pai.local import LocalPai

pytestmark = pytest.mark.slow

STRAY = """
import pathlib
with pathlib.Path({log!r}).open("a") as log:
    log.write(__name__ + "\\\\n")
"""
PIPELINE = """
import luigi

class Done(luigi.Task):
    def complete(self):
        return True
"""
COMMANDS = [
    ("local", "--", "true"),
    ("run", "elsewhere_pipeline", "Done", "--local-scheduler"),
    ("plan", "elsewhere_pipeline", "Done"),
    ("doctor",),
    ("list",),
    ("ls", "/"),
    ("sweep",),
    ("validate", "job.yaml"),
]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which each module of the current folder writes its name: every name that there is."""
    folder, log = tmp_path / "here", tmp_path / "log"
    folder.mkdir()
    for name in sys.stdlib_module_names | packages_distributions().keys():
        if name.isidentifier() and name not in sys.builtin_module_names:
            (folder / f"{name}.py").write_text(STRAY.format(log=str(log)))
    config = tmp_path / "luigi.cfg"  # without one, the commands ask whatever serves at the default port
    config.write_text(f"[OpenPai]\npai_url = http://127.0.0.1:{refused_port()}\nusername = a\npassword = b\n")
    monkeypatch.setenv("LUIGI_CONFIG_PATH", str(config))
    monkeypatch.chdir(folder)
    return log


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command(words, log, tmp_path):
    """As it is installed; a MODULE that is elsewhere is found on PYTHONPATH."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "elsewhere_pipeline.py").write_text(PIPELINE)
    (Path.cwd() / "job.yaml").write_text("protocolVersion: 2\n")
    done = subprocess.run(
        [Path(sys.executable).parent / "luigi-pai", *words],
        env={**os.environ, "PYTHONPATH": str(elsewhere)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert not log.exists(), log.read_text()
    assert "Traceback" not in done.stderr
    if words[0] in ("local", "run"):
        assert done.returncode == 0, done.stderr


def test_python_m(log):
    """The package removes the current folder from sys.path; Python itself has looked there before."""
    for file in Path.cwd().iterdir():
        if file.stem not in ("click", "luigi", "requests", "tornado", "urllib3", "yaml"):
            file.unlink()
    done = subprocess.run(
        [sys.executable, "-m", "luigi_pai", "clusters"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert not log.exists(), log.read_text()
    assert "cannot reach http://127.0.0.1" in done.stderr


def test_a_server_of_its_own(log):
    """It starts, with a folder full of strays below this process."""
    with LocalPai():
        assert not log.exists(), log.read_text()
