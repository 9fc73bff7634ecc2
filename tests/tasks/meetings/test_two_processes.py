"""Two processes with one task: what each of them does to the claims and the completion flag of the other."""

from __future__ import annotations

import pytest
from other_process import run_elsewhere
from pipelines import new_process
from train_task import Train

from luigi_pai import PaiHttpError, PaiJobFailed, ServerFault

pytestmark = pytest.mark.slow

OTHER = """
import sys
from train_task import Train, build
sys.exit(not build(Train()))
"""


@pytest.mark.usefixtures("real_time")
def test_a_late_failure_leaves_the_flag_of_a_later_success(pai, hdfs, tmp_path):
    """This process hears of the failure when the next submission, of another process, has succeeded."""
    ended = []

    def other() -> None:
        pai.plan = {}
        ended.append(run_elsewhere(tmp_path, OTHER))

    pai.plan = {"ends_as": "FAILED", "exit_code": 1}
    pai.fail("GET", "/jobs/train$", "held", when=lambda _: "train" in pai.jobs, until=other)
    with pytest.raises(PaiJobFailed):
        Train().run()
    assert [code for code, _ in ended] == [0], ended
    assert pai.posts() == ["train", "train__attempt2"]
    assert (hdfs / "train" / "output" / "_SUCCESS").exists()
    pai.jobs.clear()
    new_process()
    assert Train().complete()


def test_a_submission_removes_the_flag_of_an_earlier_one(pai, hdfs):
    """A command may write it, as Spark does, after its failure was recorded."""
    output = hdfs / "train" / "output"
    flags = []

    def plan(_name):
        flags.append((output / "_SUCCESS").exists())
        return {"ends_as": "FAILED", "exit_code": 1}

    pai.plan = plan
    for text in ("", "train\n"):
        with pytest.raises(PaiJobFailed):
            Train().run()
        (output / "_SUCCESS").write_text(text)
        new_process()
    with pytest.raises(PaiJobFailed):
        Train().run()
    assert flags == [False] * 3
    assert pai.posts() == ["train", "train__attempt2", "train__attempt3"]


def test_a_refused_submission_keeps_the_claim_of_another_process(pai, hdfs, settings):
    """The submission of the other one may still be on its way."""
    settings(poll_patience=0.2)
    pai.fail("POST", "/jobs$", 503, times=99)
    pai.fail("GET", "/jobs/train$", 503, times=99, when=lambda _: pai.submissions > 0)
    with pytest.raises(ServerFault, match="job train may have been submitted"):
        Train().run()
    (claim,) = hdfs.glob("train/output/_luigi_pai/train.1.json")
    before = claim.read_text()
    new_process()
    pai.heal()
    pai.fail("POST", "/jobs$", 400, times=99, body={"code": "InvalidParametersError", "message": "no"})
    with pytest.raises(PaiHttpError, match="job 'train' was not submitted"):
        Train().run()
    assert claim.read_text() == before
