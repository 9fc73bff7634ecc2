"""Outputs of any kind: where the completion flag goes, and what tells when the server has forgotten a job."""

from __future__ import annotations

import logging

import luigi
import luigi.contrib.hdfs
import luigi.mock
import pytest
from lives import Life, lives
from train_task import Train

from luigi_pai import HdfsTarget, PaiTask, reset_clusters


def task_of(output_dir="default", **methods) -> PaiTask:
    """Return a task with an output folder and an output() of its own."""
    about = dict(methods) if output_dir == "default" else {"output_dir": output_dir, **methods}
    return type("Own", (Train,), about)()


def forget(pai) -> None:
    """Have the server forget every job, and this process what it remembers."""
    pai.jobs.clear()
    reset_clusters()
    pai.calls.clear()


def files(root) -> list[str]:
    """Return the files below a folder, but for the records of submissions."""
    paths = (path for path in root.rglob("*") if path.is_file() and path.parent.name != "_luigi_pai")
    return sorted(str(path.relative_to(root)) for path in paths)


class WithOutputs(Life):
    """Lives with outputs.

    Args:
        request: of the test, for the HDFS of some.
        tmp_path: the folder of the test on this machine.
    """

    def __init__(self, request, tmp_path, *given):
        super().__init__(*given)
        self._request, self._tmp_path = request, tmp_path

    def hdfs(self, _):
        self._hdfs = self._request.getfixturevalue("hdfs")

    def output(self, given):
        """Let ``output()`` return targets, by their paths."""
        targets = self._targets(given)
        self.define({"output": lambda _: targets})

    def _targets(self, given):
        if isinstance(given, dict):
            return {key: self._targets(each) for key, each in given.items()}
        if isinstance(given, list):
            return [self._targets(each) for each in given]
        kinds = {"hdfs": HdfsTarget, "contrib": luigi.contrib.hdfs.HdfsTarget, "mock": luigi.mock.MockTarget}
        kind, _, path = (given or "").rpartition(" ")
        return kinds.get(kind, luigi.LocalTarget)(self._in_tmp(path)) if given else given

    def _in_tmp(self, text):
        return text.replace("TMP", str(self._tmp_path))

    def log(self, text):
        super().log(self._in_tmp(text))

    def touch(self, name):
        (self._tmp_path / name).write_text("half")

    def folder(self, name):
        (self._hdfs / name).mkdir(parents=True)

    def gone(self, _):
        forget(self._pai)

    def flag(self, _):
        HdfsTarget("/train/output/_SUCCESS").open("w").close()

    def unflag(self, _):
        (self._hdfs / "train" / "output" / "_SUCCESS").unlink()

    def files(self, names):
        assert files(self._hdfs) == names

    def no_folders(self, _):
        assert list(self._hdfs.iterdir()) == []

    def here(self, names):
        """Compare the files on this machine, besides the servers' own."""
        assert [path.name for path in self._tmp_path.glob("nfs/*")] == names

    def elsewhere(self, folder):
        """Pass a folder on that is not on HDFS; the outputs decide, by Luigi's rule."""
        rule = "is complete only if output() is overridden and all its targets exist"
        self.play(["hdfs", {"define": {"output_dir": folder}}, {"output": "TMP/metrics.json"}])
        self.play([{"complete": False}, "run", {"config": {"train": {"outputDir": folder}}}, "no_folders"])
        self.log(
            f"gets no completion flag: the output folder {folder} is not on the cluster's file system; once "
            f"the server no longer knows the job, the task {rule}"
        )
        self.play(["gone", {"complete": False}, {"touch": "metrics.json"}, {"complete": True}])

    def mount(self, output):
        """Run a task with an output folder that its targets show to be a mount."""
        folder = self._in_tmp("TMP/nfs/run")
        self.play(["hdfs", {"define": {"output_dir": folder}}, {"output": output}, "run", "no_folders"])
        self.play([{"config": {"train": {"outputDir": folder}}}, "gone", {"complete": False}, {"here": []}])


@lives("outputs")
def test_a_life(request, pai, settings, caplog, tmp_path, steps):
    caplog.set_level(logging.INFO, "luigi-interface")
    WithOutputs(request, tmp_path, pai, settings, caplog).play(steps)


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


def test_viewfs_and_webhdfs_folders_are_on_hdfs(pai, hdfs, settings):
    """Their flags are written, over the WebHDFS that is configured."""
    url = luigi.configuration.get_config().get("OpenPai", "webhdfs_url")
    settings(fs_uri="viewfs://cluster")
    for number, folder in enumerate(("viewfs://cluster/a", url.replace("http", "webhdfs") + "/b")):
        task = task_of(folder, name=f"job{number}")
        task.run()
    assert files(hdfs) == ["a/_SUCCESS", "b/_SUCCESS"]
    assert pai.posts() == ["job0", "job1"]
