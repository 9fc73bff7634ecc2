"""Several jobs as one: what they share, what each instance runs and sees, and what cannot share a job."""

from __future__ import annotations

import os
import subprocess

import pytest
from job_cases import AS_ON_V2, bash, cases

from luigi_pai import JobProtocol, PaiJob, SpecError, TaskRole
from luigi_pai.jobspec.arrays.jobs import array_of, job_in, jobs_in
from luigi_pai.jobspec.convert import convert
from luigi_pai.jobspec.submission import submission_text
from luigi_pai.jobspec.templates.commands import entrypoints
from luigi_pai.jobspec.validate_protocol import check_protocol, validate_protocol

CASES = cases("arrays")
YAML = CASES["yaml"]
OTHER_RATE = {"rate: 0.1": "rate: 0.2"}


def job(name: str = "a", command: str = "true", **changes: str) -> JobProtocol:
    text = YAML.replace("NAME", name).replace("COMMAND", command).replace("RATE", "0.1")
    for old, new in changes.items():
        text = text.replace(old, new)
    return JobProtocol.from_yaml(text)


def run(
    array: JobProtocol, index: int, by: str = "\n", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run an instance of an array as the runtime of OpenPAI runs its commands."""
    (role,) = array.taskRoles.values()
    variables = {
        "PATH": os.environ["PATH"],
        "PAI_JOB_NAME": "anna~array",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": str(index),
        "PAI_CONTAINER_HOST_IP": "10.0.0.1",
        "PAI_CONTAINER_HOST_PORT": "3000",
        **environment,
    }
    return bash(by.join(role.commands), *AS_ON_V2, env=variables)


@pytest.mark.parametrize("command", ["true", "printf 'a\\\\n\\n'", f"echo {'x' * 2000}"])
def test_a_job_of_an_array_is_shown_by_itself(command):
    """Its name, its command as the server renders it, and the completion of a job of one instance."""
    jobs = [job("a", command), job("b", command, **OTHER_RATE)]
    array = array_of("array", jobs).to_dict()
    for index, alone in enumerate(jobs):
        shown = job_in(array, index)
        assert (shown["name"], entrypoints(shown)) == (alone.name, entrypoints(alone.to_dict()))
        assert shown["taskRoles"]["main"]["instances"] == 1
        assert not validate_protocol(shown)
    assert (array["name"], array["parameters"]) == ("array", {"same": 1})
    assert run(JobProtocol.from_dict(array), 1).stdout.startswith("rate 0.2 of /out/b\n")
    assert job_in(jobs[0].to_dict(), 0) == jobs[0].to_dict()


def test_an_array_has_an_instance_for_each_job():
    """None ends it, each starts when it can and as often as its job would; it is valid as it is sent."""
    array = array_of("array", [job("a"), job("b"), job("c")])
    (role,) = array.taskRoles.values()
    assert (array.name, role.instances, role.taskRetryCount) == ("array", 3, 2)
    assert (role.completion.minFailedInstances, role.completion.minSucceededInstances) == (-1, -1)
    assert array.to_dict()["extras"] == {"gangAllocation": False}
    assert "jobRetryCount" not in array.to_dict()
    assert array.parameters == {"rate": 0.1, "same": 1}
    assert [each.type for each in array.prerequisites] == ["dockerimage"]
    assert check_protocol(array) == []
    assert jobs_in(JobProtocol.from_yaml(submission_text(array)).to_dict()) == ["a", "b", "c"]


@pytest.mark.parametrize("command", CASES["commands"])
def test_an_instance_runs_the_command_as_it_is(command):
    """Whatever characters it has: the same output and exit code as alone."""
    alone, other = (JobProtocol.from_dict(job(name).to_dict()) for name in "ab")
    alone.taskRoles["main"].commands[1] = command
    array = array_of("array", [other, alone])
    both, older = run(array, 1), run(array, 1, by=" && ")  # as 0.15 and 0.16 join commands
    alone_in_bash = bash(f"echo rate 0.1 of /out/a\n{command}", *AS_ON_V2, stdin=subprocess.DEVNULL)
    expected = (alone_in_bash.stdout, alone_in_bash.returncode)
    assert (both.stdout, both.returncode) == (older.stdout, older.returncode) == expected


def test_an_instance_sees_the_variables_of_a_job_of_one():
    """Its job's name, index 0 of 1, and its own ports; nothing of the other instances."""
    array = array_of("array", [job("a", "env"), job("b", "env"), job("c", "env")])
    ports = {f"PAI_PORT_LIST_main_{index}_tensorboard": f"400{index}" for index in range(3)}
    ports |= {f"PAI_main_{index}_http_PORT": f"300{index}" for index in range(12)}
    hosts = {"PAI_HOST_IP_main_0": "10.0.0.8", "PAI_HOST_IP_main_11": "10.0.0.9"}
    lines = run(array, 1, PAI_TASKS_NUM="3", **ports, **hosts).stdout.splitlines()
    seen = dict(line.partition("=")[::2] for line in lines if line.startswith("PAI_"))
    assert seen == CASES["seen"]


@pytest.mark.parametrize("by", ["\n", " && "])
def test_an_instance_without_a_command_fails(by):
    """As where an index is wrong, or the image lacks a program."""
    ended = run(array_of("array", [job("a"), job("b")]), 2, by)
    assert ended.returncode == 1
    assert "no command for this instance; the image needs base64, gzip and sed" in ended.stderr


@pytest.mark.parametrize(("changes", "named"), CASES["different"])
def test_what_differs_is_named(changes, named):
    """The first point that differs from the first one, and its fields; no secret is shown."""
    with pytest.raises(
        SpecError, match=f"(?s)'b'.*{named}.* differs? from job 'a'.*points_per_job"
    ) as caught:
        array_of("array", [job("a"), job("b", **changes)])
    assert "hush" not in str(caught.value)


def test_accounts_that_differ_are_named():
    """Without the passwords, which are redacted before the jobs are compared."""
    accounts = [{"uri: python": f"uri: python, auth: {{password: hush-{name}}}"} for name in "ab"]
    with pytest.raises(SpecError, match=r"prerequisites\.auth: differs from job 'a'") as caught:
        array_of("array", [job(name, **account) for name, account in zip("ab", accounts, strict=True)])
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(("command", "changes", "message"), CASES["refused"])
def test_what_cannot_share_a_job_is_refused(command, changes, message):
    """Many instances, secrets, which the runtime could not fill in, and parameters outside of commands."""
    with pytest.raises(SpecError, match=message):
        array_of("array", [job("a", command, **changes), job("b", command, **changes, **OTHER_RATE)])


def test_many_alike_jobs_fit_and_different_ones_are_too_large():
    """The table is compressed; servers take 100 kB."""

    def point(number: int, command: str) -> JobProtocol:
        other = base.renamed(f"point_{number}")
        other.taskRoles["main"].commands = [command]
        return other

    base = job()
    jobs = [point(number, f"python train.py --rate {number}") for number in range(100)]
    assert len(submission_text(array_of("array", jobs))) < 5_000
    noise = [point(number, f"echo {os.urandom(8000).hex()}") for number in range(15)]
    with pytest.raises(SpecError, match=r"servers accept at most .*put fewer points in a job"):
        array_of("array", noise)


def test_other_jobs_are_no_arrays():
    broken = array_of("array", [job()]).to_dict()
    role = broken["taskRoles"]["main"]
    role["commands"][0] = role["commands"][0].replace("H4sI", "AAAA")
    for other in (job().to_dict(), {}, {"taskRoles": [{"name": "main", "command": "v1"}]}, broken):
        assert jobs_in(other) is None


def test_a_v1_job_keeps_its_life():
    """Converted, with its name, folders and the shell of v1."""
    role = TaskRole("My_Role", "false; echo $PAI_JOB_NAME $PAI_OUTPUT_DIR")
    jobs = [convert(PaiJob(f"my_{n}", "x", [role], outputDir=f"/o/{n}")).protocol for n in range(2)]
    ended = run(array_of("array", jobs), 1, PAI_USER_NAME="anna")
    assert (ended.stdout, ended.returncode) == ("my_1 /o/1\n", 0)
