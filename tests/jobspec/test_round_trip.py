"""YAML to JobProtocol to YAML means the same, for real protocols and for changed ones."""

from __future__ import annotations

import copy
from functools import cache, reduce

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from job_files import own_files, parameters

from luigi_pai.errors import SpecError
from luigi_pai.jobspec.dialects.yaml_text import read_yaml, write_yaml
from luigi_pai.jobspec.paths import leaves
from luigi_pai.jobspec.protocol import JobProtocol

ODD = ("item_left_out.yaml", "taken_and_breaks_later.yaml", "words_and_numbers.yaml")
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=20))
NAMES = st.text("abcXYZ019_-", min_size=1, max_size=8).map("x{}".format)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=2)),
    max_leaves=4,
)


@pytest.mark.parametrize("file", parameters("v2"))
def test_a_protocol_of_a_file_goes_through_unharmed(file):
    """Or it is not read, for a reason: 1.8.0 refuses it, or takes what is meant for another thing."""
    try:
        job = JobProtocol.from_file(file.path)
    except SpecError:
        assert not file.accepted("v1.8.0") or file.name in ODD
        return
    assert job.to_yaml() == file.text
    document = read_yaml(file.text).value
    assert job.to_dict() == document
    rewritten = JobProtocol.from_dict(job.to_dict()).to_yaml()
    assert rewritten == write_yaml(document)
    assert read_yaml(rewritten).value == document
    assert yaml.safe_load(rewritten) == document


@cache
def documents():
    """Return the protocols of the files that 1.8.0 accepts and this package reads."""
    files = [file for file in own_files("v2") if file.accepted("v1.8.0") and file.name not in ODD]
    return [read_yaml(file.text).value for file in files]


@pytest.mark.slow
@settings(deadline=None, database=None, max_examples=200)
@given(st.data())
def test_a_changed_protocol_goes_through_unharmed(data):
    """Other values at some of its places, fields that are missing, and further ones."""
    document = copy.deepcopy(data.draw(st.sampled_from(documents())))
    places = st.sampled_from([path for path, _ in leaves(document)])
    for *above, last in data.draw(st.lists(places, max_size=4, unique=True)):
        part = reduce(lambda part, step: part[step], above, document)
        if isinstance(last, int) or last not in part or data.draw(st.booleans()):
            part[last] = data.draw(ANYTHING if isinstance(part, dict) else LEAVES)
        else:
            del part[last]
        if isinstance(part, dict):
            part |= data.draw(st.dictionaries(NAMES, ANYTHING, max_size=1))
    text = write_yaml(document)
    job = JobProtocol.from_yaml(text)
    assert job.to_yaml() == text
    assert job.to_dict() == document
    assert list(job.to_dict()) == list(document)
    assert JobProtocol.from_dict(document).to_yaml() == text
    assert JobProtocol.from_dict(document) == job
