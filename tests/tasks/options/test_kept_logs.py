"""keep_logs: the logs of ended jobs in OUTPUT_DIR/_logs on HDFS."""

from __future__ import annotations

import logging
import re
from unittest.mock import Mock

import pytest
import requests
import responses
from local_client import unique
from mocked_job import QUICK, mocked_job
from train_task import Command

from luigi_pai import PaiJobFailed, reset_clusters
from luigi_pai.api.dialects.log_files import LogFiles
from luigi_pai.errors import ServerFault
from luigi_pai.files import HdfsError, WebHdfs
from luigi_pai.files.writer import HdfsWriter
from luigi_pai.work.kept_logs import KeptLogs


class Train(Command):
    keep_logs = True
    role = "worker"

    @property
    def output_dir(self):
        return f"$PAI_DEFAULT_FS_URI/kept/{self.name}"


def kept(task, submission=None):
    """Return the kept files of a task's submission: name -> content."""
    hdfs = WebHdfs.from_config()
    folder = f"{task.output_dir}/_logs/{submission or task.name}"
    found = {}
    for path in hdfs.listdir(folder) if hdfs.exists(folder) else ():
        with hdfs.open_reader(path) as file:
            found[path.rpartition("/")[2]] = file.read().decode()
    return found


def killed_before_logs(monkeypatch, task):
    """Run a task in a process that ends before it keeps the logs."""
    with monkeypatch.context() as patched:
        patched.setattr(KeptLogs, "keep", Mock(side_effect=SystemExit))
        with pytest.raises(SystemExit):
            task.run()
    reset_clusters()


@pytest.mark.slow
@pytest.mark.usefixtures("either_cluster")
def test_both_streams_of_every_task_are_kept():
    task = Train(
        name=unique(), number=2, command="echo $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX; seq 200000 >&2"
    )
    task.run()
    numbers = "".join(f"{number}\n" for number in range(1, 200_001))
    assert kept(task) == {
        "worker-0.stdout": "0\n",
        "worker-0.stderr": numbers,
        "worker-1.stdout": "1\n",
        "worker-1.stderr": numbers,
    }


@pytest.mark.slow
@pytest.mark.usefixtures("either_cluster")
def test_each_attempt_has_a_folder():
    """A failed job has the logs that matter most."""
    task = Train(name=unique(), command='echo "attempt $LUIGI_PAI_ATTEMPT"; [ "$LUIGI_PAI_ATTEMPT" = 2 ]')
    with pytest.raises(PaiJobFailed):
        task.run()
    task.run()
    assert kept(task)["worker-0.stdout"] == "attempt 1\n"
    assert kept(task, f"{task.name}__attempt2")["worker-0.stdout"] == "attempt 2\n"


@pytest.mark.slow
@pytest.mark.usefixtures("v2_cluster")
def test_memory_is_bounded_by_parts(monkeypatch):
    """Each request is for a part; a part that fails is asked for again, and nothing is lost or doubled."""
    sizes, part = [], LogFiles.part

    def shaky(self, file, start, size):
        sizes.append(size)
        if len(sizes) == 3:
            raise ServerFault("busy", status=503)
        return part(self, file, start, min(size, 100_000))

    monkeypatch.setattr("luigi_pai.work.kept_logs.PART", 100_000)
    monkeypatch.setattr(LogFiles, "part", shaky)
    task = Train(name=unique(), command="seq 100000")
    task.run()
    assert kept(task)["worker-0.stdout"] == "".join(f"{number}\n" for number in range(1, 100_001))
    assert set(sizes) == {100_000}
    assert len(sizes) > 6


@pytest.mark.slow
def test_your_password_is_masked_in_the_copies(v2_cluster, monkeypatch):
    """Also where two requests each return a part of it."""
    monkeypatch.setattr("luigi_pai.work.kept_logs.PART", 10)
    task = Train(name=unique(), command=f"echo the password is {v2_cluster.password}, and no more")
    task.run()
    assert kept(task)["worker-0.stdout"] == "the password is ******, and no more\n"


@pytest.mark.slow
@pytest.mark.usefixtures("v2_cluster")
def test_a_log_that_breaks_off_is_never_half_a_file(monkeypatch):
    """An earlier file under its name stays, and a note says why there is no new one."""
    task, hdfs = Train(name=unique(), command="seq 100000"), WebHdfs.from_config()
    earlier = f"{task.output_dir}/_logs/{task.name}/worker-0.stdout"
    with hdfs.open_writer(earlier) as file:
        file.write(b"earlier\n")
    part = LogFiles.part

    def broken(self, file, start, size):
        if start:
            raise ServerFault("the disk is gone", status=500)
        return part(self, file, start, 1000) if file.name == "stdout" else part(self, file, start, size)

    monkeypatch.setattr("luigi_pai.work.kept_logs.PART", 1000)
    monkeypatch.setattr("luigi_pai.work.kept_logs._PATIENCE", 0.1)
    monkeypatch.setattr(LogFiles, "part", broken)
    task.run()
    assert kept(task) == {
        "worker-0.stdout": "earlier\n",
        "worker-0.stderr": "",
        "worker-0.unreadable.txt": "stdout: the disk is gone\n",
    }
    assert task.complete()


@responses.activate
def test_a_node_out_of_reach_leaves_a_note_and_is_asked_once(settings, hdfs, caplog):
    """Nodes of 0.x are often reached from the cluster only. The task succeeds all the same."""
    responses.add_passthru(f"http://{WebHdfs.from_config().at('/')[0].server.removeprefix('http://')}")
    path = mocked_job(settings, "far", "http://node:8042/c{}/", count=2, **QUICK)
    responses.get(f"{path}/config", json={"jobName": "far"})
    responses.get(re.compile(r"http://node:8042/c\d/std.*"), body=requests.ConnectTimeout("no route"))
    with caplog.at_level(logging.INFO, "luigi-interface"):
        Train(name="far").run()
    assert len([call for call in responses.calls if "node:8042" in call.request.url]) == 1
    folder = hdfs / "kept" / "far" / "_logs" / "far"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"main-{index}.unreadable.txt" for index in (0, 1)
    ]
    note = (folder / "main-1.unreadable.txt").read_text().splitlines()
    late = "cannot reach http://node:8042: no connection within 5 s"
    assert note == [f"stdout: {late}", f"stderr: {late}"]
    assert "Kept the logs of job far, 2 tasks, in " in caplog.text
    assert "; those of 2 could not be read" in caplog.text


def test_without_hdfs_it_is_said_once_that_nothing_is_kept(pai, settings, caplog):
    settings(keep_logs="true")
    with caplog.at_level(logging.WARNING, "luigi-interface"):
        for name in ("a", "b"):
            Train(name=name).run()
    assert [message for message in caplog.messages if message.startswith("keep_logs")] == [
        "keep_logs: the logs of job a, and of all jobs without an output folder on the cluster, are not kept"
    ]
    assert pai.posts() == ["a", "b"]


@pytest.mark.usefixtures("v2_cluster")
def test_a_broken_hdfs_does_not_fail_the_task(monkeypatch, caplog):
    task, write = Train(name=unique(), command="true"), HdfsWriter.write

    def full(self, data):
        if "_logs" in self.name:
            raise HdfsError("no space", operation="write", path=self.name)
        return write(self, data)

    monkeypatch.setattr(HdfsWriter, "write", full)
    task.run()
    assert task.complete()
    assert (
        f"The logs of job {task.name} could not be kept in {task.output_dir}/_logs/{task.name}: "
        in caplog.text
    )


@pytest.mark.slow
@pytest.mark.usefixtures("either_cluster")
@pytest.mark.parametrize("ends", ["succeeds", "fails"])
def test_what_a_killed_worker_did_not_keep_the_next_one_keeps(monkeypatch, ends):
    """It was killed after the end of the job, before or while the logs were kept."""
    task = Train(name=unique(), command=f"echo {ends}; [ {ends} = succeeds ]")
    killed_before_logs(monkeypatch, task)
    assert kept(task) == {}
    assert Train(name=task.name).complete() == (ends == "succeeds")
    assert kept(task) == {"worker-0.stdout": f"{ends}\n", "worker-0.stderr": ""}
    reset_clusters()
    monkeypatch.setattr(KeptLogs, "keep", lambda *_: pytest.fail("kept twice"))
    assert Train(name=task.name).complete() == (ends == "succeeds")


@pytest.mark.slow
def test_a_job_that_a_list_has_shown_is_looked_up_for_its_tasks(either_cluster, monkeypatch):
    """From the third task on, complete() is answered by a list, which has no tasks."""
    assert either_cluster.url
    task = Train(name=unique(), command="echo out")
    killed_before_logs(monkeypatch, task)
    for _ in range(5):
        Train(name=unique()).complete()
    assert Train(name=task.name).complete()
    assert kept(task) == {"worker-0.stdout": "out\n", "worker-0.stderr": ""}


@pytest.mark.usefixtures("v2_cluster")
def test_by_default_nothing_is_kept(monkeypatch):
    monkeypatch.setattr(Train, "keep_logs", None)
    task = Train(name=unique(), command="echo out")
    task.run()
    assert kept(task) == {}
