"""Schema errors in the words of the validator inside LTP's rest-server."""

from __future__ import annotations

import json

import pytest
from places import DATA
from protocol_client import protocol, task_role

from luigi_pai.local.node.ajv8 import schema_errors
from luigi_pai.local.releases.ltp_schema import PROTOCOL

CASES = json.loads((DATA / "ajv_8_17_1.json").read_text("utf-8"))
"""Documents, and what Ajv 8.17.1 with the schema of LTP 1.5 said of them."""


def found(**change):
    return schema_errors(PROTOCOL, {**json.loads(protocol("true")), **change})


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_complaints_are_those_of_ajv_in_its_order(case):
    """Every field of each, and the order of the fields."""
    assert json.dumps(schema_errors(PROTOCOL, case["document"])) == json.dumps(case["errors"])


def test_a_valid_protocol_has_none():
    """So the tests above mean something."""
    assert found() == found(jobType="training") == []


def test_missing_fields_come_before_wrong_ones():
    """And fields too many between them."""
    wrong = schema_errors(PROTOCOL, {"protocolVersion": 2, "name": "a b", "nonsense": 1})
    assert [(item["instancePath"], item["message"]) for item in wrong] == [
        ("", "must have required property 'type'"),
        ("", "must have required property 'taskRoles'"),
        ("", "must NOT have additional properties"),
        ("/name", 'must match pattern "^[a-zA-Z0-9_-]+$"'),
    ]


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"jobType": "batch"}, "/jobType", "must be equal to one of the allowed values"),
        ({"taskRoles": []}, "/taskRoles", "must be object"),
        ({"name": "name\n"}, "/name", 'must match pattern "^[a-zA-Z0-9_-]+$"'),
        ({"jobRetryCount": True}, "/jobRetryCount", "must be integer"),
        (
            {
                "taskRoles": {
                    "a": task_role(
                        "true", resourcePerInstance={"cpu": 1, "memoryMB": 1, "gpu": 0, "ports": [1]}
                    )
                }
            },
            "/taskRoles/a/resourcePerInstance/ports",
            "must be object",
        ),
    ],
)
def test_a_wrong_value_is_named_by_its_place(change, path, message):
    """Lists that 1.8 took for mappings, too."""
    assert (path, message) in [(item["instancePath"], item["message"]) for item in found(**change)]
