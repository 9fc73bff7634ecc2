"""The pytest plugin luigi_pai.testing, in pytests of its own: fixtures, marker, option."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from statistics import median

import pytest
from places import ROOT


@pytest.mark.slow
def test_jobs_end_as_a_test_says(run):
    """No command runs; the first script that matches decides until it is used up."""
    code, out = run("""
def test_exits(pai):
    pai.when("train*").exits(1, stderr="CUDA out of memory", times=1)
    pai.when("train*").succeeds()
    with pytest.raises(PaiJobFailed, match="CUDA out of memory"):
        Train().run()
    Train().run()
    assert pai.submitted == ["train", "train__attempt2"]
    assert pai.job("train").status().exit_code == 255  # as 1.8 reports most codes

def test_is_empty_and_runs_commands_again(pai):
    assert pai.submitted == []
    with pytest.raises(PaiJobFailed, match="it ran"):
        Train().run()

def test_waits(pai):
    pai.when("train").waits()
    with pytest.raises(PaiJobTimeout, match="queue_timeout"):
        Train().run()

def test_runs(pai):
    pai.when("train").runs()
    with pytest.raises(PaiJobTimeout, match="run_timeout"):
        Train().run()

def test_no_such_job(pai):
    pai.when("*").succeeds()
    Train().run()
    with pytest.raises(AssertionError, match="no job 'other' was submitted; there are: train$"):
        pai.job("other")
""")
    assert code == 0, out
    assert "5 passed" in out


@pytest.mark.slow
def test_files_of_hdfs_are_gone_after_the_test(run):
    code, out = run("""
from luigi_pai import HdfsTarget

@pytest.mark.parametrize("time", [1, 2])
def test_it(pai, time):
    target = HdfsTarget("/results/a.txt")
    assert not target.exists()
    with target.open("w") as file:
        file.write("a")
    pai.when("*").succeeds()
    Train().run()
    assert Train().output().exists()
    assert target.exists()
""")
    assert code == 0, out


@pytest.mark.slow
def test_requests_fail_as_often_as_a_test_says(run):
    code, out = run("""
def test_it(pai):
    pai.when("*").succeeds()
    pai.fail("POST", "/jobs", status=503, times=2)
    pai.fail("GET", "/jobs/*", status=500, times=1)
    Train().run()
    assert [(rule["status"], rule["struck"]) for rule in pai.server.fault_counts()] == [(503, 2), (500, 1)]
    pai.fail("get", "/jobs/*", status=429, times=0)
    assert [rule["count"] for rule in pai.server.fault_counts()] == [0, 0, 0]

def test_no_faults_are_left(pai):
    assert pai.server.fault_counts() == []
""")
    assert code == 0, out


@pytest.mark.slow
def test_the_clock_moves_and_the_server_forgets(run):
    code, out = run("""
@pytest.mark.pai("v1")
def test_v1(pai):
    pai.when("*").succeeds()
    Train().run()
    pai.advance(hours=11)
    assert pai.submitted == ["train"]
    pai.advance(hours=2)
    assert pai.submitted == []
    assert Train().complete()  # its output says so

def test_v2(pai):
    pai.when("*").succeeds()
    Train().run()
    pai.advance(days=29)
    assert pai.submitted == ["train"]
    pai.advance(days=2)
    assert pai.submitted == []
""")
    assert code == 0, out


@pytest.mark.slow
def test_a_task_on_a_further_cluster(run):
    """It runs on the one server of the test, which forgets its job as any other."""
    code, out = run(
        """
import pytest
from luigi_pai import PaiTask, TaskRole

class OnEu(PaiTask):
    cluster = "eu"
    name = "on-eu"
    image = "x"
    tasks = [TaskRole("main", "true")]

@pytest.mark.pai(api="v1")
def test_it(pai):
    pai.when("*").succeeds()
    OnEu().run()
    assert pai.submitted == ["on-eu"]
    assert OnEu().complete()
    pai.advance(hours=13)
    assert pai.submitted == []
    assert OnEu().complete()  # by its flag
    OnEu().output().remove()
    assert not OnEu().complete()
""",
        config="[OpenPai]\npai_url = http://real.example:1\n[OpenPai:eu]\npai_url = http://eu.example:2\n",
    )
    assert code == 0, out


@pytest.mark.slow
def test_luigis_configuration_leads_to_it_and_is_restored(run):
    """Every section of clusters, also for Luigis in other processes; the user's own is back afterwards."""
    config = "[OpenPai]\npai_url = http://real.example:1\n[OpenPai:eu]\npai_url = http://eu.example:2\n"
    code, out = run(
        """
import luigi.configuration, os, pathlib, subprocess, sys
SHOW = "import luigi.configuration as c; g = c.get_config().get; "
SHOW += "print(g('OpenPai', 'pai_url'), g('OpenPai:eu', 'pai_url'))"

def settings():
    config = luigi.configuration.get_config()
    return config.get("OpenPai", "pai_url"), config.get("OpenPai:eu", "pai_url")

def test_in(pai):
    assert settings() == (pai.url, pai.url)
    shown = subprocess.check_output([sys.executable, "-W", "ignore", "-c", SHOW], text=True)
    assert shown.split() == [pai.url, pai.url]
    global file
    file = pathlib.Path(os.environ["LUIGI_CONFIG_PATH"])
    assert file.stat().st_mode & 0o777 == 0o600

def test_out():
    assert not file.exists()
    assert settings() == ("http://real.example:1", "http://eu.example:2")
""",
        config=config,
    )
    assert code == 0, out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("marker", "api", "other", "version"),
    [
        ("", "v2", "v1", "v1.8.0"),
        ("@pytest.mark.pai('v2')", "v2", "v1", "v1.8.0"),
        ("@pytest.mark.pai(api='v1')", "v1", "v2", None),
        ("@pytest.mark.pai('ltp')", "v2", "v1", "v1.8.1"),
    ],
    ids=["none", "v2", "v1", "ltp"],
)
def test_the_marker_chooses_the_api(run, marker, api, other, version):
    code, out = run(f"""
{marker}
def test_it(pai):
    info = requests.get(f"{{pai.url}}/api/v2/info", timeout=20).json()
    assert info.get("version") == {version!r}
    assert requests.get(f"{{pai.url}}/api/{other}/jobs", timeout=20).status_code == 404
    pai.when("*").succeeds(stdout="done")
    Train().run()
    if "{api}" == "v2":  # 0.7.1 gives out no logs
        assert pai.job("train").logs("main")["stdout"] == "done"
    assert pai.server.jobs() == [{{"name": "train", "username": "admin"}}]
""")
    assert code == 0, out


@pytest.mark.slow
@pytest.mark.parametrize("words", ["api='v3'", "'v3'", "", "'v1', 'v2'", "'v1', api='v1'", "version='v1'"])
def test_a_wrong_marker_is_named(run, words):
    code, out = run(f"@pytest.mark.pai({words})\ndef test_it(pai): pass\n")
    assert code == 1
    assert f"test_it.py::test_it: pai({words}): give api='v1', 'v2' or 'ltp'" in out


@pytest.mark.slow
def test_the_url_of_the_server_for_other_programs(run):
    code, out = run("""
def test_by_url(pai_server, pai):
    user = {"username": "admin", "password": pai.server.password}
    token = requests.post(f"{pai_server}/api/v2/authn/basic/login", json=user, timeout=20).json()["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert requests.get(f"{pai_server}/api/v2/jobs", headers=headers, timeout=20).json() == []
    cluster = Cluster(pai_server, "admin", token=token)
    assert cluster.submit(Train(command="true").job())

def test_it(pai_server, pai):
    assert pai_server == pai.url
    assert pai.submitted == []
    assert pai.server.jobs() == []
""")
    assert code == 0, out


@pytest.mark.slow
def test_what_one_test_mocks_is_nothing_to_the_next(run):
    """The same name succeeds in one test, and is not there in the next."""
    code, out = run("""
import luigi, responses
from luigi_pai import PaiTask, TaskRole

class Mocked(PaiTask):
    name, image, tasks = "mocked", "x", [TaskRole("main", "true")]

def settings():
    config = luigi.configuration.get_config()
    for key, value in {"pai_url": "http://pai", "username": "anna", "password": "p"}.items():
        config.set("OpenPai", key, value)

@responses.activate
def test_done():
    settings()
    status = {"state": "SUCCEEDED", "username": "anna", "createdTime": 1}
    responses.get("http://pai/api/v1/jobs/mocked", json={"jobStatus": status})
    assert Mocked().complete()

@responses.activate
def test_missing():
    settings()
    responses.get("http://pai/api/v1/jobs/mocked", status=404, json={})
    assert not Mocked().complete()
""")
    assert code == 0, out


@pytest.mark.slow
def test_mocked_routes(run):
    """No server is started."""
    code, out = run("""
def test_it(pai_mock):
    Train().run()
    assert pai_mock.submitted[0]["taskRoles"][0]["command"].startswith("echo")
    assert Train().complete()

def test_fails(pai_mock):
    pai_mock.ends["train"] = "FAILED"
    with pytest.raises(PaiJobFailed):
        Train().run()

def test_is_there(pai_mock):
    pai_mock.states["train"] = "SUCCEEDED"
    Train().run()
    assert pai_mock.submitted == []
    assert OpenPai().pai_url == "http://pai.test"
""")
    assert code == 0, out


@pytest.mark.slow
def test_a_real_cluster(run, local_pai_v1):
    """Jobs run there; what cannot be scripted there is skipped, with the reason."""
    url = local_pai_v1.url
    name = f"train-{os.getpid()}"
    code, out = run(
        f"""
def test_runs(pai):
    assert pai.url == "{url}"
    Train(name="{name}", command="true").run()
    assert pai.submitted == ["{name}"]
    assert pai.job("{name}").status().succeeded

def test_scripted(pai):
    pai.when("*").succeeds()

def test_faults(pai):
    pai.fail("GET", "/jobs", times=1)

def test_clock(pai):
    pai.advance(hours=13)
""",
        f"--pai-url={url}",
        config=f"[OpenPai]\nusername = admin\npassword = {local_pai_v1.password}\n",
    )
    assert code == 0, out
    assert "1 passed, 3 skipped" in out
    reason = f"only on this machine, not on {url} (--pai-url)"
    for what in ("jobs that are scripted", "faults", "a clock that can be moved"):
        assert f"{what}: {reason}" in out
    assert local_pai_v1.password not in out


@pytest.mark.slow
def test_tests_for_another_api_are_skipped_on_a_real_cluster(run, local_pai_v2):
    code, out = run(
        "@pytest.mark.pai(api='v1')\ndef test_it(pai): pass\n",
        f"--pai-url={local_pai_v2.url}",
        config=f"[OpenPai]\nusername = admin\npassword = {local_pai_v2.password}\n",
    )
    assert code == 0, out
    assert f"this test is for v1, and {local_pai_v2.url} speaks v2" in out


@pytest.mark.slow
def test_several_processes(run):
    """Each process of pytest-xdist has a server of its own."""
    code, out = run(
        """
@pytest.mark.parametrize("number", range(4))
def test_it(pai, number):
    pai.when("*").succeeds()
    Train(name=f"train-{number}").run()
    assert pai.submitted == [f"train-{number}"]
""",
        "-n2",
    )
    assert code == 0, out
    assert "4 passed" in out


@pytest.mark.slow
@pytest.mark.tree
def test_the_example_project():
    """examples/testing, as its own pytest runs it."""
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "luigi_pai.testing", "-p", "no:cacheprovider",
            "-n0", "-c", os.devnull, "--rootdir", ".",
        ],
        cwd=ROOT / "examples" / "testing", capture_output=True, text=True, check=False, timeout=170,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


@pytest.mark.slow
def test_nothing_heavy_is_loaded_before_a_fixture_is_used():
    """pytest loads the plugin whenever it starts."""
    script = (
        "import pytest, sys; before = {*sys.modules}; import luigi_pai.testing; "
        "print(*{*sys.modules} - before)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} == {"luigi_pai", "luigi_pai.testing"}


@pytest.mark.slow
def test_the_plugin_adds_less_than_20_milliseconds():
    """Of the processor's time, to what importing pytest takes."""
    script = (
        "import time, pytest; begin = time.process_time(); import luigi_pai.testing; "
        "print(time.process_time() - begin)"
    )
    times = [
        float(
            subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        )
        for _ in range(5)
    ]
    assert median(times) < 0.020


def test_the_entry_point_is_declared():
    text = (ROOT / "pyproject.toml").read_text()
    assert re.search(
        r'^\[project.entry-points.pytest11\]\n"luigi_pai.testing" = "luigi_pai.testing"$', text, re.MULTILINE
    )
