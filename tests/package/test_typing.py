"""What the pages and examples show, and what tests/typing promises, is content with mypy and pyright."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import luigi
import pytest
from luigi.task import MixinNaiveBulkComplete
from places import ROOT

from luigi_pai import PaiProtocolTask, PaiTask

PAGES = "tests/typing/pages"  # a folder that [tool.pyright] includes, with all of its rules

pytestmark = pytest.mark.tree

# Pages and examples leave out what is not their subject; to Luigi's own functions it is left, too.
STRICT = """
[mypy]
strict = True
python_version = 3.10
untyped_calls_exclude = luigi
[mypy-cloudpickle.*,hdfs.*,luigi.*,sklearn.*,torch.*,optuna.*,pai_runtime]
ignore_missing_imports = True
[mypy-matplotlib.*]
follow_imports = skip
[mypy-{modules}]
disallow_untyped_defs = False
disallow_incomplete_defs = False
disallow_untyped_calls = False
disallow_untyped_decorators = False
disallow_any_generics = False
"""
# may be a list, pyright finds: Luigi says no type
LUIGIS_INPUT = re.compile(r".*self\.input\(\)( / |\.rows\(\)).*")
HEADER = """\
import luigi
from luigi.contrib.s3 import S3Target
from luigi_pai import PaiPythonTask, PaiTask

"""


def python_of(page):
    """Return the modules with tasks and jobs that a page shows: file name -> text."""
    modules = {}
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    if page.stem == "notebook":  # cells, which see what those before them have defined
        blocks = ["\n".join(block for block in blocks if "await" not in block)]
    for number, block in enumerate(blocks):
        named = re.match(r"# (\w+\.py)\n", block)
        name = named[1] if named else f"{page.stem.lower()}_{number}.py"
        if block.startswith(" "):  # methods of a class that stands above
            modules[name] = f"{HEADER}class Train(PaiTask):\n{block}"
        elif "import" not in block and re.search("^class ", block, re.MULTILINE):
            modules[name] = f"{HEADER}{block}"
        elif page.name == "README.md" or re.search("^class ", block, re.MULTILINE) or "JobProtocol(" in block:
            modules[name] = block
    return modules


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Return a copy of what is checked, the pages' examples among it."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "pyproject.toml", tree)
    for folder in "luigi_pai", "examples", "tests/typing":
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    # mypy has each name of a module once
    stand_in = tree / "examples" / "protocols" / "stand_in"
    (stand_in / "digits.py").rename(stand_in / "digits_stand_in.py")
    (tree / PAGES).mkdir()
    for page in ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")):
        for name, text in python_of(page).items():
            (tree / PAGES / name).write_text(LUIGIS_INPUT.sub(r"\g<0>  # pyright: ignore", text))
    return tree


def run(tree, *command):
    """Run a checker; return what it says if it is not content."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYRIGHT_PYTHON_")}
    env["PYRIGHT_PYTHON_IGNORE_WARNINGS"] = "1"  # or PyPI is asked for a newer one
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=tree, env=env, capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_pages_have_examples_of_tasks(tree):
    """The checks below have something to look at."""
    pages = [path.read_text() for path in (tree / PAGES).glob("*.py")]
    assert sum("(PaiTask):" in page for page in pages) >= 4
    assert any("(PaiProtocolTask):" in page for page in pages)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pyright_is_content(tree):
    """With properties, class attributes and parameters; and it reports what tests/typing marks as wrong."""
    assert run(tree, "pyright", "--pythonpath", sys.executable) == ""


@pytest.mark.slow
@pytest.mark.timeout(900)  # some 40 s where nothing else runs
def test_mypy_is_content(tree):
    """The same for mypy --strict."""
    shown = sorted([*tree.glob(f"{PAGES}/*.py"), *tree.glob("examples/**/*.py")])
    (tree / "mypy.ini").write_text(STRICT.format(modules=",".join(path.stem for path in shown)))
    assert run(tree, "mypy", "--config-file=mypy.ini", "tests/typing", "examples") == ""


@pytest.mark.parametrize("task", [PaiTask, PaiProtocolTask])
def test_at_run_time_there_are_properties_of_a_luigi_task(task):
    """What type checkers are told leaves no trace."""
    assert task.__mro__[2:4] == (MixinNaiveBulkComplete, luigi.Task)  # after JobTask
    assert type(task) is type(luigi.Task)
    assert "__init__" not in vars(task)
    assert type(vars(task)["name"]) is property
    required = {PaiTask: {"name", "image", "tasks"}, PaiProtocolTask: {"protocol"}}
    assert task.__abstractmethods__ == required[task]
