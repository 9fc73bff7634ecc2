"""Refused jobs: schema errors of both validators in one form, and for each code what to change."""

from __future__ import annotations

import json

import pytest
from api_cases import cases

from luigi_pai.api.wire.refusals import HINTS, REFUSALS, with_explanation
from luigi_pai.errors import PaiHttpError, PermissionRefused

REQUEST = "POST http://pai.test/api/v2/jobs"


def refusal(code, message, status=400):
    text = f"{REQUEST}: {status} {code}: {message}"
    return PaiHttpError(text, status=status, code=code, server_message=message)


def shown(*findings):
    """Return what is shown of schema errors."""
    error = with_explanation(refusal("InvalidProtocolError", json.dumps(findings)), REQUEST)
    return str(error).removeprefix(f"{REQUEST}: 400 InvalidProtocolError: ")


# ---------------------------------------------------------------- schema errors


def test_what_is_too_much_is_named_by_both():
    """Where it is, and its name; Ajv 8 comes with LTP, which lacks no property of 1.6."""
    params = {"additionalProperty": "plugin"}
    assert shown({"instancePath": "/taskRoles/r", "message": "must NOT have it", "params": params}) == (
        "taskRoles/r: must NOT have it: 'plugin'"
    )
    assert shown({"dataPath": ".taskRoles['r']", "message": "should NOT have it", "params": params}) == (
        "taskRoles['r']: should NOT have it: 'plugin', which needs OpenPAI 1.6"
    )


def test_several_findings_are_one_sentence_each():
    """As LTP answered a protocol with a bad name and nothing else."""
    assert shown(
        {
            "instancePath": "",
            "keyword": "required",
            "params": {"missingProperty": "type"},
            "message": "must have required property 'type'",
        },
        {
            "instancePath": "/type",
            "keyword": "enum",
            "params": {"allowedValues": ["job"]},
            "message": "must be equal to one of the allowed values",
        },
    ) == ("must have required property 'type'; type: must be equal to one of the allowed values: job")


# ---------------------------------------------------------------- what to change


@cases("code field")
def test_each_code_names_the_field_to_change(code, field):
    """Behind the server's own words; class and attributes stay."""
    before = PermissionRefused(f"{REQUEST}: 403 {code}: no", status=403, code=code, server_message="no")
    error = with_explanation(before, REQUEST)
    assert str(error) == f"{REQUEST}: 403 {code}: no; {HINTS[code]}"
    assert field in HINTS[code]
    assert isinstance(error, PermissionRefused)
    assert (error.status, error.code, error.server_message) == (403, code, "no")


def test_the_table_is_tested_whole():
    """Each of its codes is one of the cases above."""
    (cases,) = [mark.args[1] for mark in test_each_code_names_the_field_to_change.pytestmark]
    assert {code for code, _ in cases} == set(HINTS)
    assert set(HINTS) - {code for _, code in REFUSALS} == {"InvalidImageRegexError"}  # a 500


def test_an_inference_job_without_its_parameters():
    """LTP names the parameter; where it goes is said besides."""
    message = "Parameter API_KEY must be specified for inference job"
    error = with_explanation(refusal("InvalidProtocolError", f"{message}."), REQUEST)
    assert str(error).endswith(f": {message}; add it to parameters, or change jobType")


@pytest.mark.parametrize("code", ["ConflictJobError", "ForbiddenUserError", None])
def test_other_refusals_stay_as_they_are(code):
    """The server's words are all there is."""
    error = refusal(code, "no")
    assert str(with_explanation(error, REQUEST)) == str(error)


def test_lines_of_the_document_are_not_repeated():
    """An error of js-yaml 4 shows the lines around the place, with a secret if one is there."""
    message = "unexpected end of the stream (2:1)\n\n 1 | secrets: {key: hush-hush\n 2 | \n-----^"
    error = with_explanation(refusal(None, message, status=500), REQUEST)
    assert str(error).endswith(": unexpected end of the stream (2:1)")
    assert error.server_message == "unexpected end of the stream (2:1)"
