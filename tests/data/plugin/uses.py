"""Tests as a user writes them with the plugin; tests/testing/test_plugin.py runs them in a pytest of its own.

Their luigi.cfg names clusters that are not there: [OpenPai] at real.example:1, [OpenPai:eu] at eu.example:2.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import luigi
import luigi.configuration
import pytest
import requests
import responses
from pipeline import Train

from luigi_pai import Cluster, HdfsTarget, OpenPai, PaiJobFailed, PaiJobTimeout, PaiTask, TaskRole

SHOW = (
    "import luigi.configuration as c; g = c.get_config().get; "
    "print(g('OpenPai', 'pai_url'), g('OpenPai:eu', 'pai_url'))"
)


class OnEu(PaiTask):
    cluster = "eu"
    name = "on-eu"
    image = "x"
    tasks = [TaskRole("main", "true")]


# ---------------------------------------------------------------- jobs that end as a test says


def test_the_first_script_that_matches_decides_until_it_is_used_up(pai):
    """No command runs."""
    pai.when("train*").exits(1, stderr="CUDA out of memory", times=1)
    pai.when("train*").succeeds()
    with pytest.raises(PaiJobFailed, match="CUDA out of memory"):
        Train().run()
    Train().run()
    assert pai.submitted == ["train", "train__attempt2"]
    assert pai.job("train").status().exit_code == 255  # as 1.8 reports most codes


@pytest.mark.parametrize(
    "api", [pytest.param(api, marks=pytest.mark.pai(api)) for api in ("v1", "v2", "ltp")]
)
def test_jobs_have_the_names_of_their_tasks(pai, api):
    """V2 names have neither ``.`` nor ``~``; patterns and lookups have them all the same."""
    pai.when("train-0.1~*__attempt2").succeeds()
    pai.when("*.1~a").exits(2)
    with pytest.raises(PaiJobFailed):
        Train(name="train-0.1~a").run()
    Train(name="train-0.1~a").run()
    assert pai.submitted == ["train-0.1~a", "train-0.1~a__attempt2"], api
    assert pai.job("train-0.1~a").wait().state.value == "FAILED"
    assert pai.job("train-0.1~a__attempt2").status().succeeded
    handle = pai.cluster.submit(Train(name="b.c", command="exit 4").job())
    assert not handle.wait().succeeded
    assert pai.submitted[2:] == ["b.c"]
    assert pai.job(handle.name).name == pai.job("b.c").name == handle.name


def test_the_next_test_has_no_jobs_and_runs_commands_again(pai):
    assert pai.submitted == []
    with pytest.raises(PaiJobFailed, match="it ran"):
        Train().run()


def test_waits(pai, monkeypatch):
    monkeypatch.setattr(Train, "queue_timeout", 0.3)
    pai.when("train").waits()
    with pytest.raises(PaiJobTimeout, match="queue_timeout"):
        Train().run()


def test_runs(pai, monkeypatch):
    monkeypatch.setattr(Train, "run_timeout", 1)
    pai.when("train").runs()
    with pytest.raises(PaiJobTimeout, match="run_timeout"):
        Train().run()


@pytest.mark.pai("v1")
def test_completes(pai, monkeypatch):
    monkeypatch.setattr(Train, "queue_timeout", 1)
    monkeypatch.setattr(Train, "run_timeout", 1)
    pai.when("train").completes(after=2.5)
    Train().run()
    assert pai.job("train").status().succeeded


def test_no_such_job(pai):
    pai.when("*").succeeds()
    Train().run()
    with pytest.raises(AssertionError, match=r"no job 'other' was submitted; there are: train$"):
        pai.job("other")


@pytest.mark.pai(hdfs=True)
@pytest.mark.parametrize("time", [1, 2])
def test_files_of_hdfs_are_gone_after_the_test(pai, time):
    target = HdfsTarget("/results/a.txt")
    assert not target.exists(), time
    with target.open("w") as file:
        file.write("a")
    pai.when("*").succeeds()
    Train().run()
    assert Train().output().exists()
    assert target.exists()


# ---------------------------------------------------------------- faults and time


def test_requests_fail_as_often_as_a_test_says(pai):
    pai.when("*").succeeds()
    pai.fail("POST", "/jobs", status=503, times=2)
    pai.fail("GET", "/jobs/*", status=500, times=1)
    Train().run()
    assert [(rule["status"], rule["struck"]) for rule in pai.server.fault_counts()] == [(503, 2), (500, 1)]
    pai.fail("get", "/jobs/*", status=429, times=0)
    assert [rule["count"] for rule in pai.server.fault_counts()] == [0, 0, 0]


def test_no_faults_are_left(pai):
    assert pai.server.fault_counts() == []


@pytest.mark.pai("v1")
def test_the_clock_moves_and_the_server_forgets(pai):
    pai.when("*").succeeds()
    Train().run()
    pai.advance(hours=11)
    assert pai.submitted == ["train"]
    pai.advance(hours=2)
    assert pai.submitted == []
    assert Train().complete()  # its output says so


def test_the_clock_of_1_8(pai):
    pai.when("*").succeeds()
    Train().run()
    pai.advance(days=29)
    assert pai.submitted == ["train"]
    pai.advance(days=2)
    assert pai.submitted == []


# ---------------------------------------------------------------- which server


@pytest.mark.parametrize(
    ("api", "other", "version"),
    [
        pytest.param("v2", "v1", "v1.8.0", id="none"),
        pytest.param("v2", "v1", "v1.8.0", id="v2", marks=pytest.mark.pai("v2")),
        pytest.param("v1", "v2", None, id="v1", marks=pytest.mark.pai(api="v1")),
        pytest.param("v2", "v1", "v1.8.1", id="ltp", marks=pytest.mark.pai("ltp")),
    ],
)
def test_the_marker_chooses_the_api(pai, api, other, version):
    info = requests.get(f"{pai.url}/api/v2/info", timeout=20).json()
    assert info.get("version") == version
    assert requests.get(f"{pai.url}/api/{other}/jobs", timeout=20).status_code == 404
    pai.when("*").succeeds(stdout="done")
    Train().run()
    if api == "v2":  # 0.7.1 gives out no logs
        assert pai.job("train").logs("main")["stdout"] == "done"
    assert pai.server.jobs() == [{"name": "train", "username": "admin"}]


@pytest.mark.pai(api="v1")
def test_a_task_on_a_further_cluster(pai):
    """It runs on the one server of the test, which forgets its job as any other."""
    pai.when("*").succeeds()
    OnEu().run()
    assert pai.submitted == ["on-eu"]
    assert OnEu().complete()
    pai.advance(hours=13)
    assert pai.submitted == []
    assert OnEu().complete()  # by its flag
    OnEu().output().remove()
    assert not OnEu().complete()


def test_the_url_of_the_server_for_other_programs(pai_server, pai):
    user = {"username": "admin", "password": pai.server.password}
    token = requests.post(f"{pai_server}/api/v2/authn/basic/login", json=user, timeout=20).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert requests.get(f"{pai_server}/api/v2/jobs", headers=headers, timeout=20).json() == []
    cluster = Cluster(pai_server, "admin", token=token)
    assert cluster.submit(Train(command="true").job())


def test_the_server_is_emptied_after_each_test(pai_server, pai):
    assert pai_server == pai.url
    assert pai.submitted == []
    assert pai.server.jobs() == []


# ---------------------------------------------------------------- Luigi's configuration


def _addresses() -> tuple[str, str]:
    config = luigi.configuration.get_config()
    return config.get("OpenPai", "pai_url"), config.get("OpenPai:eu", "pai_url")


def test_every_section_leads_to_the_server_also_in_other_processes(pai, tmp_path_factory):
    assert _addresses() == (pai.url, pai.url)
    shown = subprocess.check_output([sys.executable, "-W", "ignore", "-c", SHOW], text=True)
    assert shown.split() == [pai.url, pai.url]
    file = pathlib.Path(os.environ["LUIGI_CONFIG_PATH"])
    assert file.stat().st_mode & 0o777 == 0o600
    (tmp_path_factory.getbasetemp() / "configuration").write_text(str(file))


def test_the_users_own_configuration_is_back_afterwards(tmp_path_factory):
    file = pathlib.Path((tmp_path_factory.getbasetemp() / "configuration").read_text())
    assert not file.exists()
    assert _addresses() == ("http://real.example:1", "http://eu.example:2")


# ---------------------------------------------------------------- mocked routes: no server is started


def test_mocked_routes(pai_mock):
    Train().run()
    assert pai_mock.submitted[0]["taskRoles"][0]["command"].startswith("echo")
    assert Train().complete()


def test_a_mocked_job_fails(pai_mock):
    pai_mock.ends["train"] = "FAILED"
    with pytest.raises(PaiJobFailed):
        Train().run()


def test_a_mocked_job_is_there(pai_mock):
    pai_mock.states["train"] = "SUCCEEDED"
    Train().run()
    assert pai_mock.submitted == []
    assert OpenPai().pai_url == "http://pai.test"


@pytest.fixture
def own_settings():
    config = luigi.configuration.get_config()
    before = dict(config["OpenPai"])
    for key, value in {"pai_url": "http://pai", "username": "anna", "password": "p"}.items():
        config.set("OpenPai", key, value)
    yield
    config["OpenPai"] = before


@pytest.mark.usefixtures("own_settings")
@responses.activate
def test_a_name_succeeds_in_one_test():
    status = {"state": "SUCCEEDED", "username": "anna", "createdTime": 1}
    responses.get("http://pai/api/v1/jobs/train", json={"jobStatus": status})
    assert Train().complete()


@pytest.mark.usefixtures("own_settings")
@responses.activate
def test_and_is_not_there_in_the_next():
    responses.get("http://pai/api/v1/jobs/train", status=404, json={})
    assert not Train().complete()
