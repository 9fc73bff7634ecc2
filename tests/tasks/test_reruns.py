"""A run after a failure: what comes after the task is run in the same run, though other forks look it up."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest
from luigi_process import environment, write_config
from luigid import Luigid

pytestmark = pytest.mark.slow

PIPELINE = """
import sys
import luigi
from luigi_pai import PaiTask, TaskRole

folder, name = sys.argv[1:3]

class First(PaiTask):
    name, image = name, "x"
    tasks = [TaskRole("main", f"echo $PAI_JOB_NAME >> {folder}/ran; ! test -e {folder}/fail", memoryMB=100)]

class Down(luigi.Task):
    def requires(self):
        return First()

    def output(self):
        return luigi.LocalTarget(f"{folder}/down")

    def run(self):
        with self.output().open("w"):
            pass

where = {"scheduler_url": sys.argv[3]} if len(sys.argv) > 3 else {"local_scheduler": True}
sys.exit(0 if luigi.build([Down()], workers=3, no_lock=True, log_level="INFO", **where) else 30)
"""


@pytest.mark.parametrize(("server", "with_luigid"), [("v1", True), ("ltp", False)])
def test_what_comes_after_a_rerun_is_run_in_the_same_run(request, tmp_path, server, with_luigid):
    """Luigi asks in another fork whether the task is complete, and may have asked that one before."""
    local_pai = request.getfixturevalue(f"local_pai_{server}")
    worker = {"wait_interval": "0.2", "ping_interval": "0.5"}
    config = write_config(tmp_path, {**local_pai.luigi_section, "poll_max": "0.3"}, worker=worker)
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    name = f"rerun-{server}"
    with contextlib.ExitStack() as stack:
        words = [str(tmp_path), name]
        if with_luigid:
            (tmp_path / "luigid").mkdir()
            words.append(stack.enter_context(Luigid(tmp_path / "luigid")).url)

        def run() -> tuple[int, str]:
            done = subprocess.run(
                [sys.executable, "pipeline.py", *words],
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
