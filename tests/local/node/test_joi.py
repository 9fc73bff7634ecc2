"""Bodies are checked as Joi 13.0.1, the validator of OpenPAI 0.7.1, checks them."""

from __future__ import annotations

import json
import time

import pytest
from places import DATA

from luigi_pai.local.node.joi import Number, Refused
from luigi_pai.local.rest.base import body_rules

# Recorded from joi 13.0.1 under Node with the schemas of rest-server v0.7.1, from random changes.
CASES = json.loads((DATA / "joi_13_0_1.json").read_text())
SCHEMAS = {
    "job": body_rules.JOB_CONFIG,
    "exec": body_rules.EXECUTION_TYPE,
    "token": body_rules.TOKEN_REQUEST,
    "userPut": body_rules.USER_PUT,
    "userVc": body_rules.USER_VIRTUAL_CLUSTERS,
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_recorded_body_is_refused_or_converted_as_joi_did(schema):
    """The same sentence, or the same value with the same defaults."""
    cases = [case for case in CASES if case["schema"] == schema]
    assert len(cases) >= 5
    differences = []
    for case in cases:
        try:
            mine = {"taken": SCHEMAS[schema].check(case["value"])}
        except Refused as refused:
            mine = {"message": str(refused)}
        theirs = {key: case[key] for key in ("taken", "message") if key in case}
        if mine != theirs:
            differences.append((case["value"], theirs, mine))
    assert not differences


def test_the_value_that_came_is_not_changed():
    """The config that a user sent is kept as it was sent."""
    body = {"jobName": "a", "image": "i", "taskRoles": [{"name": "m", "command": "c", "cpuNumber": "2"}]}
    before = json.dumps(body)
    assert body_rules.JOB_CONFIG.check(body)["taskRoles"][0]["cpuNumber"] == 2
    assert json.dumps(body) == before


def config(**role):
    return body_rules.JOB_CONFIG.check(
        {"jobName": "a", "image": "i", "taskRoles": [{"name": "m", "command": "c", **role}]}
    )


@pytest.mark.parametrize(
    "role",
    [
        {"memoryMB": 0, "shmMB": 0},
        {"memoryMB": -1, "shmMB": -1},
        {"cpuNumber": 0},
        {"gpuNumber": -1},
        {"taskNumber": -1},
        {"taskNumber": 1001},
        {"portList": [{"label": "a", "portNumber": 0}]},
        {"portList": [{"label": "a", "beginAt": -1}]},
        {"portList": [{"label": "a", "beginAt": 65536}]},
        {"portList": [{"label": "a", "portNumber": 1001}]},
        {"portList": [{"label": "a", "portNumber": 501}], "taskNumber": 10},
    ],
)
def test_the_launcher_refuses_what_cannot_run(role):
    """Joi takes these; the launcher of 0.7.1, or this machine, does not."""
    assert body_rules.launcher_refuses("a", config(**role))


@pytest.mark.parametrize("name", ["x" * 256, ".", ".."])
def test_the_launcher_refuses_names_that_no_folder_can_have(name):
    """A name of 300 characters was refused by the real one."""
    assert body_rules.launcher_refuses(name, config())


@pytest.mark.parametrize(
    "role", [{"memoryMB": 99}, {"portList": [{"label": "web", "beginAt": 8080}]}, {"gpuNumber": 10**15}]
)
def test_the_launcher_takes_what_users_documents_have(role):
    """memoryMB 99 is below the documented minimum, which is not enforced."""
    assert not body_rules.launcher_refuses("a", config(**role))


@pytest.mark.parametrize(
    "text", ["1" * 20_000 + "x", "1." * 10_000, " " * 20_000 + "x", "1e" + "1" * 20_000 + "x"]
)
def test_a_long_text_is_soon_seen_to_be_no_number(text):
    """Nobody else is answered meanwhile; a body has 100 kB."""
    begun = time.thread_time()
    with pytest.raises(Refused, match="must be a number"):
        Number().check(text, "n", {})
    assert time.thread_time() - begun < 1
