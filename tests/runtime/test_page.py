"""docs/container.md: its table is that of the code, and its snippets run on both APIs."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from container_environments import Role, v1, v2
from places import ROOT

from luigi_pai.jobspec.containers import RUNTIME_FILE
from luigi_pai.runtime import VARIABLES

PAGE = (ROOT / "docs" / "container.md").read_text()
PORTS = [{"http": [1001], "ssh": [1002]}, {"http": [1011], "ssh": [1012]}]
ROLES = [Role("My_Worker", ["10.0.0.2", "10.0.0.3"], PORTS)]


def run(program, snippet, environ, **options):
    """Return what a snippet of the page prints."""
    command = [*program, snippet]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True, **options).stdout


def cell(names):
    return "<br>".join(f"`{name}`" for name in names) or "-"


def test_the_table_has_every_variable():
    table = PAGE.partition("\n|---|---|---|\n")[2].partition("\n\n")[0].splitlines()
    assert table == [
        f"| {row.meaning} | {cell(row.v1)} | {'the same' if row.v1 == row.v2 else cell(row.v2)} |"
        for row in VARIABLES.values()
    ]


@pytest.mark.parametrize("environment", [v1, v2])
@pytest.mark.parametrize("language", ["bash", "python"])
def test_the_snippets_say_the_same_on_both(environment, language):
    snippet = re.search(rf"## In bash.*?```{language}\n(.*?)```", PAGE, re.DOTALL)[1]
    program = [sys.executable, "-c"] if language == "python" else ["bash", "-euc"]
    environ = {"PATH": os.environ["PATH"], **environment(ROLES, "My_Worker", 1)}
    said = run(program, snippet, environ)
    assert said == "train: My_Worker 1 of 2, the first is at 10.0.0.2, port 1001\n"


def test_the_first_snippet_runs(tmp_path):
    (tmp_path / "pai_runtime.py").write_bytes(RUNTIME_FILE.read_bytes())
    snippet = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    said = run([sys.executable, "-c"], snippet, v2(ROLES, "My_Worker", 1), cwd=tmp_path)
    assert said.splitlines() == [
        "train 1", "My_Worker 1 2", "1 2", "My_Worker[0] 10.0.0.2:1001", "My_Worker[1] 10.0.0.3:1011",
    ]  # fmt: skip
