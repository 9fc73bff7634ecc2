"""Where in a JSON text each part stands."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from luigi_pai.errors import SpecError
from luigi_pai.jobspec.dialects.json_text import json_lines, read_json

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text('ab[]{},:"\\\n é', max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text('ab[]{},:"\\\n', max_size=4), inner, max_size=4)
    ),
    max_leaves=15,
)


def paths(value, path=()):
    """Yield the path of each part."""
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(item, (*path, key))


@pytest.mark.slow
@given(VALUES, st.sampled_from([None, 0, 1]))
def test_every_part_has_its_line(value, indent):
    """Written with an indentation each part begins a line of its own, and without all are in the first."""
    lines = json_lines(json.dumps(value, indent=indent))
    assert list(lines) == list(paths(value))
    assert len(set(lines.values())) == (1 if indent is None else len(lines))


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
def test_lines_count_as_editors_do(line_break):
    text = line_break.join(["", "{", '"a":', '[1,"\\u2028', '2"]}']).replace("\\u2028" + line_break, "")
    assert json_lines(text) == {(): 2, ("a",): 3, ("a", 0): 4, ("a", 1): 4}


def test_of_a_key_given_twice_the_last_counts():
    assert json_lines('{"a": 1,\n"a": 2}') == {(): 1, ("a",): 2}


@pytest.mark.parametrize("text", ["[Infinity]", "[-Infinity]", "[NaN]"])
def test_what_python_reads_and_json_does_not_have(text):
    with pytest.raises(SpecError, match=f"JSON does not have {text[1:-1]}; put a text into quotes"):
        read_json(text, "x.json")


def test_a_number_that_would_be_read_as_an_infinity():
    with pytest.raises(SpecError, match="has a number that is too large: -1e400"):
        read_json('{"a": -1e400}', "x.json")
