"""What clients send, as JavaScript reads it."""

from __future__ import annotations

import json
import math

import pytest

from luigi_pai.local.node.json_text import read_json, whole_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.0", 1),
        ("1.5", 1.5),
        ("9007199254740993", 2**53),
        ("1180591620717411303424", 1180591620717411303424.0),
        ("12345678901234567890", 12345678901234567000),
        ("1" * 5000, math.inf),
        ("-1e400", -math.inf),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\ud800"', "\ufffd"),
        (r'"\uDE00\ud83d"', "\ufffd\ufffd"),
        (r'"\ud800\ud83d\ude00"', "\ufffd\U0001f600"),
        (r'"\\ud800"', r"\ud800"),
        (r'{"\ud800": "\n"}', {"\ufffd": "\n"}),
    ],
)
def test_numbers_are_doubles_and_characters_whole(text, value):
    """So whatever was read can be written down again."""
    assert json.dumps(read_json(text)) == json.dumps(value)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "", "{", r'"\ud8"'])
def test_what_is_no_json_is_refused(text):
    """Python would take some of it."""
    with pytest.raises(ValueError):  # noqa: PT011 - of whatever sentence
        read_json(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("9" * 18, 10**18 - 1),
        ("9" * 5000, 10**18),
        ("0" * 5000, 0),
        ("-1", None),
        ("", None),
        ("²", None),
        ("٣", None),
    ],
)
def test_a_whole_number_may_be_of_any_length(text, number):
    """Python reads no more than 4300 digits, and digits of any script."""
    assert whole_number(text) == number
