"""What a sweep says once: that results lack something; and why a point has failed."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from sweep_tasks import Reporting, Study, end_of, study, write_output

from luigi_pai import PaiSweepFailed, grid


@pytest.fixture(autouse=True)
def _logged(caplog):
    caplog.set_level("INFO", "luigi-interface")


class Programs(Study):
    """Three of them."""

    best = "max accuracy"

    def points(self):
        return grid(Reporting, batch=[1, 2, 3])


@pytest.mark.parametrize("tolerance", [0, 3])
def test_points_without_metrics_are_counted(pai, hdfs, caplog, tolerance):
    """Their values are those of the last reports; one has neither. Also where a point has failed."""
    pai.plan = lambda name: end_of(failing=["-4"], runs_for=int(name[-1]))(name)  # one after the other

    some = study("Some", Programs, tolerance=tolerance, points=lambda: grid(Reporting, batch=[1, 2, 3, 4]))
    write_output(hdfs, "train-0.1-1", "metrics.json", {"accuracy": 0.9})
    write_output(
        hdfs, "train-0.1-2", "_reports/main-0.jsonl", {"time": 1, "attempt": 1, "step": 1, "accuracy": 0.8}
    )
    with nullcontext() if tolerance else pytest.raises(PaiSweepFailed, match="1 of 4 points failed"):
        some.run()
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    written = "Some: 1 point has written no metrics.json; their last reports are used as results"
    missing = "Some: 1 point has no result; there is no metrics.json in "
    assert said.count(written) == 1
    assert sum(each.startswith(missing) for each in said) == 1
    assert "no point has accuracy" not in caplog.text
    assert [row["accuracy"] for row in some.output().rows()] == [0.9, 0.8, None, None]


def test_a_column_of_best_that_no_point_has(pai, hdfs, caplog):
    """The nearest one is named."""
    for number in (1, 2, 3):
        write_output(hdfs, f"train-0.1-{number}", "metrics.json", {"accuracy": number / 10, "step": 3})
    study("Programs", Programs, best="max acuracy").run()
    assert pai.submissions == 3
    told = "Programs: best = 'max acuracy': no point has acuracy (did you mean 'accuracy'?)"
    assert caplog.text.count(told) == 1


END = "[main]: FailedTaskCount 1 has reached MinFailedTaskCount 1."
LAUNCHER = f"""[ExitStatus]: LAUNCHER_EXIT_STATUS_UNDEFINED
[ExitCode]: 177
{"_" * 100}
[ApplicationCompletionReason]: {END}
ContainerCacheNetworkPath: \\\\node3\\cache
"""
"""As the launcher of 0.7 ends a job: the rule, then where the container's files are."""
DIAGNOSTICS = {
    LAUNCHER: f": {END}",
    f"{END}\n  the last lines of its log:\n  IndexError: 7": "IndexError: 7",
    f'{END}\n[TaskStatus]:\n{{\n  "taskIndex": 0\n}}': "exit code 3 (NON_TRANSIENT)",
}


@pytest.mark.parametrize("text", DIAGNOSTICS)
def test_a_point_that_has_failed_on_v1_says_why(pai, settings, text):
    """In a line: the last one of what the server says, if it is of the program."""
    settings(api_version="v1")
    pai.plan = end_of(failing=["0.1-16"], diagnostics=text)
    study("One", rates=(0.1,), batches=(16,), tolerance=1).run()
    (row,) = Study().output().rows()
    assert row["error"].endswith(DIAGNOSTICS[text])


HAS = {"GPUs": 8, "vCores": 64, "memory": 900}
FULL = {"default": {"resourcesTotal": HAS, "resourcesUsed": {"memory": 850}}}


@pytest.mark.parametrize(("release", "api_version"), [("0.7.1", "v1"), ("1.8.0", "v2")])
def test_a_sweep_that_waits_says_why_once(pai, settings, caplog, release, api_version):
    """While no job runs; what the cluster says is shown without what acts on a terminal."""
    pai.release, pai.virtual_clusters = release, FULL
    pai.plan = {"waits_for": 120.0, "runs_for": 1.0}
    pai.events = [{"type": "Warning", "message": "0/3 nodes\x1b[2J are available"}]
    settings(api_version=api_version, poll_min=1, poll_max=10)
    study("One", rates=(0.1,), batches=(16,)).run()
    reasons = [text for text in caplog.messages if " waits: " in text]
    assert len(reasons) == 1
    assert "virtual cluster default has 50 of 900 MB of memory free, the job wants 100" in reasons[0]
    assert reasons[0].endswith("; the cluster says: 0/3 nodes are available") is (api_version == "v2")
