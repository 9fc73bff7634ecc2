"""Job configs and protocols are taken, refused and filled in as by the rest-servers of 0.7.1, 1.8 and LTP."""

from __future__ import annotations

import json

import pytest
from job_files import all_files, parameters
from local_client import unique
from places import DATA
from protocol_client import protocol

from luigi_pai.local.json_http import ApiError
from luigi_pai.local.releases import LTP_1_5, OPENPAI_1_8
from luigi_pai.local.rest.v1 import launcher_refuses, read_config
from luigi_pai.local.rest.v2_jobs import read_protocol

# Recorded from joi 13.0.1 under Node with the schema of rest-server v0.7.1, from random changes.
CASES = json.loads((DATA / "joi_13_0_1.json").read_text("utf-8"))


def read(value):
    """Return a config with its defaults, or the code of its refusal."""
    try:
        return read_config(value)
    except ApiError as error:
        return error.code if error.status == 400 else error


def test_every_recorded_config_is_taken_or_refused_as_it_was():
    """With the same numbers and defaults; the launcher behind the server may refuse what Joi took."""
    for case in CASES:
        found = read(case["value"])
        if found != "UnknownError":
            assert found == case.get("taken", "InvalidParametersError"), case
    assert sum("taken" in case for case in CASES) > 10


@pytest.mark.parametrize("body", [None, [], "x", {}])
def test_what_is_no_config_is_refused(body):
    assert read(body) == "InvalidParametersError"


def test_the_value_that_came_is_not_changed():
    """The config that a user sent is kept as it was sent."""
    body = {"jobName": "a", "image": "i", "taskRoles": [{"name": "m", "command": "c", "cpuNumber": "2"}]}
    before = json.dumps(body)
    assert read_config(body)["taskRoles"][0]["cpuNumber"] == 2
    assert json.dumps(body) == before


@pytest.mark.parametrize(
    "role", [{"memoryMB": 99}, {"portList": [{"label": "web", "beginAt": 8080}]}, {"gpuNumber": 10**15}]
)
def test_the_launcher_takes_what_users_documents_have(role):
    """memoryMB 99 is below the documented minimum, which is not enforced."""
    body = {"jobName": "a", "image": "i", "taskRoles": [{"name": "m", "command": "c", **role}]}
    assert not launcher_refuses("a", read_config(body))


@pytest.mark.parametrize("name", ["a b", "x" * 256, ".", ".."])
def test_the_launcher_refuses_names_that_no_folder_can_have(name):
    body = {"jobName": "a", "image": "i", "taskRoles": [{"name": "m", "command": "c"}]}
    assert launcher_refuses(name, read_config(body))


@pytest.mark.parametrize("file", parameters("v1", lambda file: not file.accepted("v0.7.1")))
def test_v1_jobs_are_refused_as_by_0_7_1(client, file):
    """A server that found several things wrong replied with the first."""
    reply = client.send("POST", "/jobs", json.loads(file.text))
    error = file.verdicts["v0.7.1"]["errors"][0]
    assert (reply.status_code, reply.json()["code"]) == (error["status"], error["code"])


def verdict(text, release):
    try:
        return read_protocol(text, release)["name"]
    except ApiError as error:
        return error.status, error.code


NOBODY_MEANS = (
    "indented_by_tabs.yaml",
    "item_left_out.yaml",
    "octal_key.yaml",
    "taken_and_breaks_later.yaml",
    "words_and_numbers.yaml",
)
"""Files that the reader of 1.8 takes for something not meant, or LTP for something else: here a 500."""


@pytest.mark.slow
def test_protocols_have_the_verdict_of_their_server():
    """Those of 1.8 are taken or refused as 1.8 did, and by LTP too unless it was seen to judge otherwise."""
    files = [file for file in all_files("v2") if file.name not in NOBODY_MEANS]
    for file in files:
        on_ltp = file.verdicts.get("ltp-v1.5", file.verdicts["v1.8.0"])
        for release, expected in ((OPENPAI_1_8, file.verdicts["v1.8.0"]), (LTP_1_5, on_ltp)):
            found = verdict(file.text, release)
            if expected["accept"]:
                assert isinstance(found, str), (file.name, found)
            else:
                error = expected["error"]
                assert found == (error["status"], error.get("code")), file.name
    assert len(files) > 20


@pytest.mark.slow
@pytest.mark.parametrize("users", ["v2_users", "ltp_users"])
def test_a_scalar_that_the_releases_read_otherwise_is_refused(users, request):
    """A client would not send it: its meaning depends on the cluster."""
    answer = request.getfixturevalue(users).admin.post(as_yaml(unique(), "012"))
    assert answer.status_code == 500
    assert "OpenPAI reads this as one value, and LTP 1.1 and later as another" in answer.text


def as_yaml(name, *values):
    """Return the protocol of a job that shows parameters, as they are written in YAML."""
    names = [f"p{number}" for number, _ in enumerate(values)]
    shown = " ".join(f"<% $parameters.{name} %>" for name in names)
    document = json.loads(protocol(f"echo {shown}", name=name))
    lines = [f"{key}: {json.dumps(value)}" for key, value in document.items()]
    given = ", ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
    return "\n".join([*lines, f"parameters: {{{given}}}\n"])


@pytest.mark.slow
def test_yaml_means_what_it_means_to_the_server(v2):
    """``yes`` and ``no`` are strings, ``0x1f`` is a number."""
    name = unique()
    reply = v2.post(as_yaml(name, "yes", "no", "0x1f"))
    assert reply.status_code == 202, reply.text
    assert v2.log(v2.wait(f"admin~{name}")) == "yes no 31\n"
