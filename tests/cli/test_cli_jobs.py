"""luigi-pai validate, convert and render: as a user runs them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

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

QUOTES = "if a text is meant, put it into quotes"

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


def test_valid_files(run):
    """Each says so, of either format."""
    assert run("validate", "train.yaml", "old.json").stdout == "train.yaml: valid\nold.json: valid\n"


def test_every_problem_is_a_line(run, tmp_path):
    """FILE: PATH: message, with the line of the file; exit code 1."""
    wrong = PROTOCOL.replace("instances: 1", "instances: 0").replace("parameters.rate", "parameters.rat")
    (tmp_path / "wrong.yaml").write_text(wrong)
    lines = run("validate", "wrong.yaml", "train.yaml", expect=1).stdout.splitlines()
    assert lines[0].startswith("wrong.yaml: taskRoles.worker.instances: 0 is not ")
    assert lines[0].endswith("(line 10)")
    assert lines[1].startswith("wrong.yaml: taskRoles.worker.commands[0]: ")
    assert "rate" in lines[1]
    assert lines[2:] == ["train.yaml: valid"]


def test_lenient_agrees_with_the_server(run, tmp_path):
    """What the server takes, and we do not, is a warning then."""
    (tmp_path / "wrong.yaml").write_text(PROTOCOL.replace("parameters.rate", "parameters.rat"))
    assert "servers accept it" in run("validate", "wrong.yaml", expect=1).stdout
    lines = run("validate", "--lenient", "wrong.yaml").stdout.splitlines()
    assert lines[0].startswith("wrong.yaml: warning: taskRoles.worker.commands[0]: ")
    assert lines[1] == "wrong.yaml: valid"


def test_lenient_examines_the_rest_of_an_ambiguous_file(run, tmp_path):
    """It is valid only if the rest is; each problem of the rest is listed too."""
    odd = PROTOCOL.replace("cpu: 1", "cpu: .inf")
    (tmp_path / "odd.yaml").write_text(odd)
    first, last = run("validate", "--lenient", "odd.yaml").stdout.splitlines()
    assert first.startswith("odd.yaml: warning: ")
    assert "makes null of infinity" in first
    assert first.endswith("(line 12)")
    assert last == "odd.yaml: valid"
    (tmp_path / "odd.yaml").write_text(odd.replace("dockerImage: image", "dockerImage: imag"))
    first, last = run("validate", "--lenient", "odd.yaml", expect=1).stdout.splitlines()
    assert "makes null of infinity" in first
    assert last.startswith("odd.yaml: taskRoles.worker.dockerImage: there is no prerequisite 'imag'")
    assert run("validate", "odd.yaml", expect=1).stdout.count("\n") == 2


def test_an_ambiguous_job_is_neither_rendered_nor_converted(run, tmp_path):
    """These two have no lenient mode."""
    (tmp_path / "odd.yaml").write_text(PROTOCOL.replace("rate: 0.1", "rate: .inf"))
    (tmp_path / "odd.yml").write_text("jobName: a\nimage: b\ntaskRoles:\n- name: c\n  memoryMB: .inf\n")
    message = f"the server makes null of infinity and of what is not a number; {QUOTES}"
    done = run("render", "odd.yaml", expect=1)
    assert (done.stdout, done.stderr) == ("", f"odd.yaml: parameters.rate: column 20: {message} (line 6)\n")
    done = run("convert", "odd.yml", expect=1)
    where = "odd.yml: taskRoles[0].memoryMB: column 13"
    assert (done.stdout, done.stderr) == ("", f"{where}: {message} (line 5)\n")


def test_a_tab_that_indents_is_refused_even_leniently(run, tmp_path):
    """It ends the reading, so the file is never called valid."""
    (tmp_path / "tab.yaml").write_text(PROTOCOL.replace("name: train\n", "name: train\n\tversion: 1\n"))
    line = "column 1: a tab indents this, and servers differ in how they nest it; use blanks (line 3)\n"
    for option in ([], ["--lenient"], ["--release", "1.8.0"]):
        assert run("validate", *option, "tab.yaml", expect=1).stdout == f"tab.yaml: {line}"
    done = run("render", "tab.yaml", expect=1)
    assert (done.stdout, done.stderr) == ("", f"tab.yaml: {line}")


def test_a_release_may_be_named(run, tmp_path):
    """What came later is refused for an older cluster."""
    (tmp_path / "envs.json").write_text(json.dumps(CONFIG | {"jobEnvs": {"A": "1"}}))
    run("validate", "envs.json")
    assert "jobEnvs" in run("validate", "--release", "0.7.1", "envs.json", expect=1).stdout


def test_the_format_is_that_of_the_release(run):
    """A release runs one of the two."""
    assert "OpenPAI 1.8.0 does not run" in run("validate", "--release", "1.8.0", "old.json", expect=1).stdout
    assert "OpenPAI 0.7.1 runs v1" in run("validate", "--release", "0.7.1", "train.yaml", expect=1).stdout


@pytest.mark.parametrize(
    ("release", "code"), [("1.8.0", 1), ("ltp-1.0", 1), ("ltp-1.3", 1), ("ltp-1.4", 0), ("ltp-1.5", 0)]
)
def test_a_release_of_ltp_may_be_named(run, tmp_path, release, code):
    """jobType came with LTP 1.4; without a release a warning says so."""
    (tmp_path / "typed.yaml").write_text(PROTOCOL.replace("type: job\n", "type: job\njobType: training\n"))
    run("validate", "--release", release, "typed.yaml", expect=code)
    assert run("validate", "typed.yaml").stdout == (
        "typed.yaml: warning: jobType: needs LTP 1.4 or later; other servers refuse it "
        "(line 4)\n"
        "typed.yaml: valid\n"
    )


def test_a_scalar_that_openpai_and_ltp_read_otherwise_is_refused_for_any_release(run, tmp_path):
    """A command 1:30 is a string to LTP, and a number to OpenPAI: a named release is judged by itself."""
    command = PROTOCOL[PROTOCOL.index("- train") :]
    (tmp_path / "time.yaml").write_text(PROTOCOL.replace(command, "- 1:30\n"))
    for options in ([], ["--lenient"]):
        shown = run("validate", *options, "time.yaml", expect=1).stdout
        assert f"OpenPAI and LTP 1.1 and later take this for different values; {QUOTES}" in shown
    assert run("validate", "--release", "ltp-1.5", "time.yaml").stdout == "time.yaml: valid\n"
    for release in ("1.8.0", "ltp-1.0"):
        shown = run("validate", "--lenient", "--release", release, "time.yaml", expect=1).stdout
        assert "taskRoles.worker.commands[0]: 90 is not" in shown


def test_a_number_that_one_release_reads_as_octal_is_valid_for_each_release(run, tmp_path):
    """Also beside secrets, whose redaction is checked by reading the file again."""
    (tmp_path / "octal.yaml").write_text(PROTOCOL.replace("rate: 0.1", "rate: 0.1, mode: 010"))
    assert "secrets:" in PROTOCOL
    assert "take this for different values" in run("validate", "octal.yaml", expect=1).stdout
    for release in ("1.8.0", "ltp-1.5"):
        assert run("validate", "--release", release, "octal.yaml").stdout == "octal.yaml: valid\n"


def test_ltp_runs_no_v1_job(run):
    assert "LTP 1.5 does not run" in run("validate", "--release", "ltp-1.5", "old.json", expect=1).stdout


@pytest.mark.parametrize("release", ["9.9", "one", "0.1", "", "ltp-0.7", "ltp-1.6", "ltp-", "LTP 1.5"])
def test_a_release_that_there_is_not(run, release):
    assert "release" in run("validate", "--release", release, "train.yaml", expect=2).stderr


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
        ("bad.yaml", "a: [1\nb: 2\n", "line "),
        ("two.yaml", "a: 1\n---\nb: 2\n", "document"),
        ("empty.yaml", "", ""),
        ("deep.json", "[" * 100_000, "cannot be read as JSON: maximum recursion depth"),
        ("long.json", f'{{"retryCount": {"9" * 5000}}}', "cannot be read as JSON: Exceeds the limit"),
        ("empty.json", " \n", "empty.json: is empty; give a job config (JSON) or a job protocol (YAML)"),
        ("notes.yaml", "# later\n\n", "is empty; give a job config (JSON) or a job protocol (YAML)"),
        (
            "my.cfg",
            "# mine\n[OpenPai]\npai_url = x\npassword = hunter2\n\n[OpenPai:b]\nuser: c\nd = e\n  [f]\n",
            "is a configuration file like luigi.cfg, not a job; give a job config (JSON)",
        ),
        (
            "nan.json",
            '{"extras": {"a": NaN}}',
            f"JSON does not have NaN; {QUOTES}",
        ),
        ("bad.json", '{"jobName": }', "is not JSON, at column 13: Expecting value (line 1)"),
        (
            "comment.json",
            '{\n  // old\n  "jobName": "a"}',
            "is not JSON, at column 3: JSON has no comments; remove this one (line 2)",
        ),
        ("train.py", "print('a: 1')\n", "is a Python script, not a job file; write a job whose command"),
        ("train", "# mine\n\nimport sys\n", "or run its tasks with luigi-pai run MODULE TASK"),
        (
            "train.sh",
            "python train.py\n",
            "is a shell script, not a job file; write a job whose command runs",
        ),
        ("train", "#!/bin/bash\nset -e\n", "is a shell script, not a job file"),
        ("train", "#!/usr/bin/env python3\nx = 1\n", "is a Python script, not a job file"),
        ("train.ipynb", '{"cells": []}', "is a notebook, not a job file; write a job whose command runs it"),
        ("Dockerfile", "FROM python:3\n", "is a Dockerfile, not a job file; push the image that it builds"),
        ("word.json", '["train"]', "is of type list; it must be an object"),
        ("list.json", "[]", "is of type list; it must be an object"),
        ("large.yaml", PROTOCOL + "description: " + "x" * 102_400 + "\n", "102,"),
    ],
)
def test_files_that_are_no_jobs(run, tmp_path, name, content, message):
    """One clear line each, with exit code 1."""
    (tmp_path / name).write_text(content)
    (line,) = run("validate", name, expect=1).stdout.splitlines()
    assert line.startswith(f"{name}: ")
    assert message in line


def test_problems_of_a_v1_job_have_their_lines(run, tmp_path):
    """That of the key, or of the item; of what holds it where it is missing."""
    (tmp_path / "v1.json").write_text(
        """{
  "jobName": "a b", "extras": {"text": "}],{\\\"["},
  "image":
    "",
  "taskRoles": [
    {"name": "w", "command": "x", "taskNumber": 1, "memoryMB": "8G"},
    {
      "name": "w", "portList": [
        {"label": "a"}, {"label": "b"},
        {"label": "-"}
      ]
    }
  ],
  "retryCount": 9007199254740992
}
"""
    )
    lines = run("validate", "v1.json", expect=1).stdout.splitlines()
    shown = [(line.split(": ")[1], line.rpartition(" (line ")[2]) for line in lines]
    assert shown == [
        ("jobName", "2)"),
        ("image", "3)"),
        ("taskRoles[0].memoryMB", "6)"),
        ("taskRoles[1].command", "7)"),
        ("taskRoles[1].name", "8)"),
        ("taskRoles[1].portList[2].label", "10)"),
        ("retryCount", "14)"),
    ]
    assert lines[2].endswith("; write a number, without quotes (line 6)")


def test_a_problem_is_one_line_whatever_it_quotes(run, tmp_path):
    """A line for each problem is what programs count on."""
    broken = PROTOCOL.replace("<% $secrets.key %>", "'<% $secrets\n        .key %>'")
    (tmp_path / "broken.yaml").write_text(broken.replace("- train", "- |\n        train"))
    (line,) = run("validate", "broken.yaml", expect=1).stdout.splitlines()
    assert "<% $secrets .key %> refers to nothing, did you mean $secrets; " in line


def test_a_file_that_is_not_utf_8(run, tmp_path):
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nname: \xe9\n")
    assert run("validate", "latin.yaml", expect=1).stdout == (
        "latin.yaml: is not UTF-8; save it as UTF-8 (line 2)\n"
    )


def test_a_missing_file(run):
    assert "does not exist" in run("validate", "no.yaml", expect=2).stderr


def test_convert(run):
    """YAML on standard output, what is lost on standard error; the result is valid."""
    done = run("convert", "old.json")
    protocol = yaml.safe_load(done.stdout)
    assert protocol["name"] == "old"
    assert list(protocol["taskRoles"]) == ["psserver"]
    assert done.stderr == (
        "old.json: taskRoles[0].name: 'ps_server' becomes 'psserver': roles have letters and digits only\n"
        "old.json: taskRoles[0].shmMB: is absent, which is 64 MB on v1, 512 on OpenPAI v2 and 16384 on LTP; "
        "the role gets 64\n"
    )


def test_convert_what_is_no_v1_job(run, tmp_path):
    (tmp_path / "wrong.json").write_text('{"jobName": "x"}')
    done = run("convert", "wrong.json", expect=1)
    assert done.stdout == ""
    assert "wrong.json: image: is missing" in done.stderr
    assert run("convert", "train.yaml", expect=2).stderr == (
        "luigi-pai convert: train.yaml is a job protocol already\n"
    )


def test_render_a_task(run):
    """The job as it is sent, with the parameters of the command line and without its secrets."""
    done = run("render", "pipeline", "New", "--rate", "0.5")
    protocol = yaml.safe_load(done.stdout)
    assert protocol["name"].startswith("train_")
    assert protocol["parameters"] == {"rate": 0.5}
    assert protocol["secrets"] == {"key": "******"}
    assert "hush" not in done.stdout


def test_render_filled(run):
    """The commands as the server renders them, with stars for secrets."""
    assert run("render", "pipeline", "New", "--rate", "0.5", "--filled").stdout == (
        "# taskRoles.worker\ntrain --rate 0.5 --key ******\n"
    )
    assert run("render", "--filled", "train.yaml").stdout == (
        "# taskRoles.worker\ntrain --rate 0.1 --key ******\n"
    )


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


@pytest.mark.parametrize("filled", [[], ["--filled"]])
def test_render_a_file_that_no_server_takes(run, tmp_path, filled):
    """Each problem is a line, as in validate."""
    (tmp_path / "wrong.json").write_text('{"jobName": "x", "image": "y"}')
    (tmp_path / "wrong.yaml").write_text(PROTOCOL.replace("type: job", "type: task"))
    assert "wrong.json: taskRoles: is missing" in run("render", *filled, "wrong.json", expect=1).stderr
    (line,) = run("render", *filled, "wrong.yaml", expect=1).stderr.splitlines()
    assert line.startswith("wrong.yaml: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no.yaml"], "no.yaml is not a file; give a file, or MODULE TASK"),
        (["nomodule", "New"], "No module named 'nomodule'; is the folder of nomodule on PYTHONPATH?"),
        (["pipeline", "Other"], "Other is neither a PaiTask nor a PaiProtocolTask"),
        (["pipeline", "Nothing"], "Nothing"),
        (
            ["pipeline", "NoFile"],
            "NoFile of pipeline: [Errno 2] protocol of NoFile: there is no such file; a path is",
        ),
        (["broken", "New"], "No module named 'not_installed'; broken imports it"),
        (["pipeline", "New"], "rate"),
        (["pipeline", "New", "--rate", "x"], "x"),
    ],
)
def test_render_what_is_not_there(run, words, message):
    assert message in run("render", *words, expect=2).stderr
