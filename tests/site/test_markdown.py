"""All Markdown of this project: links and paths lead somewhere, and code blocks can be read."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import subprocess
import sys
import textwrap

import pytest
import yaml
from cli_commands import cli_commands
from pages import blocks, commands
from places import ROOT

from luigi_pai.config import OpenPai

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(
            path
            for folder in ("docs", "benchmarks", "examples", "tests")
            for path in (ROOT / folder).rglob("*.md")
        ),
    ]
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LANGUAGES = {"", "bash", "console", "ini", "json", "py", "python", "sh", "text", "yaml"}
FOLDERS = "benchmarks|docs|examples|luigi_pai|tests"

pytestmark = pytest.mark.tree


def prose(page):
    """Return a page without its code blocks."""
    return re.sub(r"^(```+).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_link_leads_somewhere(page):
    """To a file of this project and a heading in it. Addresses of other sites are well-formed."""
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in link:
            assert re.fullmatch(r"https?://[\w.-]+(:\d+)?(/\S*)?", link), link
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_path_and_command_in_the_text_is_there(page):
    """`tests/files` and `luigi-pai plan` in backticks exist; `docs/*.md` and `make X` are not looked at."""
    for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose(page)):
        if re.fullmatch(rf"({FOLDERS})(/[\w.-]+)+/?", code) and "X.Y.Z" not in code:
            assert (ROOT / code).exists(), code
        if named := re.match(r"luigi-pai ([a-z]+)", code):
            assert named[1] in cli_commands(), code


def test_pages_list_the_keys_as_they_are_declared():
    """`make tables` writes them."""
    sys.path.insert(0, str(ROOT / "docs/extension"))
    try:
        from generated_pages import KEYS, write_keys  # noqa: PLC0415  not a package
    finally:
        sys.path.pop(0)
    texts = {str(page.relative_to(ROOT)): page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md")}
    assert [name for name, text in texts.items() if write_keys(text) != text] == [], "run: make tables"
    assert set(re.findall(r"^<!-- keys: (.*) -->$", "\n".join(texts.values()), re.MULTILINE)) == set(KEYS)
    assert "`run_timeout`" in texts["docs/configuration.md"]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_block_can_be_read(page):
    """By Python, a shell, YAML or configparser; and commands of luigi-pai have the options that are shown."""
    for block in blocks(page):
        assert block.language in LANGUAGES, f"line {block.line}"
        if check := CHECKS.get(block.language):
            check(block)


def python(block):
    ast.parse(textwrap.dedent(block.text))


def shell(block):
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert done.stderr == "", f"line {block.line}"
    for line in block.text.splitlines():
        luigi_pai(line)


def settings(block):
    parser = configparser.RawConfigParser()
    parser.read_string(block.text)
    keys = {name for name, _ in OpenPai.get_params()}
    for section in parser.sections():
        if section.startswith("OpenPai"):
            assert set(parser[section]) <= keys, f"line {block.line}"


def document(block):
    list(yaml.safe_load_all(block.text))


def value(block):
    json.loads(block.text)


def console(block):
    for command in commands(block):
        luigi_pai(command.text)


def luigi_pai(line):
    """Fail if a line has a command or an option that luigi-pai does not have."""
    for name, arguments in re.findall(
        r"(?:^|[ (])luigi-pai ([a-z]\w*)((?: (?!-- )[^;|&()]*?)?)(?= -- |[;|&)]|$)", line
    ):
        command = cli_commands()[name]
        if command.ignore_unknown_options:
            continue  # parameters of a task
        options = {option for parameter in command.params for option in parameter.opts} | {"-h", "--help"}
        shown = {
            word.partition("=")[0] for word in shlex.split(arguments.partition("#")[0]) if word[0] == "-"
        }
        assert shown - {"-"} <= options, line


CHECKS = {
    "bash": shell,
    "console": console,
    "ini": settings,
    "json": value,
    "python": python,
    "sh": shell,
    "yaml": document,
}
