"""Schema errors in the words of the validator inside the real server."""

from __future__ import annotations

import json

import pytest
from protocol_client import protocol, task_role

from luigi_pai.local.ajv import complaints
from luigi_pai.spec.schema_problems import schema

# Recorded from the real server, for files of the corpus.
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
    return complaints(schema("protocol.v2"), {**json.loads(protocol("true")), **change})


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


def test_a_valid_protocol_has_none():
    """So the tests above mean something."""
    assert found() == []


def test_what_is_not_an_object_is_said_to_be_none():
    """The reply to a body of another content type."""
    assert complaints(schema("protocol.v2"), ["object Object"]) == [
        {
            "keyword": "type",
            "dataPath": "",
            "schemaPath": "#/type",
            "params": {"type": "object"},
            "message": "should be object",
        }
    ]
