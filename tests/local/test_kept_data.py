"""What `luigi-pai local -- COMMAND` leaves: the logs of a failed job, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
import requests

from luigi_pai.local import LocalPai

CLI = [sys.executable, "-m", "luigi_pai", "local"]
SUBMIT = textwrap.dedent(
    """
    import os, requests, sys, time
    api = os.environ["LUIGI_PAI_WEBHDFS_URL"] + "/api/v1"
    password = open(os.environ["LUIGI_CONFIG_PATH"]).read().partition("password = ")[2].split()[0]
    login = {"username": "admin", "password": password}
    headers = {"Authorization": "Bearer " + requests.post(api + "/token", json=login).json()["token"]}
    for name, command in (word.split("=", 1) for word in sys.argv[1:]):
        job = {"jobName": name, "image": "x", "taskRoles": [{"name": "main", "command": command}]}
        requests.post(api + "/jobs", json=job, headers=headers).raise_for_status()
        while command != "sleep 60" and (
            requests.get(api + "/jobs/" + name).json()["jobStatus"]["state"] in ("WAITING", "RUNNING")
        ):
            time.sleep(0.05)
    """
)


@pytest.fixture
def temporary(tmp_path):
    """The folder of temporary files of a run."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


def run(temporary, *jobs, options=()):
    words = [*CLI, "--api", "v1", *options, "--", sys.executable, "-W", "ignore", "-c", SUBMIT, *jobs]
    env = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)


def folders(temporary):
    return list(temporary.glob("luigi-pai-local-run-*"))


@pytest.mark.slow
def test_the_logs_of_a_failed_job_are_kept_and_the_pages_can_be_opened(temporary):
    """The password is not kept; a job that was left running is stopped, not run again."""
    done = run(temporary, "good=true", "bad=echo no data >&2; exit 3", "left=sleep 60")
    (folder,) = folders(temporary)
    data = folder / "data"
    assert done.stderr.splitlines()[1:] == [
        "luigi-pai local: 1 of 3 jobs failed: bad",
        (
            f"luigi-pai local: logs are in {data}/jobs; for the pages: "
            f"luigi-pai local --port 0 --api v1 --data {data}"
        ),
    ]
    assert [entry.name for entry in folder.iterdir()] == ["data"]
    (errors,) = data.glob("jobs/*-bad/attempt1/main-0/stderr")
    assert errors.read_text() == "no data\n"
    with LocalPai(data, api="v1") as server:
        rows = requests.get(f"{server.url}/api/v1/jobs", timeout=20).json()
        assert {row["name"]: row["state"] for row in rows} == {
            "good": "SUCCEEDED",
            "bad": "FAILED",
            "left": "STOPPED",
        }


@pytest.mark.slow
def test_where_no_job_failed_nothing_is_kept(temporary):
    done = run(temporary, "good=true")
    assert done.stderr.splitlines()[1:] == [
        "luigi-pai local: 1 job, none failed; pages and logs are removed (--data DIR keeps them)"
    ]
    assert folders(temporary) == []


@pytest.mark.slow
def test_jobs_that_still_run_when_the_command_is_ended_are_said_to_be_stopped(temporary):
    """A pipeline that is interrupted says that they continue, as they do on a cluster."""
    done = run(temporary, "left=sleep 60", "no name=true")
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == (
        "luigi-pai local: 1 job, none failed; jobs that still ran are stopped, pages and logs are removed "
        "(--data DIR keeps them)"
    )


@pytest.mark.slow
def test_a_command_without_jobs_prints_nothing_more(temporary):
    done = run(temporary)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_with_a_data_folder_only_the_jobs_of_this_run_are_counted(temporary, tmp_path):
    data = tmp_path / "my data"
    run(temporary, "bad=false", options=("--data", str(data)))
    done = run(temporary, "good=true", options=("--data", str(data)))
    assert done.stderr.splitlines()[1:] == [
        (
            f"luigi-pai local: logs are in {data}/jobs; for the pages: "
            f"luigi-pai local --port 0 --api v1 --data '{data}'"
        )
    ]
    assert folders(temporary) == []
