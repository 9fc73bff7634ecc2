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
FOLDER = "a path from the root, of letters, digits, '.', '_' and '-'"
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
    expected = [(WARNING, "jobType: accepted by LTP 1.4 and later; OpenPAI 0.15 to 1.8 refuse it")]
    assert found(jobType="training") == expected


@pytest.mark.parametrize("release", ["ltp-1.4", "ltp-1.5"])
def test_a_job_type_is_a_field_from_ltp_1_4_on(release):
    assert found(release, jobType="others") == []


@pytest.mark.parametrize("release", ["0.15.0", "1.8.0", "ltp-1.0", "ltp-1.3"])
def test_a_job_type_is_refused_by_the_releases_before(release):
    assert found(release, jobType="others") == [
        (REFUSED, "jobType: came with LTP 1.4; servers before it refuse it")
    ]


def test_there_are_three_job_types():
    expected = (REFUSED, "jobType: 'serving' is not inference, training or others")
    assert found("ltp-1.5", jobType="serving") == [expected]
    assert expected in found(jobType="serving")


@pytest.mark.parametrize("release", [None, "ltp-1.5"])
def test_an_inference_needs_three_parameters(release):
    """Each that is missing is named."""
    given = {"INTERNAL_SERVER_IP": "$PAI_HOST_IP_worker_0", "API_KEY": "x"}
    missing = "parameters.INTERNAL_SERVER_PORT: is missing; a job of the jobType inference needs it"
    problems = found(release, jobType="inference", parameters=given)
    assert [problem for problem in problems if problem[0] is REFUSED] == [(REFUSED, missing)]
    problems = found(release, jobType="inference")
    assert len([level for level, _ in problems if level is REFUSED]) == 3
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
    ignored = "OpenPAI 0.15 to 1.8 accept and ignore it"
    assert found(extras=extras) == [(WARNING, f"extras.{field}: used by LTP {first} and later; {ignored}")]
    assert found("ltp-1.5", extras=extras) == []
    assert found("1.8.0", extras=extras) == [
        (STRICTER, f"extras.{field}: came with LTP {first}; servers before it accept and ignore it")
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hostpath": ""}, "hostpath: is missing; LTP refuses enableLocalStorage without paths"),
        ({"mntpath": None}, "mntpath: is missing; LTP refuses enableLocalStorage without paths"),
        ({"mntpath": ["/a", "/b"]}, "mntpath: is not a text: paths, separated by ':'; LTP answers 500"),
        (
            {"mntpath": "/a"},
            "mntpath: has 1 paths and hostpath 2; LTP refuses that",
        ),
        (
            {"mntpath": "/a:b"},
            f"mntpath: 'b' is not {FOLDER}",
        ),
    ],
)
def test_local_storage_that_ltp_refuses(change, message):
    extras = {"enableLocalStorage": {**STORAGE, **change}}
    assert (REFUSED, f"extras.enableLocalStorage.{message}") in found("ltp-1.5", extras=extras)
    assert (STRICTER, f"extras.enableLocalStorage.{message}") in found(extras=extras)
    assert found("ltp-1.5", extras={"enableLocalStorage": {**STORAGE, **change, "enabled": False}}) == []


def test_nodes_are_a_text():
    message = "extras.forceNodes: is not a text: names of nodes, separated by ','; LTP answers 500"
    assert found("ltp-1.5", extras={"forceNodes": ["a"]}) == [(REFUSED, message)]


def test_docker_in_docker():
    extras = {"com.microsoft.pai.runtimeplugin": [{"plugin": "dind"}]}
    message = "dind is a plugin of LTP 1.2 and later; on others every task fails when it starts"
    assert found(extras=extras) == [(WARNING, f"{PLUGINS}[0].plugin: {message}")]
    assert found("1.8.0", extras=extras) == [(STRICTER, f"{PLUGINS}[0].plugin: {message}")]
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
