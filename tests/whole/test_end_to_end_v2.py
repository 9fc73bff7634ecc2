"""Tasks on a local OpenPAI 1.8 and LTP 1.5: the same pipelines as on 0.7.1, and job protocols."""

from __future__ import annotations

import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor

import luigi
import pytest
import requests
from pipelines import Code, CodeFolder, build, new_process
from ports import own_port

from luigi_pai import HdfsTarget, OpenPai, PaiJobFailed, PaiProtocolTask, PaiTask, TaskRole
from luigi_pai.local import LocalPai

pytestmark = pytest.mark.slow

_serial = itertools.count()


@pytest.fixture(params=["v2", "ltp"])
def cluster(request, as_settings):
    """The session's local OpenPAI 1.8 or LTP, as [OpenPai] of luigi.cfg; api_version is to be learned."""
    server = request.getfixturevalue(f"local_pai_{request.param}")
    as_settings(server)
    return server


@pytest.fixture
def name():
    """A job name that no other test has."""
    return f"e2e-{time.time_ns():x}-{next(_serial)}"


def ask(cluster, path):
    login = {"username": cluster.username, "password": cluster.password}
    token = requests.post(f"{cluster.url}/api/v1/token", json=login, timeout=5).json()["token"]
    return requests.get(f"{cluster.url}{path}", headers={"Authorization": f"Bearer {token}"}, timeout=5)


def jobs_of(cluster, name):
    return sorted(row["name"] for row in ask(cluster, f"/api/v2/jobs?keyword={name}").json())


COMMAND = """
test "$PAI_JOB_NAME" = @JOB@ && test "$PAI_CURRENT_TASK_ROLE_NAME" = the_main || exit 7
printf '{"code": "%s", "hosts": "%s"}' "$(cat lib/hello.txt)" "$PAI_TASK_ROLE_the_main_HOST_LIST" \\
    > metrics.json
until [ -e @FILE@ ]; do sleep 0.1; done
hdfs dfs -put -f metrics.json $PAI_OUTPUT_DIR/
""".strip()


class Train(CodeFolder, PaiTask):
    """A v1 job as users have them: a code folder, an output folder, v1 variables, an odd role name."""

    name = luigi.Parameter()
    until = luigi.Parameter(default=".")
    image = "openpai/pai.example.sklearn"

    @property
    def tasks(self):
        return [TaskRole("the_main", COMMAND.replace("@FILE@", self.until).replace("@JOB@", self.name))]


class Broken(PaiTask):
    """A job that fails."""

    name = luigi.Parameter()
    image = "x"
    tasks = [TaskRole("main", "echo working; echo no such layer >&2; exit 3")]


def test_a_v1_pipeline_runs_unchanged(cluster, name):
    """Code folder, output folder, variables and completion flag are what they are on 0.7.1."""
    assert build(Train(name))
    with (Train(name).output() / "metrics.json").open() as file:
        metrics = json.load(file)
    assert metrics["code"] == "from HDFS"
    assert metrics["hosts"].startswith("127.0.0.1:")
    with (Train(name).output() / "_SUCCESS").open() as flag:
        assert flag.read() == f"{name}\n"
    assert jobs_of(cluster, name) == [name]
    new_process()
    assert build(Train(name))
    assert jobs_of(cluster, name) == [name]


def test_a_job_without_an_output_folder(cluster, name):
    """v2 servers choose none; the job has the one that a v1 server would have chosen."""

    class Default(PaiTask):
        name = luigi.Parameter()
        image = "x"
        output_dir = None
        tasks = [TaskRole("main", "echo 1 | hdfs dfs -put - $PAI_OUTPUT_DIR/one")]

    assert build(Default(name))
    with HdfsTarget(f"/Output/{cluster.username}/{name}/one").open() as one:
        assert one.read() == "1\n"


@pytest.mark.usefixtures("cluster")
def test_a_failure_says_why(name):
    """The command's exit code and its last lines, with a page that is there."""
    with pytest.raises(PaiJobFailed) as caught:
        Broken(name).run()
    text = str(caught.value)
    assert f"job {name!r} ended as FAILED with exit code 255, its command with 3" in text
    assert "last lines of main[0]:\n    working\n    no such layer\n" in text
    (page,) = [line.split(": ", 1)[1] for line in text.splitlines() if "job page" in line]
    assert name in requests.get(page, timeout=5).text


def test_after_failures_a_new_attempt_and_its_success(cluster, name, monkeypatch):
    """A failed job is followed by NAME__attempt2 in a later process, whose success completes the task."""
    assert not build(Broken(name))
    new_process()
    monkeypatch.setattr(Broken, "tasks", [TaskRole("main", "true")])
    assert build(Broken(name))
    assert jobs_of(cluster, name) == [name, f"{name}__attempt2"]
    new_process()
    assert Broken(name).complete()


def test_a_job_is_stopped_from_luigis_page(cluster, name):
    """`stop` of the scheduler ends the job as STOPPED."""
    task = type("Sleeps", (PaiTask,), {"name": name, "image": "x", "tasks": [TaskRole("main", "sleep 60")]})()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(task.run)
        while not jobs_of(cluster, name):
            assert not running.done(), running.exception()
            time.sleep(0.05)
        OpenPai().cluster().stop(name)
        with pytest.raises(PaiJobFailed, match="ended as STOPPED"):
            running.result(30)


@pytest.mark.parametrize("api", ["v2", "ltp"])
def test_the_server_is_killed_in_the_middle(as_settings, name, tmp_path, api):
    """A server that is killed and comes back while the job runs costs the task nothing."""
    with LocalPai(tmp_path / "data", api=api, port=own_port(), hdfs=True) as server:
        as_settings(server)
        assert build(Code(name))
        task = Train(name, until=str(tmp_path / "go"))
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(task.run)
            while not list(server.data.glob("jobs/*/attempt1/themain-0/work/metrics.json")):
                assert not running.done(), running.exception()
                time.sleep(0.02)
            server.kill()
            time.sleep(0.5)
            server.start()
            (tmp_path / "go").touch()
            running.result(60)
        assert task.complete()
        assert jobs_of(server, name) == [name]


# ---------------------------------------------------------------- job protocols

PROTOCOL = """
protocolVersion: 2
name: protocol
type: job
prerequisites:
  - {name: image, type: dockerimage, uri: ubuntu}
  - name: words
    type: data
    require: [tools]
    file: words.txt
    callbacks:
      - event: containerStart
        commands: ["cp tools.txt <% this.parameters.file %>", "echo data >> <% this.parameters.file %>"]
  - name: tools
    type: script
    callbacks:
      - {event: taskStarts, commands: ["echo tools > tools.txt"]}
parameters: {text: none}
secrets: {key: none}
taskRoles:
  main:
    instances: 1
    prerequisites: [words]
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 256, gpu: 0}
    commands:
      - cat words.txt > FOLDER/words
      - |-
        cat > FOLDER/text <<'END OF TEXT'
        <% $parameters.text %>
        END OF TEXT
      - |-
        cat > FOLDER/key <<'END OF TEXT'
        <% $secrets.key %>
        END OF TEXT
"""


class Job(PaiProtocolTask):
    """A job with prerequisites that need each other, a parameter and a secret."""

    name = luigi.Parameter()
    folder = luigi.Parameter()
    text = luigi.Parameter(default="plain", significant=False)
    key = "hush-hush"

    @property
    def protocol(self):
        return PROTOCOL.replace("FOLDER", self.folder)

    @property
    def parameters(self):
        return {"text": self.text}

    @property
    def secrets(self):
        return {"key": self.key}


@pytest.mark.usefixtures("cluster")
def test_prerequisites_run_in_the_order_they_need(name, tmp_path):
    """What a prerequisite requires runs before it; the proposal's names and own keys work."""
    assert build(Job(name, str(tmp_path)))
    assert (tmp_path / "words").read_text() == "tools\ndata\n"


@pytest.mark.parametrize("kind", ["parameter", "secret"])
@pytest.mark.parametrize(
    "value",
    [
        "it's",
        'a "b" c',
        "<tag> & </tag>",
        "100% & more %>",
        "$HOME `ls` \\",
        "two\nlines",
        "é 漢 🚀",
        "  padded",
    ],
)
def test_values_arrive_unharmed(cluster, name, tmp_path, kind, value):
    """What parameters and secrets hold reaches the command as it is."""
    task = Job(name, str(tmp_path), text=value if kind == "parameter" else "plain")
    if kind == "secret":
        task.key = value
    task.run()
    assert (tmp_path / "key" if kind == "secret" else tmp_path / "text").read_text() == f"{value}\n"
    assert cluster.url


def test_a_secret_is_nowhere(cluster, name, tmp_path, caplog):
    """Not in the log of the task, the server's config, its pages, its database or its own log."""
    caplog.set_level("DEBUG")
    secret = "hush-hush-and-never-tell"
    task = Job(name, str(tmp_path))
    task.key = secret
    task.run()
    assert (tmp_path / "key").read_text() == f"{secret}\n"
    paths = (
        f"/api/v2/jobs/admin~{name}",
        f"/api/v2/jobs/admin~{name}/config",
        "/",
        f"/job-detail.html?username=admin&jobName={name}",
    )
    shown = [ask(cluster, path).text for path in paths]
    assert all(name in text for text in shown)
    assert not [text for text in [caplog.text, *shown] if secret in text]


@pytest.mark.usefixtures("cluster")
def test_a_failed_protocol_says_why(name, tmp_path):
    task = Job(name, str(tmp_path / "missing"))
    with pytest.raises(PaiJobFailed, match=r"words: No such file or directory"):
        task.run()
    assert not task.output().exists()
