"""Two processes with one sweep, or with sweeps that share points: what one does while the other waits."""

from __future__ import annotations

import copy

import pytest
import sweep_tasks
from fault_server import Reply
from faulty_hdfs import FaultyHdfs
from other_process import run_elsewhere
from pipelines import new_process
from sweep_tasks import Proposing, Study, end_of, states, study

from luigi_pai import PaiSweepFailed
from luigi_pai.jobspec.arrays.jobs import jobs_in
from luigi_pai.jobspec.names import base_name

OTHER = """
import sys, luigi, sweep_tasks
sweep_tasks.Proposing.first = 20
sys.exit(not luigi.build([sweep_tasks.{sweep}], local_scheduler=True))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("real_time")
def test_a_failure_that_another_process_has_seen_is_an_attempt_of_both(pai, tmp_path):
    """This process has read the journal before the other one submitted the point."""
    ended = []
    pai.plan = end_of(failing=["train-0.1-16"])
    pai.fail(
        "GET",
        "/jobs",
        "held",
        until=lambda: ended.append(run_elsewhere(tmp_path, OTHER.format(sweep="Study(tolerance=1)"))),
    )
    Study(tolerance=1).run()
    assert [code for code, _ in ended] == [0], ended
    assert states(Study()) == ["FAILED"] + ["SUCCEEDED"] * 5
    assert sorted(pai.posts()) == sorted(point.name for point in Study().points())


@pytest.mark.slow
@pytest.mark.usefixtures("real_time")
def test_a_search_that_another_process_has_taken_over_submits_nothing_more(
    pai, settings, tmp_path, monkeypatch
):
    """The other one has read the journal before this one has written what it proposes."""
    (tmp_path / "hdfs").mkdir()
    hdfs = FaultyHdfs(tmp_path / "hdfs")
    settings(webhdfs_url=hdfs.url, fs_uri=hdfs.url.replace("http", "hdfs"))
    monkeypatch.setattr(sweep_tasks, "proposed", [])
    ended = []
    hdfs.fail(
        "PUT|POST",
        "/journal",
        "held",
        when=lambda _: bool(sweep_tasks.proposed),
        until=lambda: ended.append(run_elsewhere(tmp_path, OTHER.format(sweep="Proposing()"))),
    )
    try:
        with pytest.raises(PaiSweepFailed, match="another process has started this search"):
            Proposing().run()
    finally:
        hdfs.close()
    assert [code for code, _ in ended] == [0], ended
    assert pai.posts() == ["train-0.1-20", "train-0.1-21"]


def test_a_name_that_another_job_got_while_a_response_was_lost(pai, settings, monkeypatch):
    """The job of that name has some of the points only; the others run in another job, each once."""
    pai.release = "1.8.0"
    pai.plan = {"task_codes": {}}
    settings(api_version="v2")

    class Packed(Study):
        rates, batches, points_per_job = (1, 2, 3, 4), (16,), 4

    sweep = study("Half", Packed, own_name="Half", results_dir="others", rates=(1, 2))
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", "elsewhere")
        sweep.run()
    (half,) = pai.jobs.values()
    pai.jobs.clear()
    new_process()
    submit = pai._submit

    def overtaken(name, _config, done):
        monkeypatch.setattr(pai, "_submit", submit)
        submit(name, {**copy.deepcopy(half.config), "name": name}, done)
        return Reply(503, "upstream has failed")

    monkeypatch.setattr(pai, "_submit", overtaken)
    Packed().run()
    names = [point.name for point in Packed().points()]
    ran = [[base_name(name) for name in jobs_in(job.config)] for job in pai.jobs.values()]
    assert ran == [names[:2], names[2:]]
    assert states(Packed()) == ["SUCCEEDED"] * 4
