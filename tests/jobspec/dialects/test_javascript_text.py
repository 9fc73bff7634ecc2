"""Numbers and texts as JavaScript writes them: what Node.js prints for String(x) and JSON.stringify(x)."""

from __future__ import annotations

import json
import math

import pytest

from luigi_pai.jobspec.dialects.javascript_text import javascript_number, javascript_text

NUMBERS = [
    (0.0, "0"),
    (-0.0, "0"),
    (1.0, "1"),
    (-1.5, "-1.5"),
    (0.1 + 0.2, "0.30000000000000004"),
    (1e-6, "0.000001"),
    (1e-7, "1e-7"),
    (1.5e-7, "1.5e-7"),
    (123456.789, "123456.789"),
    (1e20, "100000000000000000000"),
    (123456789012345678901.0, "123456789012345680000"),
    (1e21, "1e+21"),
    (-1.25e25, "-1.25e+25"),
    (5e-324, "5e-324"),
    (1.7976931348623157e308, "1.7976931348623157e+308"),
    (2**53, "9007199254740992"),
    (2**53 + 1, "9007199254740992"),
    (10**400, "Infinity"),
    (-(10**400), "-Infinity"),
    (math.inf, "Infinity"),
    (math.nan, "NaN"),
]


@pytest.mark.parametrize(("number", "text"), NUMBERS, ids=[text for _, text in NUMBERS])
def test_a_number_has_the_text_of_javascript(number, text):
    assert javascript_text(number) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        ("a,b", "a,b"),
        ([1, None, [2.0, "x"], {"a": 1}], "1,,2,x,[object Object]"),
        ({}, "[object Object]"),
        ([], ""),
    ],
)
def test_a_value_has_the_text_of_javascript(value, text):
    assert javascript_text(value) == text


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (3.0, "3"),
        (3.5, "3.5"),
        (12345678901234567890.0, "12345678901234567000"),
        (2.0**70, "1.1805916207174113e+21"),
        (1e21, "1e+21"),
    ],
)
def test_a_double_is_written_to_json_as_javascript_writes_it(number, written):
    assert json.dumps(javascript_number(number)) == written


@pytest.mark.parametrize("number", [math.inf, -math.inf])
def test_infinity_stays_infinity(number):
    assert javascript_number(number) == number
