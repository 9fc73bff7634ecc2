"""JSON text, without what Python reads and JSON does not have."""

from __future__ import annotations

import pytest
from job_cases import cases

from luigi_pai.errors import SpecError
from luigi_pai.jobspec.dialects.json_text import read_json

CASES = cases("json_text")


@pytest.mark.parametrize("text", ["[Infinity]", "[-Infinity]", "[NaN]"])
def test_what_python_reads_and_json_does_not_have(text):
    message = f"JSON does not have {text[1:-1]}; if you mean a string, put it in quotes"
    with pytest.raises(SpecError, match=message):
        read_json(text, "x.json")


@pytest.mark.parametrize(("text", "place", "message"), CASES["mistakes"])
def test_a_likely_mistake_is_named_with_its_place(text, place, message):
    with pytest.raises(SpecError) as caught:
        read_json(text, "x.json")
    (problem,) = caught.value.problems
    line, column = place
    assert (problem.line, problem.message) == (line, f"is not JSON, at column {column}: {message}")


def test_a_key_twice_is_named_with_both_lines():
    """Python, and the servers of v1, would take the last one."""
    with pytest.raises(SpecError) as caught:
        read_json('{\n\t"a": {"b": 1,\n\t\t"b": 2}\n}\n', "x.json")
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == ("a.b", 3)
    assert problem.message == "column 3: this key is already in line 2; remove one of the two"


def test_a_number_that_would_be_read_as_an_infinity():
    with pytest.raises(SpecError, match="the number -1e400 is too large"):
        read_json('{"a": -1e400}', "x.json")
    assert read_json('{"a": -1e40}', "x.json") == {"a": -1e40}
