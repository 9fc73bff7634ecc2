"""Outputs of any kind: where the completion flag goes, and what tells when the server has forgotten a job."""

from __future__ import annotations

import logging
from pathlib import Path

import luigi
import luigi.contrib.hdfs
import luigi.mock
import pytest
from train_task import Train

from luigi_pai import (
    HdfsTarget,
    PaiJobError,
    PaiJobFailed,
    PaiTask,
    SpecError,
    reset_clusters,
)


def task_of(output_dir="default", **methods) -> PaiTask:
    """Return a task with an output folder and an output() of its own."""
    about = dict(methods) if output_dir == "default" else {"output_dir": output_dir, **methods}
    return type("Own", (Train,), about)()


def local(path) -> luigi.LocalTarget:
    return luigi.LocalTarget(str(path))


def forget(pai) -> None:
    """Have the server forget every job, and this process what it remembers."""
    pai.jobs.clear()
    reset_clusters()
    pai.calls.clear()


def files(root) -> list[str]:
    """Return the files below a folder, but for the records of submissions."""
    paths = (path for path in root.rglob("*") if path.is_file() and path.parent.name != "_luigi_pai")
    return sorted(str(path.relative_to(root)) for path in paths)


# ---------------------------------------------------------------- the flag, where it has a place


def test_any_target_may_be_the_output_and_the_flag_lies_in_the_output_folder(pai, hdfs, tmp_path, caplog):
    """With HDFS, the flag in the output folder tells, whatever output() returns; nothing lies beside that."""
    results = tmp_path / "nfs" / "metrics.json"
    task = task_of(output=lambda _: {"metrics": local(results), "log": [luigi.mock.MockTarget("log")]})
    task.run()
    assert files(hdfs) == ["train/output/_SUCCESS"]
    assert not results.parent.exists()
    assert f"but {results} of output() is not on this machine: does the job write it?" in caplog.text
    forget(pai)
    assert task.complete()
    (hdfs / "train" / "output" / "_SUCCESS").unlink()
    assert not task.complete()


def test_existing_outputs_do_not_stand_in_for_a_flag_that_could_be_there(pai, hdfs, tmp_path):
    """A half-written output of a job that was killed completes nothing: the flag would say so."""
    results = tmp_path / "metrics.json"
    pai.plan = {"ends_as": "FAILED", "exit_code": 137}
    task = task_of(output=lambda _: local(results))
    with pytest.raises(PaiJobFailed):
        task.run()
    results.write_text('{"accur')
    forget(pai)
    assert not task.complete()
    assert files(hdfs) == []


def test_a_further_attempt_begins_without_the_flag(pai, hdfs):
    """A flag that a failed attempt (or Spark in it) left does not speak for the next one, which fails too."""
    pai.add("train", ends_as="FAILED")
    HdfsTarget("/train/output/_SUCCESS").open("w").close()
    assert files(hdfs) == ["train/output/_SUCCESS"]
    pai.plan = {"ends_as": "FAILED"}
    with pytest.raises(PaiJobFailed):
        task_of().run()
    assert pai.posts()[-1] == "train__attempt2"
    assert files(hdfs) == []
    forget(pai)
    assert not task_of().complete()


def test_without_an_output_folder_the_flag_goes_to_the_servers(pai, hdfs, tmp_path):
    """With output_dir None it lies in the folder that the server chooses, also with an output elsewhere."""
    task = task_of(None, output=lambda _: local(tmp_path / "x"))
    task.run()
    assert files(hdfs) == ["Output/admin/train/_SUCCESS"]
    assert "outputDir" not in pai.jobs["train"].config
    forget(pai)
    assert task.complete()


# ---------------------------------------------------------------- no place for a flag


@pytest.mark.parametrize(
    "folder", ["file:///mnt/nfs/run", "file:/mnt/nfs/run", "s3://bucket/run", "S3A://bucket", "abfss://c@a/x"]
)
def test_a_folder_elsewhere_is_passed_on_and_not_looked_up_on_hdfs(folder, pai, hdfs, tmp_path, caplog):
    """No request to HDFS is made for it and nothing is written there; the outputs tell, by Luigi's rule."""
    results = tmp_path / "metrics.json"
    task = task_of(folder, output=lambda _: local(results))
    assert not task.complete()
    with caplog.at_level(logging.INFO, "luigi-interface"):
        task.run()
    assert pai.jobs["train"].config["outputDir"] == folder
    assert (
        f"gets no completion flag: the output folder {folder} is not on the cluster's file system; once the "
        "server no longer "
        "knows the job, the task is complete only if output() is overridden and all its targets exist"
    ) in caplog.text
    assert files(hdfs) == []
    assert list(hdfs.iterdir()) == []
    forget(pai)
    assert not task.complete()
    results.write_text("{}")
    assert task.complete()


def test_a_folder_of_a_mount_is_known_by_the_targets_in_it(pai, hdfs, tmp_path):
    """A LocalTarget at or below a plain output_dir says that it is a mount: no folder is made on HDFS."""
    mount = tmp_path / "nfs" / "run"
    for output in (local(mount), local(mount / "metrics.json"), [local("/other"), local(mount / "a" / "b")]):
        task = task_of(str(mount), output=lambda _, output=output: output)
        task.run()
        assert pai.jobs["train"].config["outputDir"] == str(mount)
        assert list(hdfs.iterdir()) == []
        forget(pai)
        assert not task.complete()
    assert not mount.exists()


def test_a_target_beside_the_folder_makes_it_no_mount(pai, hdfs):
    """/data/run is on HDFS when the LocalTarget is in /data/run2, or above it."""
    for path in ("/data/run2/x", "/data"):
        task = task_of("/data/run", output=lambda _, path=path: local(path))
        task.run()
        assert files(hdfs) == ["data/run/_SUCCESS"]
        forget(pai)


def test_without_hdfs_every_output_must_exist(pai, tmp_path):
    """No WebHDFS configured, the job forgotten: complete if all of a list, dict or single target exist."""
    one, two = tmp_path / "one", tmp_path / "two"
    task = task_of(output=lambda _: {"one": local(one), "more": [local(two)]})
    assert not task.complete()
    one.write_text("")
    assert not task.complete()
    two.write_text("")
    assert task.complete()
    task.run()
    assert pai.posts() == []


@pytest.mark.parametrize(
    ("job", "exists", "complete"),
    [
        ({"ends_as": "FAILED"}, True, False),
        ({"ends_as": "SUCCEEDED"}, False, True),
        ({"runs_for": 60}, True, False),
    ],
)
def test_what_the_server_knows_outranks_the_outputs(pai, tmp_path, job, exists, complete):
    """A job that runs or failed is not complete, whatever its outputs; one that succeeded is, without any."""
    if exists:
        (tmp_path / "metrics.json").write_text("half")
    pai.add("train", **job)
    assert task_of(output=lambda _: local(tmp_path / "metrics.json")).complete() is complete


def test_a_later_attempt_outranks_the_outputs(pai, tmp_path):
    """With attempt 1 forgotten, outputs that exist make the list be asked: attempt 2 still runs."""
    results = tmp_path / "metrics.json"
    results.write_text("half")
    pai.add("train__attempt2", runs_for=60)
    assert not task_of(output=lambda _: local(results)).complete()
    assert ("GET", "/api/v1/jobs") in [(method, path.partition("?")[0]) for method, path in pai.calls]


@pytest.mark.parametrize("output", [None, [], {}])
def test_a_task_without_outputs_is_not_complete_by_having_none(output, pai):
    """Nothing to look at says nothing; the job is submitted."""
    task = task_of(output=lambda _: output)
    assert not task.complete()
    task.run()
    assert pai.posts() == ["train"]
    forget(pai)
    assert not task.complete()


@pytest.mark.parametrize("kind", [HdfsTarget, luigi.contrib.hdfs.HdfsTarget])
def test_outputs_on_hdfs_are_not_asked_without_hdfs(kind, pai, tmp_path):
    """With no WebHDFS configured, an output on HDFS is neither looked up nor an error."""
    (tmp_path / "there").write_text("")
    task = task_of(output=lambda _: [local(tmp_path / "there"), kind("/somewhere/else")])
    assert not task.complete()
    task.run()
    assert pai.posts() == ["train"]
    assert task.complete()


def test_outputs_on_hdfs_are_asked_with_hdfs_if_the_folder_is_elsewhere(pai, hdfs):
    """A flag has no place in s3://, but the HdfsTarget that is the output can be looked up."""
    task = task_of("s3://bucket/run", output=lambda _: HdfsTarget("/results/model"))
    assert not task.complete()
    (hdfs / "results" / "model").mkdir(parents=True)
    assert task.complete()
    assert pai.posts() == []


def test_an_output_that_cannot_be_looked_up_is_an_error_not_no(pai):
    """If a target cannot say whether it exists, the work is not submitted again."""

    class Unsure(luigi.Target):
        def exists(self):
            raise ConnectionError("the store does not answer")

    task = task_of(output=lambda _: Unsure())
    with pytest.raises(ConnectionError, match="the store does not answer"):
        task.complete()
    assert pai.posts() == []


# ---------------------------------------------------------------- the default output()


def test_the_default_output_of_a_folder_elsewhere_says_what_to_do():
    """Its results are on no HDFS; the error names the task's output() as what to override."""
    with pytest.raises(NotImplementedError, match="output_dir = 's3://b/x' of job 'train' is not"):
        task_of("s3://b/x").output()


@pytest.mark.parametrize("configured", [False, True])
def test_a_folder_elsewhere_without_an_output_of_its_own(configured, pai, request):
    """Each attempt runs there; when the server forgets them, nothing can tell that it was done."""
    root = request.getfixturevalue("hdfs") if configured else None
    task = task_of("s3://b/x")
    pai.add("train", ends_as="FAILED")
    task.run()
    assert pai.jobs["train__attempt2"].config["outputDir"] == "s3://b/x"
    assert not configured or not list(root.iterdir())
    assert task.complete()
    forget(pai)
    assert not task.complete()


def test_viewfs_and_webhdfs_folders_are_on_hdfs(pai, hdfs, settings):
    """Their flags are written, over the WebHDFS that is configured."""
    url = luigi.configuration.get_config().get("OpenPai", "webhdfs_url")
    settings(fs_uri="viewfs://cluster")
    for number, folder in enumerate(("viewfs://cluster/a", url.replace("http", "webhdfs") + "/b")):
        task = task_of(folder, name=f"job{number}")
        task.run()
    assert files(hdfs) == ["a/_SUCCESS", "b/_SUCCESS"]
    assert pai.posts() == ["job0", "job1"]


# ---------------------------------------------------------------- results


@pytest.mark.usefixtures("pai")
def test_a_task_that_was_not_run_has_no_result():
    """An empty result would be taken for that of a job that has written none."""
    with pytest.raises(PaiJobError) as caught:
        task_of().result()
    assert (
        str(caught.value)
        == "Own(name=train) has no result, because it has not been run: no job 'train' exists"
    )
    task_of().run()
    assert task_of().result() == {}
    reset_clusters()
    assert task_of().result() == {}


def test_a_task_whose_job_has_failed_has_no_result(pai):
    """As one that was not run."""
    pai.plan = lambda _name: {"ends_as": "FAILED", "exit_code": 3}
    with pytest.raises(PaiJobError):
        task_of().run()
    with pytest.raises(PaiJobError, match="has no result, because its job 'train' has failed"):
        task_of().result()


@pytest.mark.parametrize("folder", [Path("/data/out"), 5])
def test_an_output_folder_is_a_string(pai, folder):
    """Also where only complete() is asked, as Luigi does first."""
    for method in (task_of(folder).complete, task_of(folder).run):
        with pytest.raises(SpecError) as caught:
            method()
        assert caught.value.problems[0].path == "output_dir"
        assert caught.value.problems[0].message == f"{folder!r} is not a string; use str() or quotes"
    assert pai.calls == []
