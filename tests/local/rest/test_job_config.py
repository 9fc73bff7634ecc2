"""Job configs are taken, refused and filled in as by the rest-server of 0.7.1."""

from __future__ import annotations

import json

import pytest
from places import DATA

from luigi_pai.local.json_http import ApiError
from luigi_pai.local.rest.v1 import launcher_refuses, read_config

# Recorded from joi 13.0.1 under Node with the schema of rest-server v0.7.1, from random changes.
CASES = json.loads((DATA / "joi_13_0_1.json").read_text("utf-8"))


def read(value):
    """Return a config with its defaults, or the code of its refusal."""
    try:
        return read_config(value)
    except ApiError as error:
        return error.code


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
