"""Queries of addresses as the server inside 1.8 reads them; what is expected was asked of its own library."""

from __future__ import annotations

import pytest

from luigi_pai.local.node.express_query import as_text, read_query


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("k=a", "a"),
        ("k=", ""),
        ("k", ""),
        ("k=a+b", "a b"),
        ("k=a%2Bb=c", "a+b=c"),
        ("k=%E4", "%E4"),  # no UTF-8
        ("k=%u1", "%u1"),
        ("[k]=a", "a"),
        ("k[]=a", ["a"]),
        ("k%5B%5D=a", ["a"]),
        ("k[0]=a", ["a"]),
        ("k[20]=a", ["a"]),
        ("k[21]=a", None),
        ("k[x]=a", None),
        ("k[01]=a", None),
        ("k=a&k=b", ["a", "b"]),
        ("k[]=a&k[]=b", ["a", "b"]),
        ("k=a&k[]=b", ["a", "b"]),
        ("k[2]=a&k[0]=b", ["b", "a"]),
        ("k[0]=a&k[0]=b", ["a", "b"]),
        ("k[][]=a", ["a"]),
        ("k[0][x]=a", ["[object Object]"]),
    ],
)
def test_a_field_is_a_text_a_list_or_an_object(query, value):
    """By how it is written, and how often."""
    assert read_query(query)["k"] == value


@pytest.mark.parametrize("query", ["", "k]=a", "k[=a", "k.x=a", "K=a"])
def test_what_looks_like_a_field_is_another(query):
    """No field of this name is there."""
    assert "k" not in read_query(query)


def test_more_than_a_thousand_fields_are_not_read():
    """The rest of them is as good as not there."""
    assert set(read_query("a&" * 1000 + "b=1")) == {"a"}


def test_texts_of_fields_are_those_of_javascript():
    """Where a list or an object is taken for a text."""
    assert [as_text(value) for value in ("a", ["a", "b"], None)] == ["a", "a,b", "[object Object]"]
