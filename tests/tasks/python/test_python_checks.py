"""What is refused before anything is sent, with the name and the line; and what a job has in it."""

from __future__ import annotations

import base64
import functools
import json
import re
import subprocess
import sys
import textwrap
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import luigi
import pytest
import yaml
from luigi.parameter import ParameterVisibility
from places import ROOT
from python_tasks import Rich, Square

from luigi_pai import MissingPackage, PaiPythonTask, SpecError, runtime
from luigi_pai.jobspec.arrays.jobs import array_of
from luigi_pai.jobspec.containers import for_containers
from luigi_pai.jobspec.convert import convert
from luigi_pai.jobspec.submission import submission_text
from luigi_pai.runtime import report

CASES = yaml.safe_load((ROOT / "tests" / "data" / "tasks" / "python_checks.yaml").read_text("utf-8"))
HEAD = "import threading\nimport luigi\nfrom luigi_pai import PaiPythonTask\n"
MEMBERS = 'image = "python:3"\n'
LOCK = threading.Lock()
TARGET = luigi.LocalTarget("x")


class NeverEqual:
    """A value that cannot be compared, as an array of numpy."""

    def __eq__(self, other):
        raise ValueError("the truth value is ambiguous")

    __hash__ = None


ARRAY = NeverEqual()


class Small(PaiPythonTask):
    """What all of these have."""

    image = "python:3"

    def work(self):
        return {}


class Misspelt(Small):
    rate = luigi.FloatParameter(default=0.1)

    def work(self):
        self.seen = getattr(self, "optional", None)
        return {"rate": self.rat, "seen": self.seen, "optional": self.optional, "n": self.instances}


class AnyAttribute(Misspelt):
    def __getattr__(self, name):
        raise AttributeError(name)


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused(load, case):
    """It is named, with the line."""
    before, members, wanted = CASES[case]
    source = f"{HEAD}{before}\nclass Job(PaiPythonTask):\n{textwrap.indent(MEMBERS + members, '    ')}"
    number = source.partition("# here")[0].count("\n") + 1
    with pytest.raises(SpecError, match=wanted.replace("LINE", str(number))):
        load(source, "checks").Job().job()


@pytest.mark.parametrize(
    ("task", "problems"),
    [
        (Misspelt(), ["reads self.rat, which the task does not have (did you mean 'rate'?)"]),
        (AnyAttribute(), []),
        (Rich(run_id="a"), []),
    ],
)
def test_an_attribute_that_the_task_does_not_have_is_named(task, problems):
    """Not one that the method sets, looks for, or that __getattr__ may give."""
    assert task._payload().reach.unknown(task) == problems


def test_a_value_of_the_task_that_cannot_travel_is_named(settings):
    class Open(Small):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.held = threading.Lock()

        def work(self):
            return {"held": self.held.locked()}

    settings(pai_url="http://127.0.0.1:1", username="u", password="p")
    task = Open()
    with pytest.raises(SpecError, match=r"work: self.held = <unlocked .* cannot be pickled"):
        task._check(task.job())


def test_what_is_not_used_may_be_anything():
    """Requirements and outputs, targets, locks; an array beside them cannot be compared."""

    class Whole(Small):
        lock = threading.Lock()
        table = [ARRAY]

        def requires(self):
            return Small()

        def output(self):
            return TARGET

        def unused(self):
            return LOCK, self.output()

        def work(self):
            report(step=1)
            return {"runtime": runtime.__name__, "rows": len(self.table)}

    assert Whole().job().taskRoles[0].command.startswith('python3 "$luigi_pai_file" Whole__')


# ---------------------------------------------------------------- size, names, what is sent


def test_a_file_that_no_command_takes_says_by_how_much_and_what_is_in_it(settings, tmp_path, monkeypatch):
    """With HDFS it is in the code folder."""
    noise = base64.b64encode(bytes(range(256)) * 10).decode()
    folder = tmp_path / "largepkg"
    folder.mkdir()
    text = "".join(f"x{number} = {hash((noise, number))}\n" for number in range(9000))
    (folder / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    class Packed(Small):
        packages = "largepkg"

    settings(pai_url="http://127.0.0.1:1", username="u", password="p")
    task = Packed()
    with pytest.raises(
        SpecError, match=r"[\d,]+ more than fit in a command.*compressed: largepkg [\d,]+, cloudpickle"
    ):
        task._check(task.job())
    settings(webhdfs_url="http://127.0.0.1:1")
    task._check(task.job())


def test_the_file_has_python_alone_in_it_and_depends_on_nothing_else():
    """No time, no order of hashes: the same class has the same file."""
    first, second = (Square(run_id="x")._payload() for _ in range(2))
    assert first.file == second.file
    with zipfile.ZipFile(BytesIO(first.file)) as archive:
        names = archive.namelist()
        assert json.loads(archive.read("task.json"))["task"] == "Square"
    assert {"__main__.py", "luigi_pai/runtime.py", "cloudpickle/cloudpickle.py", "work.pickle"} <= set(names)
    assert not [
        name for name in names if "luigi" in name and "runtime" not in name and "__init__" not in name
    ]


def test_thirty_points_are_one_job_of_fifty_kilobytes():
    """The file is in it once; a job of its own is smaller still."""
    points = [Square(run_id="x", number=number) for number in range(30)]
    prepared = [point._prepared(_named(point), "v2", None) for point in points]
    whole = len(submission_text(array_of("array", [convert(job).protocol for job in prepared])))
    single = len(submission_text(convert(prepared[0]).protocol))
    assert 40_000 < single < whole < 55_000


def _named(point):
    return for_containers(point.job(), point.name, with_runtime=False)


def test_the_name_is_that_of_the_family_and_a_hash_of_the_parameters():
    assert Small().name == "Small"
    one, other = Square(run_id="x", number=1).name, Square(run_id="x", number=2).name
    assert re.fullmatch(r"Square_[0-9a-f]{10}", one)
    assert one != other


def test_the_digest_is_of_the_source():
    """Of the method and of what it calls; not of where it is, nor of other methods."""

    def kind(body, before="", unused="pass"):
        methods = f"    def work(self):\n        return {body}\n    def unused(self):\n        {unused}\n"
        text = f"{before}\nclass T(Small):\n{methods}"
        space = {"Small": Small, "__name__": "__main__"}
        exec(compile(text, "<prompt>", "exec"), space)
        return space["T"]()._payload().reach.digest

    assert kind("1") == kind("1", before="\n\n\nX = 3", unused="return 2")
    assert kind("1") != kind("2")
    helper = "def helper():\n    return {}\n"
    assert kind("helper()", helper.format(1)) != kind("helper()", helper.format(2))
    assert kind("{1, 2} & {'b', 'a'}") == kind("{1, 2} & {'b', 'a'}")


class Login(Small):
    user = luigi.Parameter(default="me")
    password = luigi.Parameter(default="s3cret", visibility=ParameterVisibility.PRIVATE)
    unused = luigi.Parameter(default="h1dden", visibility=ParameterVisibility.PRIVATE)

    def work(self):
        return {"length": len(self.password)}


def test_private_parameters_travel_only_where_they_are_used():
    task = Login()
    payload = task._payload()
    assert task._values(payload)[1] == {"password": "s3cret"}
    assert task._values(payload)[0] == {"name": task.name, "user": "me"}
    assert task._redacted() == ["s3cret"]


def test_tasks_of_other_kinds_load_none_of_it():
    """Importing PaiTask takes no longer."""
    code = "import sys; from luigi_pai import PaiTask; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "luigi_pai.task" in run.stdout
    assert not [word for word in ("cloudpickle", "payload", "python_task") if word in run.stdout]


def test_a_missing_cloudpickle_says_what_to_install(monkeypatch):
    for name in [*sys.modules]:
        if name.startswith("cloudpickle") or name == "luigi_pai.payload.file":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    message = "^PaiPythonTask needs cloudpickle here: pip install cloudpickle$"
    for method in (Small().job, Small().render, Small()._payload):
        with pytest.raises(MissingPackage, match=message) as caught:
            method()
        assert isinstance(caught.value, ImportError)


def test_tasks_are_packed_by_several_threads_at_once(request):
    """As a sweep submits them; what cloudpickle sends by value is one list of the whole process."""
    request.addfinalizer(functools.partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-6)
    tasks = [Square(run_id="threads", number=number) for number in range(50)]
    with ThreadPoolExecutor(8) as threads:
        commands = list(threads.map(lambda task: task.tasks[0].command.replace(task.task_id, ""), tasks))
    assert len(set(commands)) == 1
