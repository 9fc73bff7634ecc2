"""Schema errors in the words of the validator inside the real server."""

from __future__ import annotations

import json

import pytest
from job_files import NOT_READ, all_files
from protocol_client import protocol, task_role

from luigi_pai.local.node.ajv import schema_errors
from luigi_pai.spec.dialects.yaml_text import read_yaml
from luigi_pai.spec.schema_problems import schema

# What the real server said.
UNKNOWN_COUNT = {
    "keyword": "additionalProperties",
    "dataPath": ".taskRoles['train'].completion",
    "schemaPath": "#/properties/taskRoles/patternProperties/%5E%5Ba-zA-Z_%5D%5Ba-zA-Z0-9_%5D*%24"
    "/properties/completion/additionalProperties",
    "params": {"additionalProperty": "minSucceededTaskCount"},
    "message": "should NOT have additional properties",
}
BAD_NAME = {
    "keyword": "pattern",
    "dataPath": ".name",
    "schemaPath": "base.json#/properties/name/pattern",
    "params": {"pattern": "^[a-zA-Z0-9_-]+$"},
    "message": 'should match pattern "^[a-zA-Z0-9_-]+$"',
}


def found(**change):
    return schema_errors(schema("protocol.v2"), {**json.loads(protocol("true")), **change})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": "a b"}, BAD_NAME),
        (
            {"taskRoles": {"train": task_role("true", completion={"minSucceededTaskCount": 1})}},
            UNKNOWN_COUNT,
        ),
    ],
)
def test_complaints_are_the_recorded_ones(change, expected):
    """Every field of them."""
    assert found(**change) == [expected]


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"taskRoles": {"a": task_role()}}, ".taskRoles['a'].commands", "should NOT have fewer than 1 items"),
        ({"jobRetryCount": -1}, ".jobRetryCount", "should be >= 0"),
        ({"jobRetryCount": "1"}, ".jobRetryCount", "should be integer"),
        ({"type": "x"}, ".type", "should be equal to one of the allowed values"),
        ({"name": "n" * 256}, ".name", "should NOT be longer than 255 characters"),
        ({"secrets": []}, ".secrets", "should be object"),
        ({"nonsense": 1}, "", "should NOT have additional properties"),
    ],
)
def test_other_complaints_have_its_words(change, path, message):
    """Where, and what."""
    assert (path, message) in [(item["dataPath"], item["message"]) for item in found(**change)]


def test_every_complaint_about_a_file_is_that_of_the_server():
    """Of a prerequisite of none of the three kinds, too: why it is none, kind by kind."""
    compared = 0
    for file in all_files("v2"):
        error = file.verdicts["v1.8.0"].get("error") or {}
        if error.get("message", "").startswith("[{") and file.name not in NOT_READ:
            document = read_yaml(file.text, lenient=True).value
            assert schema_errors(schema("protocol.v2"), document) == json.loads(error["message"]), file.name
            compared += 1
    assert compared >= 5


NOT_AN_OBJECT = [
    ("type", "items/type"),
    *((word, f"items/oneOf/{number}/{word}") for number in range(3) for word in ("type", "$merge")),
    ("oneOf", "items/oneOf"),
]


def test_a_prerequisite_that_is_no_object_is_complained_of_in_order():
    """As the real validator does, which was asked."""
    assert [
        (item["keyword"], item["schemaPath"].removeprefix("#/properties/prerequisites/"))
        for item in found(prerequisites=["script"])
    ] == NOT_AN_OBJECT


def test_the_name_of_a_role_is_a_field_too_many():
    """The server says nothing of what is under it."""
    roles = {"a": task_role("true"), "worker-1": 3}
    assert [(item["keyword"], item["params"]) for item in found(taskRoles=roles)] == [
        ("additionalProperties", {"additionalProperty": "worker-1"})
    ]


def test_complaints_of_one_object_come_field_by_field():
    """Fields too many first, missing ones in their place."""
    wrong = found(nonsense=1, jobRetryCount=-1, type=None, prerequisites=[{"type": "data", "version": []}])
    assert [item["keyword"] for item in wrong if item["dataPath"] == ".prerequisites[0]"] == [
        *["required", "$merge"] * 2,
        *["required", "required", "$merge"],
        "oneOf",
    ]
    assert [item["dataPath"] for item in wrong if "prerequisites" not in item["dataPath"]] == [
        "",
        ".type",
        ".type",
        ".jobRetryCount",
    ]


def test_a_valid_protocol_has_none():
    """So the tests above mean something."""
    assert found() == []


def test_what_is_not_an_object_is_said_to_be_none():
    """The reply to a body of another content type."""
    assert schema_errors(schema("protocol.v2"), ["object Object"]) == [
        {
            "keyword": "type",
            "dataPath": "",
            "schemaPath": "#/type",
            "params": {"type": "object"},
            "message": "should be object",
        }
    ]
