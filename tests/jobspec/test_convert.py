"""v1 jobs as job protocols, and what is said to be lost."""

from __future__ import annotations

import functools
import json

import pytest
from job_cases import AS_ON_V2, bash, cases
from job_files import parameters

from luigi_pai.errors import Level, SpecError
from luigi_pai.jobspec.convert import convert
from luigi_pai.jobspec.dialects.yaml_text import read_yaml
from luigi_pai.jobspec.job import PaiJob, Port, TaskRole, default_output
from luigi_pai.jobspec.names import v2_name
from luigi_pai.jobspec.submission import filled_commands, submission_text
from luigi_pai.jobspec.validate import validate_job
from luigi_pai.jobspec.validate_protocol import validate_protocol

CASES = cases("convert")
ABSENT_SHM = "shmMB: is missing, meaning 64 MB on v1, 512 on OpenPAI v2 and 16384 on LTP; the role gets 64"


def job(*roles, **about):
    return PaiJob("train", "ubuntu", list(roles) or [TaskRole("main", "true")], **about)


def losses(conversion):
    return [str(loss) for loss in conversion.losses]


def is_right(file):
    """Return whether a server takes a file, and the container starts."""
    breaks_later = file.name in ("default_shared_memory.json", "same_role_twice.json")
    breaks_later |= '"image": "<' in file.text  # of an example, to be filled in
    return (file.accepted("v0.7.1") or file.accepted("v0.14.0")) and not breaks_later


@pytest.mark.parametrize("file", parameters("v1", is_right))
def test_v1_jobs_become_protocols_that_1_8_takes(file):
    """Every v1 config that runs gives a protocol with no problem but its own, in the size that is sent."""
    conversion = convert(json.loads(file.text), fs_uri="hdfs://nn:9000")
    text = submission_text(conversion.protocol)
    document = read_yaml(text)
    problems = validate_protocol(document.value, lines=document.lines, text=text)
    own = {problem.message for problem in validate_job(json.loads(file.text))}
    assert [problem for problem in problems if problem.message not in own] == []


@pytest.mark.parametrize(("about", "expected", "lost"), CASES["parts"])
def test_what_becomes_of_a_job(about, expected, lost):
    """Defaults are the v1 server's, numbers may be text, and each role keeps a name of its own.

    v1 asks for InfiniBand by a variable, and means it by true alone; the variable itself stays.
    """
    made = convert({"jobName": "j", "image": "x", **about}, fs_uri="hdfs://nn:9000/")
    document = made.protocol.to_dict()
    for path, value in expected.items():
        found = functools.reduce(lambda part, step: part[step], path.split("."), document)
        assert found == value, path
    assert losses(made) == [said.replace("{SHM}", ABSENT_SHM) for said in lost]


def test_the_whole_table():
    """Each v1 field goes where the manual's table says."""
    role = TaskRole("worker", "python train.py", 2, 4, 8192, 1024, 1, [Port("web", 0, 2)], None, 2)
    folders = {field: f"hdfs://nn/{field.removesuffix('Dir')}" for field in ("dataDir", "codeDir")}
    made = convert(job(role, outputDir="hdfs://nn/out", virtualCluster="vc1", retryCount=3, **folders))
    assert made.protocol.to_dict() == CASES["table"]


def test_every_loss_is_said():
    """What has no counterpart is named with its path, each once, as a warning."""
    made = convert(CASES["lossy"])
    assert {loss.level for loss in made.losses} == {Level.WARNING}
    assert losses(made) == [said.replace("NAME", v2_name("my.job")) for said in CASES["losses"]]


def test_a_default_output_folder_is_missed_only_if_a_command_uses_it():
    for command, missed in (("true", []), ("cp model $PAI_OUTPUT_DIR/", ["outputDir"])):
        made = convert(job(TaskRole("w", command), outputDir=default_output("j")))
        assert [loss.path for loss in made.notable_losses if loss.path == "outputDir"] == missed


@pytest.mark.parametrize("text", CASES["tags"])
def test_template_tags_in_a_v1_command_stay_text(text):
    """A v1 command knows no references: what looks like one reaches the shell as it was."""
    made = convert(job(TaskRole("w", f"echo '{text}'")))
    assert filled_commands(made.protocol)["w"].endswith(f"echo '{text}'")


def ran(made, *options):
    """Return what the command of a converted job of one role prints."""
    (command,) = filled_commands(made.protocol).values()
    variables = {"PATH": "/usr/bin:/bin", "PAI_JOB_NAME": "admin~j", "PAI_USER_NAME": "admin"}
    return bash(command, *options, env=variables).stdout


@pytest.mark.parametrize("value", CASES["variables"])
def test_variables_of_the_job_arrive_unharmed(value):
    """The values of jobEnvs are what the command finds, whatever characters they have."""
    made = convert(job(TaskRole("w", 'printf "%s" "$MINE"'), jobEnvs={"MINE": value}))
    assert ran(made, *AS_ON_V2) == (value if isinstance(value, str) else json.dumps(value))


@pytest.mark.parametrize("path", CASES["folders"])
def test_folders_arrive_unharmed(path, tmp_path, monkeypatch):
    """A folder's name is no part of the shell's program."""
    monkeypatch.chdir(tmp_path)
    assert ran(convert(job(TaskRole("w", 'printf "%s" "$PAI_OUTPUT_DIR"'), outputDir=path))) == path
    assert list(tmp_path.iterdir()) == []


def test_a_v1_shell_goes_on_after_a_failed_command():
    """A v1 job that ignores a failed command, or an unset variable, does so on v2 too."""
    made = convert(job(TaskRole("w", "false; echo $NOTHING; false | true; echo here")))
    assert ran(made, *AS_ON_V2).endswith("here\n")


def test_the_name_of_a_role_is_no_home_folder():
    """v1 names may begin with ~."""
    (role,) = convert(job(TaskRole("~", "true"))).protocol.taskRoles.values()
    assert "PAI_TASK_ROLE_NAME='~' PAI_CURRENT_TASK_ROLE_NAME='~' " in " ".join(role.commands)


def test_what_is_no_v1_job_is_refused():
    """A document that no v1 server takes is not converted."""
    with pytest.raises(SpecError, match="taskRoles: is missing"):
        convert({"jobName": "j", "image": "x"})


def test_a_job_with_another_name_has_its_own_as_description():
    """So whoever looks at the job finds the task."""
    named = PaiJob("train-0.1__attempt2", "ubuntu", [TaskRole("main", "true")])
    made = convert(named).protocol.to_dict()
    assert made["name"] == f"{v2_name('train-0.1')}__attempt2"
    assert made["description"] == "train-0.1__attempt2"
    assert "description" not in convert(job()).protocol.to_dict()


def test_other_names_stay_apart():
    """Two v1 names never become one v2 name."""
    assert len({v2_name(name) for name in ("a.b", "a~b", "a-b", "a..b", "a.-b")}) == 5
    assert len(v2_name("x" * 200 + "." + "y" * 40) + "__attempt999") <= 255
