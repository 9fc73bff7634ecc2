"""Each seeded bug is found: the checker is no rubber stamp, and each safeguard is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from chaos.checker import LOST, TWICE, WRONG
from chaos.dice import ROUNDS
from chaos.hidden_bugs import HIDDEN_BUGS
from chaos.nemeses import KILLS, RACES
from chaos.rounds import Round
from chaos.seeded_bugs import BUGS
from places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_MOST = 40  # rounds; two processes must meet in one of them
SIGNS = {
    "claims-without-exclusiveness": ("overlapping-arrays", "two-at-once", {TWICE}),
    "no-lookup-after-a-lost-reply": ("chain", "lost-replies", {WRONG}),
    "claims-after-the-post": ("overlapping-arrays", "two-at-once", {TWICE}),
    "no-replay-of-a-search": ("search", "kill-at-request", {TWICE, LOST}),
}


def test_each_bug_has_its_signs():
    assert set(SIGNS) == set(BUGS)


@pytest.mark.parametrize("bug", SIGNS)
def test_a_seeded_bug_is_found(play_round, bug):
    """Within some rounds; the same rounds without it find nothing, see test_kills.py and test_races.py."""
    workload, nemesis, verdicts = SIGNS[bug]
    one = Round(0, workload, "v2", "hdfs", nemesis=nemesis, bug=bug)
    harm = {**KILLS, **RACES}[nemesis]
    for seed in range(_MOST):
        found = {finding.verdict for finding in play_round(replace(one, seed=seed), harm).findings}
        if found & verdicts:
            return
    pytest.fail(f"{_MOST} rounds have not found it")


@pytest.mark.tree
@pytest.mark.parametrize("name", HIDDEN_BUGS)
def test_a_hidden_bug_has_its_place_and_its_tests(name):
    """So that the list stays true while code and tests change."""
    bug = HIDDEN_BUGS[name]
    assert (ROOT / "luigi_pai" / bug.file).read_text().count(bug.text) == 1
    file, _, test = bug.test.partition("::")
    assert f"def {test}(" in (ROOT / file).read_text()


@pytest.mark.tree
@pytest.mark.parametrize("name", HIDDEN_BUGS if ROUNDS > 1 else [*HIDDEN_BUGS][:1])
def test_a_hidden_bug_is_found(name, tmp_path):
    """By the test that the list names: it fails on a copy of the package that has the bug."""
    bug, tree = HIDDEN_BUGS[name], tmp_path / "tree"
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "demo-run", "__pycache__")
    shutil.copytree(ROOT, tree, ignore=unwanted)
    module = tree / "luigi_pai" / bug.file
    module.write_text(module.read_text().replace(bug.text, bug.by))
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", bug.test]
    about = {**os.environ, "PYTHONPATH": str(tree)}
    ran = subprocess.run(command, cwd=tree, env=about, capture_output=True, text=True, check=False)
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout[-3000:] + ran.stderr[-1000:]
    assert "SyntaxError" not in ran.stdout
