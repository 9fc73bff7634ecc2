"""What ``import luigi_pai`` gives, and what it does not drag in."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import luigi_pai
from luigi_pai import errors, hdfs, testing

HEAVY = ("luigi", "hdfs", "jsonschema", "click", "tornado", "yaml")
CONTRIB = ("OpenPai", "PaiJob", "PaiTask", "Port", "TaskRole", "slot_to_dict")


def imported_by(statement: str) -> set[str]:
    """Return the top-level modules that a statement loads in a fresh interpreter."""
    script = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_all_is_sorted_and_complete():
    """With each error, and with each name of contrib, so that changing the import line is enough."""
    assert luigi_pai.__all__ == sorted(set(luigi_pai.__all__))
    assert {*CONTRIB, *errors.__all__} <= {*luigi_pai.__all__}


@pytest.mark.parametrize("name", luigi_pai.__all__)
def test_every_name_can_be_imported(name):
    """Each name of ``__all__`` is defined in a module that exports it."""
    value = getattr(luigi_pai, name)
    assert name in importlib.import_module(value.__module__).__all__


def test_only_modules_of_users_have_all():
    """``__all__`` is the list of what users import; inside the package, an underscore marks private names."""
    root = Path(luigi_pai.__file__).parent
    with_all = {
        ".".join(("luigi_pai", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        for path in root.rglob("*.py")
        if any(
            isinstance(node, ast.Name) and node.id == "__all__"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    }
    defining = {
        getattr(package, name).__module__
        for package in (luigi_pai, hdfs, testing)
        for name in package.__all__
    }
    entries = {"luigi_pai"}
    entries |= {f"luigi_pai.{name}" for name in ("files", "files.errors", "hdfs", "local", "testing")}
    others = (
        "api.logs.reader",
        "config",
        "jobspec.protocol",
        "local.local_pai",
        "notebook",
        "optuna",
        "runtime",
    )
    extras = {f"luigi_pai.{name}" for name in others}
    assert with_all == {*defining, *entries, *extras}


def test_importing_the_package_imports_nothing_heavy():
    """``import luigi_pai`` loads neither Luigi nor any library."""
    assert imported_by("import luigi_pai").isdisjoint({*HEAVY, "requests"})
    assert "optuna" not in imported_by("from luigi_pai import PaiSweep")


@pytest.mark.slow
def test_jobspec_and_api_import_without_luigi():
    """What a job is, and how to talk to a cluster, needs no Luigi, and no library before it is used."""
    modules = ("jobspec.job", "jobspec.validate", "api.cluster", "api.job", "api.watching")
    assert imported_by(f"import luigi_pai.{', luigi_pai.'.join(modules)}").isdisjoint(HEAVY)


@pytest.mark.slow
def test_a_pipeline_without_hdfs_imports_no_hdfs():
    """``PaiTask`` brings Luigi, and not what only HDFS, validation or the command line use."""
    anyway = imported_by("import luigi, requests")  # Luigi itself loads jsonschema where it is installed
    added = imported_by("from luigi_pai import PaiTask, TaskRole") - anyway
    assert "luigi_pai" in added
    assert added.isdisjoint({"hdfs", "jsonschema", "click", "yaml"})


def test_dir_lists_every_public_name():
    """Completion in a shell shows the names before they are loaded."""
    assert set(luigi_pai.__all__) <= set(dir(luigi_pai))
    assert dir(luigi_pai) == sorted(dir(luigi_pai))


def test_an_unknown_name_is_an_attribute_error():
    """A misspelt name fails as in any module."""
    with pytest.raises(AttributeError, match=r"^module 'luigi_pai' has no attribute 'PaiTsak'$"):
        luigi_pai.PaiTsak  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'PaiTsak'"):
        exec("from luigi_pai import PaiTsak")


@pytest.mark.slow
def test_settings_are_options_of_the_luigi_command():
    """A module that imports PaiTask alone knows --OpenPai-on-forgotten and its like."""
    code = "from luigi_pai import PaiTask; from luigi.task_register import Register"
    assert "OpenPai" in imported_by(f"{code}; print(*Register.task_names())")


MOCKED_RUN = """
import sys
import responses
from luigi_pai import PaiTask, TaskRole

class Train(PaiTask):
    name, image, tasks = "train", "python:3", [TaskRole("main", "true")]

status = {"name": "train", "username": "me", "jobStatus": {"state": "SUCCEEDED"}}
with responses.RequestsMock(assert_all_requests_are_fired=False) as server:
    server.post("http://pai/rest-server/api/v1/token", json={"token": "t", "user": "me"})
    server.get("http://pai/rest-server/api/v1/jobs/train", status=404, json={"code": "NoJobError"})
    assert not Train().complete()
    loaded = set(sys.modules)
    server.post("http://pai/rest-server/api/v1/jobs", status=202, json={})
    server.replace("GET", "http://pai/rest-server/api/v1/jobs/train", json=status)
    Train().run()
print(*sorted(name for name in set(sys.modules) - loaded if name.startswith("luigi_pai")))
"""


def test_a_worker_that_is_forked_for_a_run_loads_next_to_nothing(tmp_path):
    settings = "pai_url = http://pai/rest-server\nusername = me\npassword = p\napi_version = v1\n"
    (tmp_path / "luigi.cfg").write_text(f"[OpenPai]\n{settings}")
    command = [sys.executable, "-c", MOCKED_RUN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
