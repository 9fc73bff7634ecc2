"""The table of what the documents of OpenPAI and Luigi say: each row names the tests that hold it."""

from __future__ import annotations

import ast
import functools
from collections import Counter

import yaml
from places import DATA, ROOT

TEXT = (DATA / "documented_statements.yaml").read_text(encoding="utf-8")
ROWS = yaml.safe_load(TEXT)
DOCUMENTS = ("000", "001", "002", "003", "004")
HOLDS = {"says", "test"}
DIFFERS = {"says", "differs", "why"}


def named_in(row: dict) -> list[str]:
    named = row.get("test", [])
    return [named] if isinstance(named, str) else named


@functools.cache
def functions_of(path: str) -> frozenset[str]:
    """Return the tests of a module, those of classes as Class::name; none if there is no such file."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        parts = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {
            f"{prefix}{part.name}"
            for part in parts
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name.startswith("test_")
        }
    return frozenset(found)


def exists(reference: str) -> bool:
    path, _, function = reference.partition("::")
    return path.startswith("tests/") and function in functions_of(path)


def test_a_statement_is_held_or_the_difference_has_its_reason():
    """A difference may have a test, too."""
    assert [row for row in ROWS if set(row) not in (HOLDS, DIFFERS, DIFFERS | {"test"})] == []
    texts = [row[key] for row in ROWS for key in DIFFERS & set(row)]
    assert [text for text in texts if not isinstance(text, str) or len(text.split()) < 3] == []
    assert [row for row in ROWS if "test" in row and not named_in(row)] == []


def test_every_test_that_is_named_exists():
    """In the file that is named, whatever was moved or renamed since."""
    assert [one for row in ROWS for one in named_in(row) if not exists(one)] == []


def test_no_statement_is_there_twice():
    assert [says for says, count in Counter(row["says"] for row in ROWS).items() if count > 1] == []


def test_each_document_has_statements():
    """In their order; its heading says which it is."""
    parts = TEXT.split("\n# ==== ")[1:]
    assert [part[:3] for part in parts] == list(DOCUMENTS)
    assert all(part.count("\n- says: ") >= 5 for part in parts)
    assert sum(part.count("\n- says: ") for part in parts) == len(ROWS)


def test_a_name_that_is_not_there_is_found():
    """The search above would fail on a missing file and on a missing test."""
    here = "tests/package/test_documented_statements.py"
    assert exists(f"{here}::test_a_name_that_is_not_there_is_found")
    assert not exists(f"{here}::test_nothing")
    assert not exists(here)
    assert not exists("tests/package/nothing.py::test_nothing")
