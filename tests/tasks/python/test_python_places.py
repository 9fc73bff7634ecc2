"""Where a class may be, and what an image may lack; packages, results, secrets, changed methods."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap

import luigi
import pytest
import yaml
from luigi.parameter import ParameterVisibility
from luigi_process import environment, write_config
from old_python import oldest_python
from places import ROOT
from python_clusters import label, on
from python_tasks import InImage

from luigi_pai import OpenPai, PaiJobFailed, PaiSweep, PaiSweepFailed, SpecError, grid, reset_clusters
from luigi_pai.payload.container import MISSING_MODULE, WRONG_PYTHON

pytestmark = pytest.mark.slow

CASES = yaml.safe_load((ROOT / "tests" / "data" / "tasks" / "python_places.yaml").read_text("utf-8"))
HEAD = """
import array, datetime, sys
from python_tasks import InImage

class Job(InImage):
"""

PACKED = """
packages = ["mypkg", "single"]

def work(self):
    import single
    from mypkg.net import size
    return {"size": size(), "name": single.NAME}
"""

CLASS = """
import luigi
from luigi_pai import PaiPythonTask

SCALE = 2

class Cell(PaiPythonTask):
    run_id = luigi.Parameter()
    image = "python:3"
    memory_mb = 100
    python = {python!r}

    def work(self):
        return {{"scaled": self.more() * SCALE}}

    def more(self):
        return 21
"""

RUN = """
import json
task = Cell(run_id={run_id!r})
done = luigi.build([task], local_scheduler=True, log_level="WARNING")
print(json.dumps([done, dict(task.result())]))
"""

IN_SHELL = """
import sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in {cells!r}:
    shell.run_cell(cell).raise_error()
"""


@pytest.fixture
def run_code(tmp_path, any_cluster):
    """Run texts as a script, as cells of a notebook's shell, or at a prompt; return what is printed."""

    def run(place, *texts):
        config = write_config(tmp_path, any_cluster.section)
        source = IN_SHELL.format(cells=list(texts)) if place == "notebook" else "\n".join(texts)
        script = tmp_path / "script.py"
        script.write_text(source)
        found = subprocess.run(
            [sys.executable, "-" if place == "prompt" else script],
            input=source if place == "prompt" else None,
            env={**environment(config), "IPYTHONDIR": str(tmp_path)},
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr
        return json.loads(found.stdout.splitlines()[-1])

    return run


@pytest.mark.parametrize(
    ("any_cluster", "place"),
    [(("v1", True), "script"), (("v2", False), "notebook"), (("ltp", False), "prompt")],
    indirect=["any_cluster"],
    ids=lambda each: each if isinstance(each, str) else label(each),
)
def test_a_class_of_main_travels(run_code, place, run_id, bare_python):
    """At a prompt there is no source; the digest is of the bytecode then."""
    assert run_code(place, CLASS.format(python=bare_python), RUN.format(run_id=run_id)) == [
        True,
        {"scaled": 42},
    ]


@on(("v2", False))
def test_a_cell_that_is_run_again_counts(run_code, run_id, bare_python):
    """So does a value that another cell has changed since."""
    cell, run = CLASS.format(python=bare_python), RUN.format(run_id=run_id)
    again = [cell.replace("return 21", "return 5"), "SCALE = 100", RUN.format(run_id=f"{run_id}2")]
    assert run_code("notebook", cell, run, *again) == [True, {"scaled": 500}]


# ---------------------------------------------------------------- images


@on(("v1", True), ("v2", False))
def test_an_image_with_another_python_is_one_line(run_id, monkeypatch, tmp_path, bare_python):
    """The oldest Python at hand; where there is no other, one that says so of itself."""
    python, version = oldest_python(), "3.6"
    if python == sys.executable:
        stub = tmp_path / "python3.6"
        changes = "import sys; sys.version_info = (3, 6, 9, 'final', 0); del sys.argv[0]; import runpy; "
        run = f"{changes}runpy.run_path(sys.argv[0], run_name='__main__')"
        stub.write_text(f'#!/bin/sh\nexec {bare_python} -c "{run}" "$@"\n')
        stub.chmod(0o755)
        python = str(stub)
    else:
        shows = "import sys; print('{}.{}'.format(*sys.version_info))"
        version = subprocess.check_output([python, "-c", shows], text=True).strip()
    monkeypatch.setattr(InImage, "python", python)

    class Old(InImage):
        def work(self):
            return {}

    with pytest.raises(PaiJobFailed) as caught:
        Old(run_id=run_id).run()
    here = "{}.{}".format(*sys.version_info)
    assert caught.value.last_line == (
        f"luigi_pai: this image has Python {version}, Old needs {here}: choose an image with Python {here}, "
        f"or run Luigi on {version}"
    )
    assert WRONG_PYTHON in (caught.value.status.exit_code, caught.value.status.command_exit_code)


@on(("v1", True), ("v2", False))
def test_local_packages_are_sent_along(load, run_id, tmp_path, monkeypatch):
    """One that has a module, and a module by itself."""
    (tmp_path / "mypkg").mkdir()
    (tmp_path / "mypkg" / "__init__.py").write_text("")
    (tmp_path / "mypkg" / "net.py").write_text("def size():\n    return 12\n")
    (tmp_path / "single.py").write_text("NAME = 'one'\n")
    monkeypatch.syspath_prepend(tmp_path)
    task = load(HEAD + textwrap.indent(PACKED, "    ")).Job(run_id=run_id)
    task.run()
    assert task.result() == {"size": 12, "name": "one"}


@on(("v2", True))
def test_a_file_that_is_too_large_for_a_command_is_in_the_code_folder(run_id, tmp_path, monkeypatch):
    (tmp_path / "largepkg.py").write_text("".join(f"x{n} = {hash(str(n))}\n" for n in range(12000)))
    monkeypatch.syspath_prepend(tmp_path)

    class Large(InImage):
        packages = ["largepkg"]

        def work(self):
            import largepkg  # noqa: PLC0415  in the container

            return {"last": largepkg.x11999 != 0}

    task = Large(run_id=run_id)
    task.run()
    assert task.result() == {"last": True}
    assert [each for each in task.output().fs.listdir(f"/{task.name}/code") if each.endswith(".zip")]


# ---------------------------------------------------------------- results


@on(("v2", False))
@pytest.mark.parametrize("case", CASES)
def test_what_a_method_leads_to(load, run_id, case):
    """Its result, or the error of its job."""
    members, wanted = CASES[case]
    task = load(f"{HEAD}{textwrap.indent(members, '    ')}").Job(run_id=run_id)
    if "line" not in wanted:
        task.run()
        assert task.result() == wanted["result"]
        assert wanted["log"] in OpenPai().cluster().job(task.name).logs("main")["all"]
        return
    with pytest.raises(PaiJobFailed) as caught:
        task.run()
    assert caught.value.last_line.startswith(wanted["line"])
    assert wanted.get("more", "") in str(caught.value)
    if "code" in wanted:
        code = MISSING_MODULE if wanted["code"] == "MISSING_MODULE" else wanted["code"]
        assert caught.value.status.command_exit_code == code


@on(("v1", True), ("v2", False))
def test_without_a_result_the_reports_count_where_there_are_any(any_cluster, run_id):
    class Reports(InImage):
        def work(self):
            self.pai.report(step=3, loss=0.25)

    task = Reports(run_id=run_id)
    task.run()
    assert task.result() == ({"step": 3, "loss": 0.25} if any_cluster.has_hdfs else {})


# ---------------------------------------------------------------- secrets


class Login(InImage):
    """Uses a private parameter."""

    number = luigi.IntParameter(default=1)
    password = luigi.Parameter(default="pass'word \"$x", visibility=ParameterVisibility.PRIVATE)

    def work(self):
        print(f"the password is {self.password}")  # noqa: T201  a mistake of a user's
        if self.number == 2:
            raise ValueError(self.password)
        return {"length": len(self.password)}


@on(("v2", False), ("ltp", True))
def test_private_parameters_are_secrets_of_the_protocol(run_id):
    """The server shows none, and no error does."""
    task = Login(run_id=run_id)
    task.run()
    assert task.result() == {"length": 13}
    stored = OpenPai().cluster().job(task.name).config()
    assert stored["secrets"] == "******"
    assert "<% $secrets.luigi_pai %>" in str(stored["taskRoles"]["main"]["commands"])
    with pytest.raises(PaiJobFailed, match=r"ValueError: [*]{6}") as caught:
        Login(run_id=run_id, number=2).run()
    assert task.password not in str(caught.value)


@on(("v1", True))
def test_v1_has_no_secrets(run_id):
    """Also where its version is detected."""
    with pytest.raises(SpecError, match="uses the private parameters password"):
        Login(run_id=run_id).run()


@on(("v2", False))
def test_points_of_one_job_have_no_secrets(run_id):
    class Logins(PaiSweep):
        points_per_job = 2

        def points(self):
            return grid(Login, run_id=[run_id], number=[1, 3])

    with pytest.raises(PaiSweepFailed, match="refer to secrets, which points that share a job cannot use"):
        Logins().run()


# ---------------------------------------------------------------- changes


@on(("v1", True))
def test_a_changed_method_under_the_same_name_warns(run_id, caplog):
    def kind(result):
        text = f"""
        class Changing(InImage):
            def work(self):
                return {{"is": {result}}}
        """
        space = {"InImage": InImage, "__name__": "__main__"}
        exec(textwrap.dedent(text), space)
        return space["Changing"](run_id=run_id)

    kind(1).run()
    with caplog.at_level(logging.WARNING, "luigi-interface"):
        kind(1).run()
        assert "has changed" not in caplog.text
        luigi.task_register.Register.clear_instance_cache()
        reset_clusters()  # as another process
        changed = kind(2)
        changed.run()
    assert "the task's definition has changed since (taskRoles" in caplog.text
    assert changed.result() == {"is": 1}
