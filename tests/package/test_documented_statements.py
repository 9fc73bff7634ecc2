"""The table of statements, and of the tests that hold each: of OpenPAI and Luigi, and of our own pages."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter

import pytest
import yaml
from places import DATA, ROOT

TEXT = (DATA / "documented_statements.yaml").read_text(encoding="utf-8")
ROWS = yaml.safe_load(TEXT)
PARTS = dict(part.split("\n", 1) for part in TEXT.split("\n# ==== ")[1:])  # heading -> rows
DOCUMENTS = ("000", "001", "002", "003", "004")
CLAIMS = {  # page -> the sections in which each statement needs a row
    "SECURITY.md": ("What is protected",),
    "docs/security.md": ("What is kept, and where", "What is sent"),
}
HOLDS = {"says", "test"}
DIFFERS = {"says", "differs", "why"}


def named_in(row: dict) -> list[str]:
    named = row.get("test", [])
    return [named] if isinstance(named, str) else named


@functools.cache
def functions_of(path: str) -> dict[str, str]:
    """Return the tests of a module, those of classes as Class::name, with its docstring and theirs."""
    file = ROOT / path
    if not file.is_file():
        return {}
    module = ast.parse(file.read_text(encoding="utf-8"))
    found = {}
    for node in module.body:
        parts = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {
            f"{prefix}{part.name}": f"{ast.get_docstring(module)} {ast.get_docstring(part)}"
            for part in parts
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and part.name.startswith("test_")
        }
    return found


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
    assert [heading[:3] for heading in list(PARTS)[: len(DOCUMENTS)]] == list(DOCUMENTS)
    assert list(PARTS)[len(DOCUMENTS) :] == list(CLAIMS)
    assert all(part.count("\n- says: ") >= 5 for part in PARTS.values())
    assert sum(part.count("\n- says: ") for part in PARTS.values()) == len(ROWS)


def statements(page: str) -> dict[str, list[str]]:
    """Return the statements of each section of a page: bullets, rows of tables and paragraphs.

    Each is in one line, with ``|`` between the cells of a row. Paragraphs that start in bold are headings.
    """
    found: dict[str, list[str]] = {}
    for section in (ROOT / page).read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, _, content = section.partition("\n")
        blocks = re.split(r"\n(?=- |\|)|\n\n", content)
        said = [" ".join(block.split()).removeprefix("- ") for block in blocks]
        rows = [index for index, block in enumerate(said) if re.fullmatch(r"[|-]+", block)]
        heads = {index for row in rows for index in (row - 1, row)}
        found[heading] = [
            re.sub(r"^\| | \|$", "", block)
            for index, block in enumerate(said)
            if block and index not in heads and not block.startswith("**")
        ]
    return found


@pytest.mark.tree
@pytest.mark.parametrize("page", CLAIMS)
def test_each_claim_of_a_page_on_security_has_a_row(page):
    """And each row is on its page, word by word."""
    rows = [" ".join(row["says"].split()) for row in yaml.safe_load(PARTS[page])]
    on_page = statements(page)
    claims = [claim for section in CLAIMS[page] for claim in on_page[section]]
    assert len(claims) >= 10
    assert [claim for claim in claims if claim not in rows] == []
    everything = " ".join(" ".join(section) for section in on_page.values())
    assert [says for says in rows if says not in everything] == []


def words_of(text: str) -> set[str]:
    """Return the beginnings of the words of a text, which plurals and tenses have in common."""
    return {word[:4] for word in re.findall(r"[a-z0-9]{4,}", text.lower())} | set(
        re.findall(r"\b(?:url|tls|64)\b", text.lower())
    )


@pytest.mark.parametrize("page", CLAIMS)
def test_the_tests_of_a_claim_say_the_same(page):
    """The name, the docstring or the module of each test has two words of the claim."""
    strange = []
    for row in yaml.safe_load(PARTS[page]):
        for one in named_in(row):
            path, _, function = one.partition("::")
            said = words_of(f"{path} {function} {functions_of(path).get(function, '')}".replace("_", " "))
            if len(said & words_of(row["says"])) < 2:
                strange.append((row["says"], one))
    assert strange == []


def test_a_name_that_is_not_there_is_found():
    """The search above would fail on a missing file and on a missing test."""
    here = "tests/package/test_documented_statements.py"
    assert exists(f"{here}::test_a_name_that_is_not_there_is_found")
    assert not exists(f"{here}::test_nothing")
    assert not exists(here)
    assert not exists("tests/package/nothing.py::test_nothing")
