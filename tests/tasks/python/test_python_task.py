"""A Python method as a job: on every API, with HDFS and without, in an image that has Python alone."""

from __future__ import annotations

import pytest
from python_clusters import label, on
from python_tasks import Broken, Long, Many, Meeting, Rich, Square

from luigi_pai import OpenPai, PaiJobFailed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("any_cluster")]

on_two = on(("v1", True), ("v2", False))
"""On these, where the clusters differ in nothing that the test is about."""


def test_a_method_runs_in_an_image_that_has_python_alone(any_cluster, run_id, caplog):
    """Its result is that of the task, and metrics.json where there is an HDFS."""
    task = Square(run_id=run_id)
    task.run()
    assert "another definition" not in caplog.text  # the server's copy is compared with what was posted
    assert task.complete()
    assert task.result() == {"square": 49, "luigi": False, "requests": False}
    if any_cluster.api == "v1":  # 0.9 to 0.14 replaces line breaks by the letter n
        assert "\n" not in OpenPai().cluster().job(task.name).config()["taskRoles"][0]["command"]
    if any_cluster.has_hdfs:
        with (task.output() / "metrics.json").open() as file:
            assert '"square": 49' in file.read()
    elif any_cluster.api == "v2":
        assert "metrics.json" not in OpenPai().cluster().job(task.name).logs("main")["all"]


@on_two
def test_what_the_class_has_of_its_own_travels(run_id):
    """Mixins with super(), properties, static and class methods, enums, classes and functions beside it."""
    task = Rich(run_id=run_id)
    task.run()
    assert task.result() == {
        "count": 11,
        "half": 0.25,
        "many": [0, 3, 6],
        "fixed": 25,
        "doubled": 1.0,
        "net": 6,
        "tables": [6, -2],
        "kind": "LARGE",
        "sizes": {"a": [1, 2]},
        "day": "2026-01-02",
        "memory": 100,
        "name": task.name,
        "job": task.name,
    }


@on_two
def test_a_failure_shows_the_traceback_of_the_user(run_id):
    """With the lines of the source, and without frames of this package."""
    task = Broken(run_id=run_id)
    with pytest.raises(PaiJobFailed) as caught:
        task.run()
    text = str(caught.value)
    assert "Traceback (most recent call last)" in text
    assert "in work\n        return self.middle()" in text.replace("          ", "        ")
    assert "in lookup" in text
    assert caught.value.last_line == f"KeyError: 'no {run_id}'"
    assert "luigi_pai-" not in text.partition("job page")[0]
    assert "in _run" not in text


@on(("v1", True), ("v2", False), ("ltp", True))
def test_a_second_submission_goes_on_from_the_checkpoint(any_cluster, run_id, tmp_path):
    """In the output folder, on HDFS or a mount."""
    task = Long(run_id=run_id, folder="" if any_cluster.has_hdfs else str(tmp_path / "mount"))
    with pytest.raises(PaiJobFailed, match="the machine goes down"):
        task.run()
    task.run()
    assert task.result() == {"from": 5, "attempt": 2}


@on(("v1", True), ("ltp", False))
def test_instances_meet(run_id):
    """The result is that of the first."""
    task = Meeting(run_id=run_id)
    task.run()
    assert task.result() == {"heard": "I am 1\n", "world": 2}


@pytest.mark.parametrize(
    ("any_cluster", "per_job"),
    [(("v1", True), 1), (("v2", True), 3), (("ltp", False), 3)],
    indirect=["any_cluster"],
    ids=lambda each: str(each) if isinstance(each, int) else label(each),
)
def test_a_sweep_has_the_result_of_each_point(run_id, per_job):
    """Four points, each a job or three in one."""
    sweep = Many(run_id=run_id, count=4, points_per_job=per_job)
    sweep.run()
    rows = sweep.output().rows()
    assert [row["square"] for row in rows] == [number**2 for number in range(sweep.count)]
    assert len({row["job"] for row in rows}) == -(-sweep.count // per_job)
