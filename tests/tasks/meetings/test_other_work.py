"""Other work in the output folder of a job, or under its name: an error that names both."""

from __future__ import annotations

import importlib.util
import sys

import luigi
import pytest
from pipelines import new_process
from sweep_tasks import Study
from sweep_tasks import Train as Point
from train_task import Train, build

from luigi_pai import PaiError, SpecError, grid

FOLDER = "$PAI_DEFAULT_FS_URI/shared"
FIT = """
from luigi_pai import PaiPythonTask

class Fit(PaiPythonTask):
    image = "python:3"

    def work(self):
        return {"project": PROJECT}
"""


class Shared(Train):
    """Its output folder is a class constant."""

    output_dir = FOLDER


def completed(task):
    """Run a task if it is not complete, as Luigi does; raise its error."""
    if not task.complete():
        task.run()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Results and claims go to folders of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(params=["hdfs", "no hdfs"])
def place(request, pai, settings):
    """A cluster of 0.7.1 with HDFS, or one of 1.8.0 without."""
    if request.param == "hdfs":
        request.getfixturevalue("hdfs")
    else:
        pai.release = "1.8.0"
        settings(api_version="v2")
    return request.param


# ---------------------------------------------------------------- one output folder


@pytest.mark.usefixtures("place")
def test_two_tasks_of_a_run_with_one_output_folder_are_an_error(pai):
    """The second one would overwrite what the first one has written."""
    errors = []

    class Overwriting(Shared):
        """Its handlers are its own."""

    for event in (luigi.Event.BROKEN_TASK, luigi.Event.FAILURE):
        Overwriting.event_handler(event)(lambda _task, error: errors.append(str(error)))
    assert not build(Overwriting(name="first-work"), Overwriting(name="second-work"))
    assert pai.submissions == 0
    assert errors
    assert all(FOLDER in error and "first-work" in error and "second-work" in error for error in errors)


@pytest.mark.usefixtures("place")
def test_two_points_with_one_output_folder_are_an_error(pai):
    class Overwritten(Point):
        output_dir = FOLDER

    class Constant(Study):
        def points(self):
            return [*grid(Point, rate=[0.1, 0.2]), *grid(Overwritten, rate=[0.3, 0.4])]

    with pytest.raises(SpecError) as caught:
        Constant().run()
    (line,) = [line for line in str(caught.value).splitlines() if "output_dir" in line]
    assert all(part in line for part in (FOLDER, "rate=0.3, batch=16", "rate=0.4, batch=16"))
    assert pai.answers == []


def test_a_task_with_the_output_folder_of_an_earlier_one_is_an_error(pai, hdfs):
    """What the earlier one has written stays, and it stays complete."""
    first, second = Shared(name="first-work"), Shared(name="second-work")
    assert build(first)
    before = sorted(str(path) for path in hdfs.rglob("*"))
    new_process()
    with pytest.raises(PaiError) as caught:
        completed(second)
    assert all(part in str(caught.value) for part in (FOLDER, "first-work", "second-work"))
    assert pai.posts() == ["first-work"]
    assert sorted(str(path) for path in hdfs.rglob("*")) == before
    new_process()
    assert first.complete()


def test_a_point_with_the_output_folder_of_earlier_work_fails_alone(pai, hdfs):
    """Its row names both."""
    assert build(Shared(name="first-work"))
    assert hdfs.exists()
    new_process()

    class Overwriting(Point):
        output_dir = FOLDER

    class Late(Study):
        tolerance = 1

        def points(self):
            return [Point(rate=0.1), Overwriting(rate=0.2)]

    Late().run()
    rows = Late().output().rows()
    assert [row["state"] for row in rows] == ["SUCCEEDED", "FAILED"]
    assert all(part in rows[1]["error"] for part in ("first-work", "train-0.2-16"))
    assert pai.posts() == ["first-work", "train-0.1-16"]


# ---------------------------------------------------------------- one name


@pytest.fixture
def fit(tmp_path):
    """Return the class of a module of a project, which is imported by a name."""

    def load(module: str, project: str):
        file = tmp_path / project / "pipeline.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(FIT.replace("PROJECT", repr(project)))
        spec = importlib.util.spec_from_file_location(module, file)
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        luigi.task_register.Register.clear_instance_cache()
        new_process()
        return made.Fit

    return load


@pytest.mark.parametrize("calls", [("complete", "run"), ("result",)], ids=["run", "result"])
def test_a_python_task_of_another_module_is_not_taken_for_this_one(request, pai, place, fit, calls):
    """Same class name, same parameters, so the same job name: an error, and no result."""
    fit("first_module", "one")().run()
    if place == "hdfs":
        (output,) = request.getfixturevalue("hdfs").glob("Fit*/output")
        (output / "metrics.json").write_text('{"project": "one"}')
    other = fit("second_module", "two")()
    for call in calls:
        with pytest.raises(PaiError) as caught:
            getattr(other, call)()
        assert all(part in str(caught.value) for part in ("first_module.Fit", "second_module.Fit"))
    assert len(pai.posts()) == 1
    assert fit("first_module", "one")().complete()


@pytest.mark.usefixtures("place")
def test_a_module_that_is_run_as_a_script_is_the_same_work(pai, fit, tmp_path, monkeypatch):
    """``python pipeline.py`` after ``luigi --module pipeline``, and the other way around."""
    monkeypatch.setattr(
        sys.modules["__main__"], "__file__", str(tmp_path / "one" / "pipeline.py"), raising=False
    )
    for module in ("pipeline", "__main__", "pipeline"):
        task = fit(module, "one")()
        assert build(task)
    assert len(pai.posts()) == 1
