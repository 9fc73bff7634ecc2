"""PaiTasks on the local OpenPAIs: commands run for real, results and memory lie on their HDFS."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import luigi
import pytest
import requests
from pipelines import Code, CodeFolder, ask, build, jobs_of, new_process
from ports import own_port

from luigi_pai import HdfsTarget, OpenPai, PaiJobFailed, PaiTask, TaskRole
from luigi_pai.files import HdfsError
from luigi_pai.local import LocalPai

COMMAND = """
test "$PAI_JOB_NAME" = @JOB@ && test "$PAI_CURRENT_TASK_ROLE_NAME" = the_main || exit 7
printf '{"code": "%s", "hosts": "%s"}' "$(cat lib/hello.txt)" "$PAI_TASK_ROLE_the_main_HOST_LIST" \\
    > metrics.json
until [ -e @FILE@ ]; do sleep 0.1; done
hdfs dfs -put -f metrics.json $PAI_OUTPUT_DIR/
""".strip()


class Train(CodeFolder, PaiTask):
    """A job as users of v1 have them: code folder, output folder, v1 variables, a role name odd to v2."""

    name = luigi.Parameter()
    until = luigi.Parameter(default=".")
    image = "openpai/pai.example.sklearn"

    @property
    def tasks(self):
        return [TaskRole("the_main", COMMAND.replace("@FILE@", self.until).replace("@JOB@", self.name))]


class Report(luigi.Task):
    """Reads the metrics of a job through self.input()."""

    name = luigi.Parameter()

    def requires(self):
        return Train(self.name)

    def output(self):
        return HdfsTarget(f"/{self.name}/report.txt")

    def run(self):
        with (self.input() / "metrics.json").open() as metrics, self.output().open("w") as report:
            report.write(json.dumps(json.load(metrics)))


class Broken(PaiTask):
    """A job that fails."""

    name = luigi.Parameter()
    image = "x"
    tasks = [TaskRole("main", "echo working; echo no such layer >&2; exit 3")]


def delete(cluster, job: str) -> None:
    """Have the server forget a job, as 0.x does 12 hours after its end."""
    assert ask(cluster, f"/api/v1/jobs/{job}", "DELETE").status_code == 202


@pytest.mark.slow
def test_a_pipeline_through_hdfs(any_cluster, name):
    """Code goes to HDFS, the job fetches it and writes its metrics, a later task reads them."""
    assert build(Report(name))
    with HdfsTarget(f"/{name}/report.txt").open() as report:
        metrics = json.load(report)
    assert metrics["code"] == "from HDFS"
    assert metrics["hosts"].startswith("127.0.0.1:")
    with (Train(name).output() / "_SUCCESS").open() as flag:
        assert flag.read() == f"{name}\n"
    assert jobs_of(any_cluster, name) == [name]
    new_process()
    assert build(Report(name))
    assert jobs_of(any_cluster, name) == [name]


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_the_output_folder_is_there_before_the_job(name):
    """A command that writes into its output folder without making it succeeds: 0.7 does not make it."""

    class Writes(PaiTask):
        name = luigi.Parameter()
        image = "x"
        tasks = [TaskRole("main", "hdfs dfs -test -d $PAI_OUTPUT_DIR")]

    assert build(Writes(name))


@pytest.mark.slow
def test_a_job_without_an_output_folder_uses_the_servers(any_cluster, name):
    """v1 servers choose a folder for output_dir None; on later ones, that folder is made."""

    class Default(PaiTask):
        name = luigi.Parameter()
        image = "x"
        output_dir = None
        tasks = [TaskRole("main", "echo 1 | hdfs dfs -put - $PAI_OUTPUT_DIR/one")]

    task = Default(name)
    assert build(task)
    with HdfsTarget(f"/Output/{any_cluster.username}/{name}/one").open() as one:
        assert one.read() == "1\n"
    with (task.output() / "one").open() as one:
        assert one.read() == "1\n"
    assert (task.output() / "_SUCCESS").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("any_cluster")
def test_a_failure_says_why(request, name):
    """A failed job's error holds exit code, diagnostics with the last lines, and links that work."""
    with pytest.raises(PaiJobFailed) as caught:
        Broken(name).run()
    text = str(caught.value)
    is_v1 = request.node.callspec.params["any_cluster"] == "v1"
    code = "3" if is_v1 else "255, its command with 3"
    assert f"job {name!r} ended as FAILED with exit code {code}" in text
    assert ("no such layer" if is_v1 else "last lines of main[0]:\n    working\n    no such layer\n") in text
    links = [line.split(": ", 1)[1] for line in text.splitlines() if "http" in line]
    assert len(links) == 1 + is_v1
    page, *logs = (requests.get(link, timeout=5) for link in links)
    assert page.status_code == 200
    assert name in page.text
    assert [log.status_code for log in logs] == [200] * is_v1
    assert all("working" in log.text for log in logs)


@pytest.mark.slow
def test_after_failures_a_new_attempt_and_its_success(any_cluster, name, monkeypatch):
    """A failed job is followed by NAME__attempt2 in a later process, whose success completes the task."""
    assert not build(Broken(name))
    new_process()
    monkeypatch.setattr(Broken, "tasks", [TaskRole("main", "true")])
    assert build(Broken(name))
    assert jobs_of(any_cluster, name) == [name, f"{name}__attempt2"]
    new_process()
    assert Broken(name).complete()


@pytest.mark.slow
def test_a_job_is_stopped_from_luigis_page(any_cluster, name):
    """`stop` of the scheduler ends the job as STOPPED."""
    task = type("Sleeps", (PaiTask,), {"name": name, "image": "x", "tasks": [TaskRole("main", "sleep 60")]})()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(task.run)
        while not jobs_of(any_cluster, name):
            assert not running.done(), running.exception()
            time.sleep(0.05)
        OpenPai().cluster().stop(name)
        with pytest.raises(PaiJobFailed, match="ended as STOPPED"):
            running.result(30)


@pytest.mark.slow
def test_a_forgotten_first_attempt_does_not_hide_the_second(cluster, name, monkeypatch, tmp_path):
    """With attempt 1 forgotten by the server, attempt 2 is found, in complete() and in run()."""
    assert not build(Broken(name))
    new_process()
    go = tmp_path / "go"
    waits = TaskRole("main", f"while [ ! -e {go} ]; do sleep 0.1; done")
    monkeypatch.setattr(Broken, "tasks", [waits])
    task = Broken(name)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(task.run)
        while f"{name}__attempt2" not in jobs_of(cluster, name):
            time.sleep(0.02)
        delete(cluster, name)
        while name in jobs_of(cluster, name):
            time.sleep(0.02)
        new_process()
        assert not task.complete()
        go.touch()
        new_process()
        task.run()
        running.result(60)
    assert jobs_of(cluster, name) == [f"{name}__attempt2"]
    new_process()
    assert task.complete()


@pytest.mark.slow
def test_a_job_gone_with_the_flag_on_hdfs_is_complete(cluster, name):
    """A job that the server has forgotten is complete if its output carries the flag, and else is not."""
    assert build(Train(name))
    delete(cluster, name)
    new_process()
    assert Train(name).complete()
    Train(name).run()
    assert jobs_of(cluster, name) == []
    (Train(name).output() / "_SUCCESS").remove()
    new_process()
    assert not Train(name).complete()


def test_a_flag_counts_for_the_jobs_that_it_names(cluster, name):
    """A _SUCCESS that names the job completes a forgotten job; an empty one or another job's does not."""
    task = Train(name)
    flag = task.output() / "_SUCCESS"
    for text, complete in (("", False), ("another-job\n", False), (f"another-job\n{name}\n", True)):
        with flag.open("w") as file:
            file.write(text)
        assert task.complete() is complete
    assert jobs_of(cluster, name) == []


class Spark(PaiTask):
    """A job that writes _SUCCESS itself, as Spark does, and fails afterwards."""

    name = luigi.Parameter()
    image = "x"
    tasks = [TaskRole("main", "echo | hdfs dfs -put - $PAI_OUTPUT_DIR/_SUCCESS; exit 1")]


@pytest.mark.slow
def test_a_failed_job_that_left_a_flag_is_not_complete(cluster, name):
    """_SUCCESS of a command that failed later does not complete the job once the server has forgotten it."""
    assert not build(Spark(name))
    delete(cluster, name)
    new_process()
    assert not Spark(name).complete()


@pytest.mark.slow
def test_each_attempt_that_left_a_flag_and_failed_loses_it(cluster, name):
    """A process that has cleared the flag of one attempt clears that of the next one, too."""
    for attempt in (name, f"{name}__attempt2"):
        with pytest.raises(PaiJobFailed, match=attempt):
            Spark(name).run()
        assert not Spark(name).complete()
    for attempt in (name, f"{name}__attempt2"):
        delete(cluster, attempt)
    new_process()
    assert not Spark(name).complete()


@pytest.mark.slow
def test_complete_clears_the_flag_of_a_failed_job_that_was_not_watched(cluster, name):
    """If no worker saw the failure, the next complete() takes the flag of the failed job away."""
    task = Spark(name)
    with pytest.raises(PaiJobFailed):
        task.run()
    (task.output() / "_luigi_pai" / f"{name}.1.FAILED").remove()
    with (task.output() / "_SUCCESS").open("w"):
        pass
    new_process()
    assert not task.complete()
    delete(cluster, name)
    new_process()
    assert not task.complete()


@pytest.mark.slow
def test_a_success_that_was_not_recorded_is_recorded_by_complete(cluster, name):
    """If a worker died before it wrote the flag, the next complete() that sees the success writes it."""
    assert build(Train(name))
    flag = Train(name).output() / "_SUCCESS"
    flag.remove()
    (Train(name).output() / "_luigi_pai" / f"{name}.1.SUCCEEDED").remove()
    new_process()
    assert Train(name).complete()
    assert flag.exists()
    delete(cluster, name)
    new_process()
    assert Train(name).complete()


def test_hdfs_that_does_not_answer_is_an_error_not_false(cluster, name, settings):
    """When only HDFS could say whether the work is done, and it does not answer, that is an error."""
    settings(webhdfs_url="http://127.0.0.1:9")
    with pytest.raises(HdfsError, match=r"127\.0\.0\.1:9"):
        Train(name).complete()
    assert jobs_of(cluster, name) == []


@pytest.mark.slow
def test_hdfs_that_fails_after_the_success_fails_no_task(cluster, name, settings, caplog):
    """A success that cannot be recorded on HDFS is still a success; the log says what that means."""
    task = Train(name)
    build(task)
    (task.output() / "_SUCCESS").remove()
    new_process()
    settings(webhdfs_url="http://127.0.0.1:9")
    assert task.complete()
    assert "could not be recorded in its output folder" in caplog.text
    assert cluster.url


@pytest.mark.slow
@pytest.mark.parametrize("api", ["v1", "v2", "ltp"])
def test_the_server_is_killed_in_the_middle(as_settings, name, tmp_path, api):
    """A server that is killed and comes back while the job runs costs the task nothing."""
    with LocalPai(tmp_path / "data", api=api, port=own_port(), hdfs=True) as server:
        as_settings(server)
        assert build(Code(name))
        task = Train(name, until=str(tmp_path / "go"))
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(task.run)
            while not list(server.data.glob("jobs/*/attempt1/the*main-0/work/metrics.json")):
                assert not running.done(), running.exception()
                time.sleep(0.02)
            server.kill()
            time.sleep(0.5)
            server.start()
            (tmp_path / "go").touch()
            running.result(60)
        assert task.complete()
        assert jobs_of(server, name) == [name]
        with (task.output() / "metrics.json").open() as metrics:
            assert json.load(metrics)["code"] == "from HDFS"
