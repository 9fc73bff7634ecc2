"""Tasks on several clusters: an OpenPAI 0.7.1 and a 1.8 in one process, each with its HDFS."""

from __future__ import annotations

import re
from unittest.mock import Mock

import luigi
import pytest
from local_client import unique
from pipelines import build, new_process
from places import ROOT
from protocols import protocol
from train_task import Command

from luigi_pai import (
    ClusterUnreachable,
    ConfigError,
    HdfsTarget,
    OpenPai,
    PaiJobFailed,
    PaiJobForgotten,
    PaiProtocolTask,
)
from luigi_pai.errors import AuthenticationError
from luigi_pai.files import HdfsError, HdfsFlagTarget, WebHdfs


class OnGpu2(Command):
    """A job on the second cluster."""

    cluster = "gpu2"


class Anywhere(OnGpu2):
    """A job whose cluster is a parameter."""

    cluster = luigi.OptionalParameter(default=None)


@pytest.fixture
def name():
    """A job name that no other test has."""
    return unique("clusters")


@pytest.fixture
def gpu2(cluster, local_pai_v2, further):
    """A local OpenPAI 1.8 as [OpenPai:gpu2], beside one of 0.7.1 as [OpenPai]."""
    assert cluster.url != local_pai_v2.url
    further("gpu2", local_pai_v2)
    return local_pai_v2


def names(server, prefix):
    return sorted(job["name"] for job in server.jobs() if job["name"].startswith(prefix))


def text(path, cluster=None):
    with HdfsTarget(f"$PAI_DEFAULT_FS_URI/{path}", cluster=cluster).open() as file:
        return file.read()


def exists(path, cluster=None):
    return HdfsTarget(f"$PAI_DEFAULT_FS_URI/{path}", cluster=cluster).exists()


@pytest.fixture
def page(name, load):
    """The pipeline of docs/clusters.md, under names of this test's own."""
    (shown,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "clusters.md").read_text(), re.DOTALL)
    return load(shown.replace("prepare-numbers", f"{name}-a").replace("train-numbers", f"{name}-b"))


@pytest.mark.slow
def test_one_pipeline_on_two_clusters(cluster, gpu2, page, name):
    """Of v1 and v2, with forked workers: each job, output and flag is on the cluster of its task only."""
    assert luigi.build([page.Train()], workers=2, local_scheduler=True, log_level="WARNING")
    assert names(cluster, name) == [f"{name}-a"]
    assert names(gpu2, name) == [f"{name}-b"]
    assert text(f"{name}-a/output/numbers.txt").split() == [str(number) for number in range(1, 11)]
    assert text(f"{name}-b/output/count.txt", "gpu2").split() == ["10"]
    assert text(f"{name}-a/output/_SUCCESS") == f"{name}-a\n"
    assert text(f"{name}-b/output/_SUCCESS", "gpu2") == f"{name}-b\n"
    assert not exists(f"{name}-b")
    assert not exists(f"{name}-a", "gpu2")
    new_process()
    assert page.Train().complete()
    assert page.Prepare().complete()
    assert build(page.Train())
    assert (names(cluster, name), names(gpu2, name)) == ([f"{name}-a"], [f"{name}-b"])


@pytest.mark.slow
def test_a_failure_and_its_next_submission(gpu2, cluster, name):
    """Attempts, page and logs are those of the task's cluster."""
    with pytest.raises(PaiJobFailed) as caught:
        OnGpu2(name=name, command="echo on gpu2; exit 3").run()
    assert gpu2.url in str(caught.value)
    assert cluster.url not in str(caught.value)
    assert "on gpu2" in str(caught.value)
    OnGpu2(name=name).run()
    assert [job.rpartition("__")[2] for job in names(gpu2, name)][1:] == ["attempt2"]
    assert names(cluster, name) == []


@pytest.mark.slow
def test_the_task_comes_before_the_variable(gpu2, cluster, name, monkeypatch):
    """A parameter, the variable, and [OpenPai] for what names none."""
    monkeypatch.setenv("LUIGI_PAI_CLUSTER", "gpu2")
    Anywhere(name=f"{name}-a").run()
    assert Anywhere(name=f"{name}-a").output().fs.url == gpu2.webhdfs_url
    monkeypatch.setenv("LUIGI_PAI_CLUSTER", "nowhere")
    Anywhere(name=f"{name}-b", cluster="gpu2").run()
    monkeypatch.delenv("LUIGI_PAI_CLUSTER")
    Anywhere(name=f"{name}-c").run()
    assert names(gpu2, name) == [f"{name}-a", f"{name}-b"]
    assert names(cluster, name) == [f"{name}-c"]


@pytest.mark.slow
@pytest.mark.usefixtures("gpu2")
def test_uploads_go_to_the_tasks_own_hdfs(name, tmp_path):
    """With the code folder."""
    (tmp_path / "code.txt").write_text("code")

    class Uploads(OnGpu2):
        uploads = {str(tmp_path / "code.txt"): f"$PAI_DEFAULT_FS_URI/{name}/code/code.txt"}
        code_dir = f"$PAI_DEFAULT_FS_URI/{name}/code"

    Uploads(name=name, command="true").run()
    assert text(f"{name}/code/code.txt", "gpu2") == "code"
    assert not exists(f"{name}/code/code.txt")


def test_uploads_without_an_hdfs(gpu2, further, tmp_path, name):
    """The HDFS of [OpenPai] is not used in its place."""
    further("gpu2", webhdfs_url="", fs_uri="", storage="")
    (tmp_path / "code.txt").write_text("code")

    class Uploads(OnGpu2):
        uploads = {str(tmp_path / "code.txt"): "/code/code.txt"}

    with pytest.raises(ConfigError, match=r"and \[OpenPai:gpu2\] has none; write"):
        Uploads(name=name).run()
    with pytest.raises(ConfigError, match=r"webhdfs_url is not set in \[OpenPai:gpu2\], and '/x' is on HDFS"):
        HdfsTarget("/x", cluster="gpu2").exists()
    assert names(gpu2, name) == []


def test_a_target_keeps_its_cluster(gpu2):
    """What is in a folder is where the folder is."""
    folder = HdfsTarget("/p", cluster="gpu2")
    flagged = HdfsFlagTarget("/p/", cluster="gpu2")
    assert [each.fs.url for each in (folder, folder / "a", flagged, flagged / "a")] == [gpu2.webhdfs_url] * 4
    assert WebHdfs.from_config("gpu2").url == gpu2.webhdfs_url != WebHdfs.from_config().url


def test_a_job_protocol(gpu2, cluster, further):
    """Its cluster has to speak v2; the error names the section that says it does not."""

    class Protocol(PaiProtocolTask):
        cluster = "gpu2"
        protocol = protocol(name="on_gpu2")

    further("gpu2", api_version="v1")
    with pytest.raises(ConfigError, match=r"api_version = v1 is set in \[OpenPai:gpu2\] of luigi\.cfg"):
        Protocol().run()
    further("gpu2", api_version="v2")
    Protocol().run()
    assert Protocol().output().exists()
    assert names(gpu2, "on_gpu2") == ["on_gpu2"]
    assert names(cluster, "on_gpu2") == []


@pytest.mark.slow
def test_a_section_that_is_changed_is_another_cluster(gpu2, cluster, further, name):
    """From the next lookup on."""
    OnGpu2(name=name).run()
    assert OnGpu2(name=name).complete()
    further("gpu2", cluster, api_version="v1")
    assert not OnGpu2(name=name).complete()
    OnGpu2(name=name).run()
    assert names(cluster, name) == names(gpu2, name) == [name]


@pytest.mark.usefixtures("gpu2")
def test_a_name_without_a_section(name):
    """One error, before anything is sent."""
    text = r"cluster 'gpu3' is not in luigi\.cfg: .* it has \[OpenPai\], \[OpenPai:gpu2\]$"
    task = Anywhere(name=name, cluster="gpu3")
    for use in (task.run, task.complete, HdfsTarget("/x", cluster="gpu3").exists):
        with pytest.raises(ConfigError, match=text):
            use()


@pytest.mark.parametrize(
    ("keys", "error", "words"),
    [
        ({"password": "wrong-one"}, AuthenticationError, "set the correct password in [OpenPai:gpu2]"),
        ({"pai_url": "http://127.0.0.1:9"}, ClusterUnreachable, "check pai_url in [OpenPai:gpu2]"),
        ({"token": "wrong-one"}, AuthenticationError, "accept the token of [OpenPai:gpu2] in luigi.cfg"),
        ({"token": "wrong one"}, ConfigError, "token in [OpenPai:gpu2] of luigi.cfg contains blanks"),
        ({"webhdfs_url": "http://127.0.0.1:9"}, HdfsError, "check webhdfs_url in [OpenPai:gpu2]"),
        ({"fs_uri": "hdfs://other:1"}, HdfsError, "fs_uri in [OpenPai:gpu2] is hdfs://other:1"),
    ],
)
def test_errors_name_the_section(gpu2, further, keys, error, words):
    """What is wrong with a further cluster is not sought in [OpenPai], and shows no secret."""
    further("gpu2", poll_patience=0.1, connect_timeout=1, **keys)

    def use():
        if "fs_uri" in keys or "webhdfs_url" in keys:
            return HdfsTarget(f"{gpu2.fs_uri}/x", cluster="gpu2").exists()
        return OpenPai.current("gpu2").cluster().list()

    with pytest.raises(error) as caught:
        use()
    assert words in str(caught.value)
    assert "[OpenPai]" not in str(caught.value)
    assert "wrong-one" not in str(caught.value)


@pytest.mark.usefixtures("gpu2")
def test_the_wrong_api_names_the_section(further, name):
    """api_version = v1 on a cluster of 1.8."""
    further("gpu2", api_version="v1")
    with pytest.raises(Exception, match=r"remove api_version = v1 from \[OpenPai:gpu2\] in luigi\.cfg"):
        OnGpu2(name=name).run()


@pytest.mark.slow
def test_a_task_is_moved_while_its_job_is_not_done(gpu2, cluster, further, name):
    """With one HDFS for both clusters, its record says that another cluster has the job."""
    further("gpu2", webhdfs_url=cluster.webhdfs_url, fs_uri=cluster.fs_uri)
    cluster.script_jobs(job=name, after=None)
    first = OpenPai.current().cluster()
    task = Anywhere(name=name)
    task.set_status_message = Mock(side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        task.run()
    with pytest.raises(PaiJobForgotten) as caught:
        Anywhere(name=name, cluster="gpu2").run()
    where = (
        f"was submitted to {cluster.url} less than an hour ago by 'admin', and {gpu2.url} does not know it"
    )
    assert where in str(caught.value)
    assert "luigi-pai put --cluster gpu2 _SUCCESS '$PAI_DEFAULT_FS_URI/" in str(caught.value)
    assert names(gpu2, name) == []
    further("gpu2", on_forgotten="submit")
    Anywhere(name=name, cluster="gpu2").run()
    assert names(gpu2, name) != []
    first.stop(name)
