"""JSON text, without what Python reads and JSON does not have."""

from __future__ import annotations

import pytest

from luigi_pai.errors import SpecError
from luigi_pai.jobspec.dialects.json_text import read_json


@pytest.mark.parametrize("text", ["[Infinity]", "[-Infinity]", "[NaN]"])
def test_what_python_reads_and_json_does_not_have(text):
    with pytest.raises(
        SpecError, match=f"JSON does not have {text[1:-1]}; if a text is meant, put it into quotes"
    ):
        read_json(text, "x.json")


def test_a_number_that_would_be_read_as_an_infinity():
    with pytest.raises(SpecError, match="-1e400 is too large a number"):
        read_json('{"a": -1e400}', "x.json")
