"""--cluster and LUIGI_PAI_CLUSTER: each command that talks to a cluster, on one of two."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import luigi.configuration
import pytest
from cli_commands import cli_commands

from luigi_pai import reset_clusters

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.local import LocalPai

ON_THIS_MACHINE = {"convert", "local", "payload", "render", "runtime", "validate"}

MODULE = """
import luigi
from luigi_pai import PaiTask, TaskRole

class OnOneCluster(PaiTask):
    name = "NAME"
    image = "x"
    tasks = [TaskRole("main", "true", memoryMB=100)]

class OnAnyCluster(OnOneCluster):
    cluster = luigi.OptionalParameter(default=None)
"""


@pytest.fixture
def gpu2(cluster: LocalPai, local_pai_v2: LocalPai, further: Callable[..., None]) -> LocalPai:
    """A local OpenPAI 1.8 as [OpenPai:gpu2], beside one of 0.7.1 as [OpenPai]."""
    assert cluster.url != local_pai_v2.url
    further("gpu2", local_pai_v2)
    return local_pai_v2


@pytest.fixture
def job(gpu2: LocalPai, pai_command: Callable[..., Any], protocol_file, name: str) -> str:
    """The name of a job that was submitted to gpu2, and has ended there."""
    file = protocol_file(name, "echo on gpu2; exit 3")
    said = pai_command("submit", "--cluster", "gpu2", "--wait", file, expect=1)
    assert said.stdout == f"{name}\n"
    assert name in [job["name"] for job in gpu2.jobs()]
    return name


def test_each_command_has_the_option():
    """But those that need no cluster."""
    having = {name for name, command in cli_commands().items() if "--cluster" in _options(command)}
    assert having == set(cli_commands()) - ON_THIS_MACHINE


def _options(command: Any) -> list[str]:
    return [option for parameter in command.params for option in parameter.opts]


@pytest.mark.slow
def test_jobs(job, gpu2, cluster, pai_command):
    """list, status, logs, stop and submit --like; what they advise has the option, too."""
    there = ("--cluster", "gpu2")
    assert job in pai_command("list", *there, "-q").stdout.split()
    assert job not in pai_command("list", "-q").stdout.split()
    titles = pai_command("list", *there).stdout.splitlines()[0].split()
    assert titles[-1] == "VC"  # --cluster is another cluster, not a virtual one
    shown = pai_command("status", job, *there).stdout
    assert "page" in shown
    assert gpu2.url in shown
    assert f"logs: luigi-pai logs --cluster gpu2 {job}\n" in shown
    assert f"again: run its Luigi task again, or luigi-pai submit --cluster gpu2 --like {job}" in shown
    pai_command("status", job, expect=1)
    assert "on gpu2" in pai_command("logs", *there, job).stdout
    assert "has already ended" in pai_command("stop", *there, job).stdout
    again = pai_command("submit", *there, "--like", job)
    assert f"logs: luigi-pai logs --cluster gpu2 -f {again.stdout.strip()}" in again.stderr
    assert again.stdout.strip() in [each["name"] for each in gpu2.jobs()]
    assert again.stdout.strip() not in [each["name"] for each in cluster.jobs()]
    assert "LUIGI_PAI_CLUSTER" not in os.environ


@pytest.mark.usefixtures("gpu2")
def test_files(cluster, pai_command, tmp_path, name):
    """put, get and ls are on its HDFS."""
    (tmp_path / "a").write_text("on gpu2")
    pai_command("put", "--cluster", "gpu2", str(tmp_path / "a"), f"/{name}/a")
    assert pai_command("ls", f"/{name}", "--cluster", "gpu2").stdout.split()[-1] == "a"
    pai_command("get", f"/{name}/a", str(tmp_path / "b"), "--cluster=gpu2")
    assert (tmp_path / "b").read_text() == "on gpu2"
    assert cluster.webhdfs_url.split("//")[1] in pai_command("ls", f"/{name}", expect=1).stderr


def test_the_variable(job, pai_command, monkeypatch):
    """It comes after the option; an empty option means [OpenPai]."""
    monkeypatch.setenv("LUIGI_PAI_CLUSTER", "gpu2")
    assert job in pai_command("list", "-q").stdout.split()
    assert job not in pai_command("list", "-q", "--cluster", "").stdout.split()
    monkeypatch.setenv("LUIGI_PAI_CLUSTER", "nowhere")
    assert job in pai_command("list", "-q", "--cluster", "gpu2").stdout.split()
    said = pai_command("list", expect=2).stderr
    assert said.startswith("luigi-pai list: cluster 'nowhere', which LUIGI_PAI_CLUSTER names, is not in ")
    assert os.environ["LUIGI_PAI_CLUSTER"] == "nowhere"


@pytest.mark.usefixtures("gpu2")
@pytest.mark.parametrize("words", ["list", "status x", "submit x", "ls /", "doctor", "plan m T", "run m T"])
def test_a_name_without_a_section(words, pai_command):
    """One line, exit code 2, and the sections that there are."""
    command, *rest = words.split()
    assert pai_command(command, "--cluster", "gpu3", *rest, expect=2).stderr == (
        f"luigi-pai {command}: cluster 'gpu3' is not in luigi.cfg: there is no section [OpenPai:gpu3]; "
        "it has [OpenPai], [OpenPai:gpu2]\n"
    )


def test_a_page_of_another_user(gpu2, pai_command):
    """The error names the section that has the user name."""
    page = f"{gpu2.url}/job-detail.html?username=bob&jobName=x"
    said = pai_command("status", "--cluster", "gpu2", page, expect=2).stderr
    assert "is a job of bob, and [OpenPai:gpu2] has username = admin" in said


def test_doctor(gpu2, cluster, further, pai_command):
    """It checks one cluster, its HDFS too, and names the others."""
    further("eu", pai_url="http://127.0.0.1:9", username="eva", pasword="x")
    text = pai_command("doctor", "--cluster", "gpu2").stdout
    assert "checking the cluster of [OpenPai:gpu2]; others: --cluster eu" in text
    assert f"ok    hdfs: {gpu2.webhdfs_url} responds" in text
    assert cluster.url not in text
    text = pai_command("doctor").stdout
    assert "checking the cluster of [OpenPai]; others: --cluster gpu2, --cluster eu" in text
    assert cluster.url in text
    text = pai_command("doctor", "--cluster", "eu", expect=2).stdout
    assert "warn  configuration: [OpenPai:eu] has a key 'pasword', which does not exist" in text
    assert "fail  configuration: [OpenPai:eu] has neither password nor token for user eva" in text


@pytest.mark.usefixtures("gpu2")
def test_doctor_finds_a_misspelled_cluster(pai_command):
    """Which no name would find."""
    luigi.configuration.get_config().set("openpai:eu", "pai_url", "http://eu")
    try:
        text = pai_command("doctor", "--cluster", "gpu2").stdout
    finally:
        luigi.configuration.get_config().remove_section("openpai:eu")
    assert "warn  configuration: rename [openpai:eu] to [OpenPai:eu]" in text


@pytest.mark.slow
def test_completion_shows_nothing_of_a_configuration_that_cannot_be_read(tmp_path, as_process):
    """A traceback in the middle of a command line has the line that is wrong."""
    (tmp_path / "luigi.cfg").write_text("password = hidden\n")
    words = "luigi-pai list --cluster gpu2 --all"
    done = as_process(_LUIGI_PAI_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD="4")
    assert (done.stdout, done.stderr) == ("plain,--all-users\n", "")


@pytest.mark.slow
def test_plan_and_run(gpu2, cluster, name, tmp_path, monkeypatch, pai_command, as_process):
    """--cluster before MODULE is of the command; after it, it is a parameter of the task."""
    module = name.replace("-", "_")
    (tmp_path / f"{module}.py").write_text(MODULE.replace("NAME", name))
    lines = []
    for section, server in ("OpenPai", cluster), ("OpenPai:gpu2", gpu2):
        lines += [f"[{section}]", *(f"{key} = {value}" for key, value in server.luigi_section.items())]
    (tmp_path / "luigi.cfg").write_text("\n".join([*lines, "[worker]", "wait_interval = 0.2", ""]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    there = ("--cluster=gpu2", module, "OnOneCluster")
    assert "OnOneCluster()  to submit" in pai_command("plan", *there, expect=1).stdout
    as_process("run", "--cluster", "gpu2", module, "OnOneCluster", "--local-scheduler")
    assert name in [job["name"] for job in gpu2.jobs()]
    assert name not in [job["name"] for job in cluster.jobs()]
    reset_clusters()
    assert "OnOneCluster()  done" in pai_command("plan", *there).stdout
    assert "OnOneCluster()  to submit" in pai_command("plan", module, "OnOneCluster", expect=1).stdout
    shown = pai_command("plan", module, "OnAnyCluster", "--cluster", "gpu2", "--json").stdout
    assert json.loads(shown)["task"] == "OnAnyCluster(cluster=gpu2)"
