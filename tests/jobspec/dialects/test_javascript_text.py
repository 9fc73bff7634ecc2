"""Numbers and texts as JavaScript writes them: what Node.js prints for String(x) and JSON.stringify(x)."""

from __future__ import annotations

import json
import math

import pytest
from job_cases import JAVASCRIPT_TEXTS

from luigi_pai.jobspec.dialects.javascript_text import javascript_number, javascript_text


@pytest.mark.parametrize(("value", "text"), [*JAVASCRIPT_TEXTS, (None, "null")])
def test_a_value_has_the_text_of_javascript(value, text):
    assert javascript_text(value) == text


@pytest.mark.parametrize(
    ("number", "written"),
    [
        *((3.0, "3"), (3.5, "3.5"), (12345678901234567890.0, "12345678901234567000")),
        *((2.0**70, "1.1805916207174113e+21"), (1e21, "1e+21")),
        *((math.inf, "Infinity"), (-math.inf, "-Infinity")),
    ],
)
def test_a_double_is_written_to_json_as_javascript_writes_it(number, written):
    assert json.dumps(javascript_number(number)) == written
