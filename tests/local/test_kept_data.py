"""What `luigi-pai local -- COMMAND` leaves: the logs of a failed job, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
import requests
from local_cases import cases
from local_command import CLIENT, run

from luigi_pai.cli.local import _print_end, local
from luigi_pai.local import LocalPai
from luigi_pai.local.serve import CommandEnd

SUBMIT = f"""{CLIENT}
for name, command in (word.split("=", 1) for word in sys.argv[1:]):
    (client.submit if command == "sleep 60" else client.run)(command, name=name)"""


@pytest.fixture
def temporary(tmp_path):
    """The folder of temporary files of a run."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


def logged(temporary, *jobs, options=()):
    """Run jobs, NAME=COMMAND each, and return what was printed after the first line."""
    words = ("--api", "v1", *options, "--", sys.executable, "-W", "ignore", "-c", SUBMIT, *jobs)
    done = run(*words, env={"TMPDIR": str(temporary)})
    assert (done.returncode != 0) == ("no name=true" in jobs)
    return done.stderr.splitlines()[1:]


def folders(temporary):
    return list(temporary.glob("luigi-pai-local-run-*"))


@pytest.mark.slow
def test_the_logs_of_a_failed_job_are_kept_and_the_pages_can_be_opened(temporary):
    """The password is not kept; a job that was left running is stopped, not run again."""
    said = logged(temporary, "good=true", "bad=echo no data >&2; exit 3", "left=sleep 60")
    (folder,) = folders(temporary)
    data = folder / "data"
    assert said == [
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
def test_jobs_that_still_run_when_the_command_is_ended_are_said_to_be_stopped(temporary):
    """A pipeline that is interrupted says that they continue, as they do on a cluster; nothing is kept."""
    assert logged(temporary, "left=sleep 60", "no name=true")[-1] == (
        "luigi-pai local: 1 job, none failed; running jobs are stopped, pages and logs are removed "
        "(--data DIR keeps them)"
    )
    assert folders(temporary) == []


@pytest.mark.parametrize(("end", "lines"), cases("the_end_of_a_command_is_reported"))
def test_the_end_of_a_command_is_reported(end, lines, capsys):
    """How many of its jobs failed, and where their logs are; nothing if it had no jobs."""
    exit_code, jobs, failed, data = end
    with click.Context(local, info_name="local"):
        _print_end(CommandEnd(exit_code, jobs, failed, data and Path(data)), "v1")
    assert capsys.readouterr().err.splitlines() == [f"luigi-pai local: {line}" for line in lines]


@pytest.mark.slow
def test_with_a_data_folder_only_the_jobs_of_this_run_are_counted(temporary, tmp_path):
    data = tmp_path / "my data"
    logged(temporary, "bad=false", options=("--data", data))
    assert logged(temporary, "good=true", options=("--data", data)) == [
        (
            f"luigi-pai local: logs are in {data}/jobs; for the pages: "
            f"luigi-pai local --port 0 --api v1 --data '{data}'"
        )
    ]
    assert folders(temporary) == []
