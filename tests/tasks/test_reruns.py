"""A run after a failure: what comes after the task is run in the same run, though other forks look it up."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest
from luigi_process import environment, write_config
from luigid import Luigid
from places import PROGRAMS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("server", "with_luigid"), [("v1", True), ("ltp", False)])
def test_what_comes_after_a_rerun_is_run_in_the_same_run(request, tmp_path, server, with_luigid):
    """Luigi asks in another fork whether the task is complete, and may have asked that one before."""
    local_pai = request.getfixturevalue(f"local_pai_{server}")
    worker = {"wait_interval": "0.2", "ping_interval": "0.5"}
    config = write_config(tmp_path, {**local_pai.luigi_section, "poll_max": "0.3"}, worker=worker)
    name = f"rerun-{server}"
    with contextlib.ExitStack() as stack:
        words = [str(tmp_path), name]
        if with_luigid:
            (tmp_path / "luigid").mkdir()
            words.append(stack.enter_context(Luigid(tmp_path / "luigid")).url)

        def run() -> tuple[int, str]:
            done = subprocess.run(
                [sys.executable, PROGRAMS / "rerun_pipeline.py", *words],
                cwd=tmp_path,
                env=environment(config),
                capture_output=True,
                text=True,
                check=False,
                timeout=150,
            )
            return done.returncode, done.stderr

        (tmp_path / "fail").touch()
        code, log = run()
        assert code == 30, log
        (tmp_path / "fail").unlink()
        code, log = run()
        assert code == 0, log
    assert (tmp_path / "ran").read_text().split() == [name, f"{name}__attempt2"]
    assert (tmp_path / "down").exists()
