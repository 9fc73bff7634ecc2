"""A JobProtocol is a typed view of its document: nothing is lost or added, and no secret is shown."""

from __future__ import annotations

import copy
import pickle
import re
from collections import OrderedDict
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from types import MappingProxyType

import pytest
from job_cases import cases

from luigi_pai.errors import SpecError
from luigi_pai.jobspec.job import UNSET
from luigi_pai.jobspec.protocol import (
    Completion,
    ContainerOptions,
    Defaults,
    Deployment,
    DockerImage,
    Extras,
    HivedRole,
    HivedScheduler,
    JobProtocol,
    Prerequisite,
    RegistryAuth,
    Resources,
    Role,
    RoleCommands,
    RuntimePlugin,
    StatusNotification,
    Storage,
)

CASES = cases("protocol")
TEXT = CASES["yaml"]


class Colour(Enum):
    RED = 1


class Mode(str, Enum):
    FAST = "fast"


class Int64:
    """A number of another library."""

    def __index__(self):
        return 1


def protocol(**fields):
    role = Role("image", commands=["echo"], resourcePerInstance=Resources(cpu=1, memoryMB=100))
    return JobProtocol(
        "job", prerequisites=[DockerImage("image", "ubuntu:18.04")], taskRoles={"worker": role}, **fields
    )


def test_a_protocol_is_written_in_python():
    job = JobProtocol(
        "horovod",
        parameters={"model": "resnet50"},
        secrets={"password": "hunter2"},
        jobRetryCount=1,
        prerequisites=[
            DockerImage(
                "image", "horovod", auth=RegistryAuth(username="me", password="<% $secrets.password %>")
            ),
            Prerequisite.cmd("data", type="data", on_start=["fetch"], on_success=["clean"], require=["git"]),
            Prerequisite("git", more={"plugin2": 1}),
        ],
        taskRoles={
            "master": Role(
                "image",
                commands=["horovodrun <% $parameters.model %>"],
                resourcePerInstance=Resources(cpu=4, memoryMB=8192, gpu=1, ports={"web": 2}),
                instances=1,
                completion=Completion(minFailedInstances=1, minSucceededInstances=None),
                prerequisites=["data"],
                extraContainerOptions=ContainerOptions(shmMB=64, infiniband=True),
            )
        },
        deployments=[Deployment("prod", taskRoles={"master": RoleCommands(preCommands=["a"])})],
        defaults=Defaults(virtualCluster="default", deployment="prod"),
        extras=Extras(
            runtimePlugins=[
                RuntimePlugin.ssh(sshbarrier=True, sshbarrierTimeout=5, userssh="key", taskroles=["master"]),
                RuntimePlugin.cmd(on_start=["a"], failurePolicy="ignore"),
            ],
            storages=[Storage("nfs", mountPath="/data", readOnly=True, share=False)],
            gangAllocation=False,
            hivedScheduler=HivedScheduler(jobPriorityClass="prod", taskRoles={"master": HivedRole(skuNum=1)}),
            jobStatusChangeNotification=StatusNotification(failed=True),
        ),
    )
    assert job.to_dict() == CASES["written_in_python"]
    assert JobProtocol.from_dict(job.to_dict()) == job
    assert JobProtocol.from_yaml(job.to_yaml()) == job


def test_what_a_user_wrote_is_kept_until_it_is_changed():
    job = JobProtocol.from_yaml(TEXT)
    assert job.to_yaml() == TEXT
    assert job.taskRoles["worker"].more == {"further": 1}
    assert job.lines["taskRoles", "worker", "commands", 0] == 12
    job.taskRoles["worker"].instances = 3
    assert job.to_yaml().startswith("protocolVersion: 2\nname: job\n")
    assert "instances: 3" in job.to_yaml()
    job.taskRoles["worker"].instances = UNSET
    assert job.to_yaml() == TEXT
    job.taskRoles["worker"].more["further"] = True  # not 1
    assert "further: true" in job.to_yaml()


def test_a_file_keeps_its_line_ends_and_its_name(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    assert JobProtocol.from_file(path).to_yaml() == "\ufeff" + TEXT.replace("\n", "\r\n")
    for content, message in (
        (b"taskRoles: []\n", r"taskRoles: must be a mapping, not a list \(line 1\)"),
        (b"a: 1\nb: \xff\n", r"job.yaml.*\n  is not UTF-8.* \(line 2\)"),
    ):
        path.write_bytes(content)
        with pytest.raises(SpecError, match=message):
            JobProtocol.from_file(path)


@pytest.mark.parametrize(("document", "problems"), CASES["shapes"])
def test_only_a_wrong_shape_is_refused_all_at_once(document, problems):
    with pytest.raises(SpecError) as caught:
        JobProtocol.from_dict(document)
    assert [str(problem) for problem in caught.value.problems] == problems


@pytest.mark.parametrize("document", CASES["strange"])
def test_what_is_missing_or_strange_stays_so(document):
    """No storages are not the same as an empty list of them."""
    assert JobProtocol.from_dict(document).to_dict() == document
    assert (Extras().to_dict(), Extras(storages=[]).to_dict()) == ({}, {"storages": []})


def test_no_repr_shows_a_secret():
    job = JobProtocol.from_yaml(TEXT)
    job.extras.runtimePlugins.append(RuntimePlugin("x", parameters={"key": "hunter2"}))
    job.prerequisites.append(Prerequisite.cmd("p", on_start=["login hunter2"], uri="https://me:hunter2@x/y"))
    job.more["token"] = "hunter2"
    for shown in (repr(job), str(job), f"{job.prerequisites}", repr(job.prerequisites[0].auth)):
        assert "hunter2" not in shown
    assert "secrets={'token': ...}" in repr(job)


def test_copies_are_independent():
    job = JobProtocol.from_yaml(TEXT)
    assert pickle.loads(pickle.dumps(job)) == job
    other = job.renamed("other")
    other.taskRoles["worker"].commands.append("ls")
    assert (job.name, other.name) == ("job", "other")
    assert job.to_yaml() == TEXT
    assert copy.deepcopy(job).to_yaml() == TEXT
    assert job != other
    assert job != "job"


def test_luigis_parameters_become_plain_values():
    values = {
        "mapping": (MappingProxyType(OrderedDict(a=(1, 2))), {"a": [1, 2]}),
        "date": (date(2020, 1, 2), "2020-01-02"),
        "time": (datetime(2020, 1, 2, 3, tzinfo=timezone.utc), "2020-01-02T03:00:00+00:00"),
        "path": (PurePosixPath("/data"), "/data"),
        "colour": (Colour.RED, "RED"),
        "mode": (Mode.FAST, "fast"),
        "none": (None, None),
        "flag": (True, True),
        "number": (0.5, 0.5),
    }
    job = protocol(parameters={"kept": 1, "flag": False})
    given = {name: value for name, (value, _) in values.items()}
    filled = job.filled(parameters=given, secrets={"token": "hunter2"})
    assert filled.parameters == {"kept": 1} | {name: plain for name, (_, plain) in values.items()}
    assert type(filled.parameters["mode"]) is str
    assert filled.secrets == {"token": "hunter2"}
    assert job.parameters == {"kept": 1, "flag": False}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Int64(), ": is of type Int64, which JSON does not support; convert it with int(...) or float"),
        (Decimal("1.5"), ": is of type Decimal, which JSON does not support; convert it with int"),
        ({1, 2}, ": is of type set, which JSON does not support; write it as a string"),
        ("".upper, ": is a method; put @property above it"),
        ([b"a"], "[0]: is of type bytes, which JSON does not support; decode it"),
        ({1: 2}, ": has a key of type int; keys must be strings"),
        (float("inf"), ": is infinite or not a number"),
        ("a\ud800", ": contains half a character (a lone surrogate), which no server accepts"),
    ],
)
def test_what_is_no_plain_value_is_refused(value, message):
    message = re.escape(f"parameters.x{message}")
    with pytest.raises(SpecError, match=message):
        protocol().filled(parameters={"x": value})
    with pytest.raises(SpecError, match=message):
        protocol(parameters={"x": value}).to_dict()


def test_a_field_that_does_not_exist_is_refused():
    job = protocol()
    with pytest.raises(AttributeError, match=r"Role has no field 'instance' \(did you mean 'instances'\?\)"):
        job.taskRoles["worker"].instance = 3
    with pytest.raises(TypeError, match="taskStarts: must be a list of commands, not a string"):
        Prerequisite.cmd("p", on_start="echo")


def test_surprises_of_the_text_are_kept():
    job = JobProtocol.from_yaml(TEXT + "parameters: {day: 2020-01-01}\n")
    assert [problem.path for problem in job.warnings] == ["parameters.day"]
    assert JobProtocol.from_dict({}).lines == {}
