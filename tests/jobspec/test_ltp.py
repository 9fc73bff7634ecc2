"""Job protocols on LTP: its fields and rules, by release."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from luigi_pai.errors import Level
from luigi_pai.jobspec.protocol import (
    DockerImage,
    Extras,
    JobProtocol,
    LocalStorage,
    Resources,
    Role,
    RuntimePlugin,
)
from luigi_pai.jobspec.releases import release_number, release_title
from luigi_pai.jobspec.validate_protocol import check_protocol, refused, validate_protocol

REFUSED, STRICTER, WARNING = Level.REFUSED, Level.STRICTER, Level.WARNING
PLUGINS = 'extras["com.microsoft.pai.runtimeplugin"]'
FOLDERS = (
    "paths from the root, of letters, digits, '.', '_' and '-', separated by ':', or LTP refuses the job"
)
NAME = "a name of 1 to 255 letters, digits, '-' and '_'"
STORAGE = {"enabled": True, "hostpath": "/mnt/a:/mnt/b", "mntpath": "/a:/b"}
BASE: dict[str, Any] = {
    "protocolVersion": 2,
    "name": "train",
    "type": "job",
    "prerequisites": [{"name": "image", "type": "dockerimage", "uri": "ubuntu"}],
    "taskRoles": {
        "worker": {
            "instances": 1,
            "dockerImage": "image",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": 0},
            "commands": ["true"],
        }
    },
}


def found(release: str | None = None, **fields: Any) -> list[tuple[Level, str]]:
    problems = validate_protocol({**BASE, **fields}, release=release)
    return [(problem.level, str(problem)) for problem in problems]


def with_ports(ports: Any) -> dict[str, Any]:
    document = copy.deepcopy(BASE)
    document["taskRoles"]["worker"]["resourcePerInstance"]["ports"] = ports
    return document


# ---------------------------------------------------------------- releases


def test_releases_of_ltp_come_after_those_of_openpai():
    names = ["0.7.1", "0.15.0", "1.6", "1.8.0", "1.8.1", "ltp-1.0", "ltp-1.1", "ltp-1.4", "ltp-1.5"]
    numbers = [release_number(name) for name in names]
    assert numbers == sorted(numbers)
    assert [release_title(name) for name in ("1.8.0", "ltp-1.5")] == ["OpenPAI 1.8.0", "LTP 1.5"]


# ---------------------------------------------------------------- jobType


def test_a_job_type_is_taken_with_a_warning_that_says_by_which_release():
    expected = [(WARNING, "jobType: needs LTP 1.4 or later; other servers refuse it")]
    assert found(jobType="training") == expected


@pytest.mark.parametrize("release", ["ltp-1.4", "ltp-1.5"])
def test_a_job_type_is_a_field_from_ltp_1_4_on(release):
    assert found(release, jobType="others") == []


@pytest.mark.parametrize("release", ["0.15.0", "1.8.0", "ltp-1.0", "ltp-1.3"])
def test_a_job_type_is_refused_by_the_releases_before(release):
    assert found(release, jobType="others") == [
        (REFUSED, "jobType: needs LTP 1.4 or later; other servers refuse it")
    ]


def test_there_are_three_job_types():
    expected = (REFUSED, "jobType: 'serving' is not inference, training or others")
    assert found("ltp-1.5", jobType="serving") == [expected]
    assert expected in found(jobType="serving")


@pytest.mark.parametrize("release", [None, "ltp-1.5"])
def test_an_inference_needs_three_parameters(release):
    """Each that is missing is named."""
    given = {"INTERNAL_SERVER_IP": "$PAI_HOST_IP_worker_0", "API_KEY": "x"}
    what = "it must be in the parameters of a job of the jobType inference"
    missing = f"parameters.INTERNAL_SERVER_PORT: is missing; {what}"
    problems = found(release, jobType="inference", parameters=given)
    assert [problem for problem in problems if problem[0] is REFUSED] == [(REFUSED, missing)]
    assert "parameters: is missing" in str(found(release, jobType="inference"))
    complete = {**given, "INTERNAL_SERVER_PORT": "80"}
    assert REFUSED not in [level for level, _ in found(release, jobType="inference", parameters=complete)]


# ---------------------------------------------------------------- extras


@pytest.mark.parametrize(
    ("field", "value", "first"),
    [("enableLocalStorage", STORAGE, "1.0"), ("forceNodes", "n1,n2", "1.0"), ("allowAzCopy", True, "1.2")],
)
def test_extras_of_ltp(field, value, first):
    """OpenPAI takes whatever stands under extras, and does nothing of it."""
    extras = {field: value}
    message = (
        f"extras.{field}: needs LTP {first} or later; other servers accept it, and it does not work there"
    )
    assert found(extras=extras) == [(WARNING, message)]
    assert found("ltp-1.5", extras=extras) == []
    assert found("1.8.0", extras=extras) == [(STRICTER, message)]


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("hostpath", "", "''"),
        ("mntpath", None, "null"),
        ("mntpath", 1, "1"),
        ("mntpath", "/a:b", "'/a:b'"),
    ],
)
def test_local_storage_that_ltp_refuses(field, value, shown):
    extras = {"enableLocalStorage": {**STORAGE, field: value}}
    message = f"extras.enableLocalStorage.{field}: {shown} is not {FOLDERS}"
    assert found("ltp-1.5", extras=extras) == [(REFUSED, message)]
    assert (STRICTER, message) in found(extras=extras)
    assert found("ltp-1.5", extras={"enableLocalStorage": {**STORAGE, field: value, "enabled": False}}) == []


def test_local_storage_without_paths():
    message = "extras.enableLocalStorage.mntpath: is missing; it must be as many paths in the container"
    extras = {"enableLocalStorage": {"enabled": True, "hostpath": "/a"}}
    assert found("ltp-1.5", extras=extras) == [(REFUSED, f"{message}, separated by ':'")]


def test_nodes_are_a_text():
    message = "extras.forceNodes: a list is not names of nodes: a text, separated by ',', or LTP answers 500"
    assert found("ltp-1.5", extras={"forceNodes": ["a"]}) == [(REFUSED, message)]


def test_docker_in_docker():
    extras = {"com.microsoft.pai.runtimeplugin": [{"plugin": "dind"}]}
    message = (
        f"{PLUGINS}[0].plugin: needs LTP 1.2 or later; other servers accept it, and it does not work there"
    )
    assert found(extras=extras) == [(WARNING, message)]
    assert found("1.8.0", extras=extras) == [(STRICTER, message)]
    assert found("ltp-1.5", extras=extras) == []


@pytest.mark.parametrize("priority", ["prod", "test", "oppo"])
def test_priorities(priority):
    assert found("ltp-1.5", extras={"hivedScheduler": {"jobPriorityClass": priority}}) == []


# ---------------------------------------------------------------- what Ajv 8 refuses


@pytest.mark.parametrize("ports", [[1], None])
def test_ports_are_a_mapping_from_ltp_1_1_on(ports):
    shown = "null" if ports is None else "a list"
    message = (
        f"taskRoles.worker.resourcePerInstance.ports: {shown} is not a mapping of at least one label to a "
        "number of ports"
    )

    def on(release):
        return [
            str(each) for each in refused(validate_protocol(with_ports(ports), release=release), lenient=True)
        ]

    assert on("ltp-1.5") == [message]
    assert on("ltp-1.0") == on("1.8.0") == on(None) == []


def test_the_roles_of_a_deployment_are_a_mapping_from_ltp_1_1_on():
    deployments = [{"name": "a", "taskRoles": [{}]}]
    message = "deployments[0].taskRoles: a list is not a mapping of at least one task role to its commands"
    assert found("ltp-1.5", deployments=deployments) == [(REFUSED, message)]
    assert [level for level, _ in found("ltp-1.0", deployments=deployments)] == [STRICTER]


# ---------------------------------------------------------------- typed


def test_the_fields_of_ltp_are_written_and_read():
    job = JobProtocol(
        "train",
        jobType="training",
        prerequisites=[DockerImage("image", "ubuntu")],
        taskRoles={
            "worker": Role("image", commands=["true"], resourcePerInstance=Resources(cpu=1, memoryMB=1024))
        },
        extras=Extras(
            runtimePlugins=[RuntimePlugin("dind")],
            enableLocalStorage=LocalStorage(hostpath="/mnt/a", mntpath="/a"),
            forceNodes="n1",
            allowAzCopy=True,
        ),
    )
    document = job.to_dict()
    assert document["jobType"] == "training"
    assert document["extras"] == {
        "com.microsoft.pai.runtimeplugin": [{"plugin": "dind"}],
        "enableLocalStorage": {"enabled": True, "hostpath": "/mnt/a", "mntpath": "/a"},
        "forceNodes": "n1",
        "allowAzCopy": True,
    }
    again = JobProtocol.from_yaml(job.to_yaml())
    assert again == job
    assert isinstance(again.extras.enableLocalStorage, LocalStorage)
    assert again.extras.enableLocalStorage.hostpath == "/mnt/a"
    assert {problem.level for problem in check_protocol(again)} == {WARNING}


@pytest.mark.parametrize("value", [True, "x", [1], None])
def test_local_storage_of_another_shape_goes_through_unharmed(value):
    document = {**BASE, "extras": {"enableLocalStorage": value}}
    assert JobProtocol.from_dict(document).to_dict() == document
