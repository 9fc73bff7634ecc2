"""The rooms of the package import one way, and the inner ones know no Luigi."""

from __future__ import annotations

import re
import subprocess
import sys
from graphlib import TopologicalSorter

import pytest
from places import ROOT

BLOCKING_LUIGI = """
import sys

class NoLuigi:
    def find_spec(self, name, path=None, target=None):
        if name == "luigi" or name.startswith("luigi."):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, NoLuigi())
"""


def run_python(code, cwd):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.slow
@pytest.mark.tree
def test_imports_point_one_way(tmp_path):
    """Every import-linter contract of pyproject.toml holds."""
    code = (
        "import sys; from importlinter.cli import lint_imports; "
        f"sys.exit(lint_imports(no_logo=True, cache_dir={str(tmp_path)!r}))"
    )
    run = run_python(code, ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken\.", run.stdout)


@pytest.mark.tree
@pytest.mark.parametrize(("room", "for_types"), [("luigi_pai", False), ("luigi_pai.api", True)])
def test_no_modules_import_each_other_in_a_circle(room, for_types):
    """Those of api not even for type checking: what a class is given, it does not know."""
    import grimp  # noqa: PLC0415  a development tool, which import-linter brings

    graph = grimp.build_graph("luigi_pai", exclude_type_checking_imports=not for_types, cache_dir=None)
    modules = {module for module in graph.modules if f"{module}.".startswith(f"{room}.")}
    assert len(modules) > 30
    imports = {module: graph.find_modules_directly_imported_by(module) & modules for module in modules}
    TopologicalSorter(imports).prepare()


@pytest.mark.tree
def test_the_book_alone_looks_up_and_shares_what_is_known():
    """Nobody else imports the document of the forks, or has a function of such a name."""
    lookup = re.compile(r"def (find|lookup|latest|status_of)\(")
    document = re.compile(r"^\s*(from|import) \S*book\.document\b", re.MULTILINE)
    book = ROOT / "luigi_pai/api/book"
    modules = [file for file in (ROOT / "luigi_pai").rglob("*.py") if book not in file.parents]
    modules = [file for file in modules if ROOT / "luigi_pai/local" not in file.parents]
    assert len(modules) > 100
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in modules}
    assert [name for name, text in texts.items() if lookup.search(text) or document.search(text)] == []


@pytest.mark.slow
@pytest.mark.parametrize("room", ["luigi_pai.jobspec", "luigi_pai.api"])
def test_every_module_of_the_inner_rooms_imports_without_luigi(room, tmp_path):
    """jobspec and api are of use where Luigi is not installed."""
    code = BLOCKING_LUIGI + (
        "import importlib, pkgutil\n"
        f"room = importlib.import_module({room!r})\n"
        "names = [m.name for m in pkgutil.walk_packages(room.__path__, room.__name__ + '.')]\n"
        "for name in names: importlib.import_module(name)\n"
        "print(*names)\n"
    )
    run = run_python(code, tmp_path)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.split()) >= 2


def test_blocking_luigi_blocks_it(tmp_path):
    """The test above would fail if a module imported Luigi."""
    run = run_python(BLOCKING_LUIGI + "import luigi_pai.config", tmp_path)
    assert run.returncode == 1
    assert "ImportError: luigi is blocked" in run.stderr


@pytest.mark.tree
@pytest.mark.parametrize("top", ["luigi_pai", "tests", "examples"])
def test_no_folder_has_more_than_20_modules(top):
    """A folder is read as a whole; one that grows past that is cut."""
    folders = [ROOT / top, *(path for path in (ROOT / top).rglob("*") if path.is_dir())]
    sizes = {str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) for folder in folders}
    assert sum(sizes.values()) >= 5
    assert {folder: size for folder, size in sizes.items() if size > 20} == {}
