"""luigi-pai validate, convert and render: as a user runs them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from cli_commands import replay, transcripts

from luigi_pai import PaiJob, TaskRole

if TYPE_CHECKING:
    from pathlib import Path

PROTOCOL = """\
protocolVersion: 2
name: train
type: job
prerequisites:
  - {name: image, type: dockerimage, uri: ubuntu}
parameters: {rate: 0.1}
secrets: {key: hush-hush}
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}
    commands:
      - train --rate <% $parameters.rate %> --key <% $secrets.key %>
"""

CONFIG = {"jobName": "old", "image": "ubuntu", "taskRoles": [{"name": "ps_server", "command": "true"}]}

PIPELINE = """
import luigi
from luigi_pai import PaiProtocolTask, PaiTask, TaskRole

class New(PaiProtocolTask):
    rate = luigi.FloatParameter()
    protocol = "train.yaml"

    @property
    def parameters(self):
        return {"rate": self.rate}

class Old(PaiTask):
    name, image, tasks = "old", "ubuntu", [TaskRole("main", "train")]

class NoFile(PaiProtocolTask):
    protocol = "no.yaml"

class Other(luigi.Task):
    pass
"""


@pytest.fixture
def run(here_modules: Path, pai_command):
    """Run luigi-pai in a folder with job files and a pipeline, where no cluster is to be reached."""
    (here_modules / "train.yaml").write_text(PROTOCOL)
    (here_modules / "old.json").write_text(json.dumps(CONFIG, indent=1))
    (here_modules / "pipeline.py").write_text(PIPELINE)
    (here_modules / "broken.py").write_text("import not_installed")
    return pai_command


@pytest.mark.parametrize("transcript", transcripts("job_files"))
def test_a_transcript(transcript, run, tmp_path):
    """What is typed and what is printed, as tests/data/cli/job_files.txt has it."""
    replay(transcript, run, tmp_path)


def test_as_json(run, tmp_path):
    """A list with an object for each problem; nothing else on standard output."""
    (tmp_path / "wrong.yaml").write_text(PROTOCOL.replace("instances: 1", "instances: 0"))
    (row,) = json.loads(run("validate", "--json", "wrong.yaml", "train.yaml", expect=1).stdout)
    assert row["file"] == "wrong.yaml"
    assert row["path"] == "taskRoles.worker.instances"
    assert (row["level"], row["refused"], row["line"]) == ("refused", True, 10)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("deep.json", "[" * 100_000, "cannot be read as JSON: maximum recursion depth"),
        ("long.json", f'{{"retryCount": {"9" * 5000}}}', "cannot be read as JSON: Exceeds the limit"),
        ("large.yaml", PROTOCOL + "description: " + "x" * 102_400 + "\n", "102,"),
        ("latin.yaml", "a: 1\nname: \xe9\n", "is not UTF-8; save it as UTF-8 (line 2)"),
    ],
)
def test_files_that_are_no_jobs(run, tmp_path, name, content, message):
    """One clear line each, with exit code 1, as for those in tests/data/cli/job_files.txt."""
    (tmp_path / name).write_text(content, "latin-1")
    (line,) = run("validate", name, expect=1).stdout.splitlines()
    assert line.startswith(f"{name}: ")
    assert message in line


def test_convert(run):
    """YAML on standard output, what is lost on standard error; the result is valid."""
    done = run("convert", "old.json")
    protocol = yaml.safe_load(done.stdout)
    assert protocol["name"] == "old"
    assert list(protocol["taskRoles"]) == ["psserver"]
    assert done.stderr == (
        "old.json: taskRoles[0].name: 'ps_server' becomes 'psserver': roles contain only letters and digits\n"
        "old.json: taskRoles[0].shmMB: is missing, meaning 64 MB on v1, 512 on OpenPAI v2 and 16384 on LTP; "
        "the role gets 64\n"
    )


def test_render_a_task(run):
    """The job as it is sent, with the parameters of the command line and without its secrets."""
    done = run("render", "pipeline", "New", "--rate", "0.5")
    protocol = yaml.safe_load(done.stdout)
    assert protocol["name"].startswith("train_")
    assert protocol["parameters"] == {"rate": 0.5}
    assert protocol["secrets"] == {"key": "******"}
    assert "hush" not in done.stdout


def test_render_a_v1_task(run):
    """As the JSON that is posted."""
    job = json.loads(run("render", "pipeline", "Old").stdout)
    assert job["jobName"] == "old"
    assert run("render", "--filled", "pipeline", "Old").stdout == "# taskRoles.main\ntrain\n"


def test_render_a_v1_file(run, tmp_path):
    """With the commands that servers of 0.7 can run."""
    job = PaiJob("train", "python:3", [TaskRole("main", "true")]).to_dict()
    job["taskRoles"][0]["command"] = "train # for a day\n"
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert run("render", "--filled", "job.json").stdout == "# taskRoles.main\ntrain\n"


def test_render_a_file_as_it_is(run, tmp_path):
    """A file without secrets is shown as it would be sent: as written."""
    text = "# kept\n" + PROTOCOL.replace("secrets: {key: hush-hush}\n", "").replace(
        " --key <% $secrets.key %>", ""
    )
    (tmp_path / "plain.yaml").write_text(text)
    assert run("render", "plain.yaml").stdout == text
