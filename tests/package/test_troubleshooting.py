"""docs/troubleshooting.md names every error and cause, and quotes what is really said."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
import yaml
from places import DATA, ROOT

from luigi_pai import errors
from luigi_pai.cli import status
from luigi_pai.files import errors as hdfs_errors

PAGE = ROOT / "docs" / "troubleshooting.md"

pytestmark = pytest.mark.tree


def page():
    return PAGE.read_text(encoding="utf-8")


def rows(title):
    """Return the cells of each row of the tables whose first heading is a title."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", page(), flags=re.MULTILINE):
        first, _, *body = [
            [cell.strip(" ") for cell in line.strip("|\n").split(" | ")] for line in table.splitlines()
        ]
        if first[0].strip() == title:
            found += body
    assert found
    return found


@cache
def said():
    """Return all texts of the package, and of the mistakes that are made for real, as one."""
    texts = []
    for path in sorted((ROOT / "luigi_pai").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
    mistakes = yaml.safe_load((DATA / "mistakes.yaml").read_text(encoding="utf-8"))
    texts += [text for mistake in mistakes for text in mistake["says"]]
    return "\0".join(texts)


def test_every_error_is_there_with_its_next_step():
    named = {name.strip("`"): step for name, _, step in rows("error")}
    public = {
        name
        for module in (errors, hdfs_errors)
        for name in module.__all__
        if isinstance(kind := getattr(module, name), type)
        and issubclass(kind, Exception)
        and kind is not errors.PaiError
    }
    assert len(public) > 20
    assert set(named) == public
    grouping = {"PaiApiError", "PaiJobError"}
    assert {name for name, step in named.items() if not step} == grouping


@pytest.mark.parametrize("text", [row[0] for row in rows("message")])
def test_a_text_is_really_said(text):
    """Each piece of it stands in the package, or in the text about a mistake."""
    (quoted,) = re.findall(r"^`(.*)`$", text)
    for piece in quoted.split("..."):
        assert piece in said(), piece


def test_the_causes_of_exit_codes_are_those_of_the_package():
    causes = {int(code): cause for code, cause in rows("exit code")}
    assert causes == status._CAUSES


def test_links_lead_to_a_page_and_a_heading():
    for link in re.findall(r"\]\(([^)]+)\)", page()):
        file, _, anchor = link.partition("#")
        target = PAGE.parent / file
        assert target.is_file(), link
        headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if anchor else []
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in anchors, link
