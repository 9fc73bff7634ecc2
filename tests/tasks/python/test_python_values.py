"""What travels with a method: values, never live objects of this process, and no secret in clear."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import zipfile
from io import BytesIO

import luigi
import pytest
from python_clusters import label
from python_tasks import InImage

from luigi_pai import OpenPai, PaiPythonTask, SpecError
from luigi_pai.jobspec.containers import for_containers
from luigi_pai.jobspec.convert import convert
from luigi_pai.jobspec.submission import submission_text

PRIVATE, IN_ENVIRONMENT, PASSWORD = "pr1vate-v@lue", "t0ken/of/the/environment", "the-clusters-pass"

HEAD = """
import dataclasses, datetime, enum, functools, http.cookiejar, io, json, logging, os, pathlib, socket, sys
import luigi, requests, threading
from os import environ, environb
from sys import argv, path, stdout
from luigi.parameter import ParameterVisibility
from luigi_pai import OpenPai
"""

CLASS = """
class Job(Base):
    image = "python:3"
    p = luigi.Parameter(default="pr1vate-v@lue", visibility=ParameterVisibility.PRIVATE)
    number = luigi.IntParameter(default=7)
    data = luigi.Parameter(default="data")
"""

DERIVED = """
def __init__(self, *args, **kwargs):
    super().__init__(*args, **kwargs)
    self.derived = {}
"""


def task_of(work, *, before="", inside="", base=PaiPythonTask, **parameters):
    """Return a task of a module, from lines before its class and in it, and what ``work`` returns."""
    method = f"    def work(self):\n        return {{'is': {work}}}\n"
    body = "".join(f"    {line}\n" for line in inside.splitlines())
    space = {"Base": base, "__name__": "__main__"}
    luigi.task_register.Register.clear_instance_cache()
    exec(compile(HEAD + before + CLASS + body + method, "job.py", "exec"), space)
    return space["Job"](**parameters)


def posted(task, api="v2"):
    """Return the job of a task as it is posted."""
    job = for_containers(task.job(), task.name, with_runtime=False)
    task._check(task.job())
    prepared = task._prepared(job, api, None)
    return submission_text(
        convert(prepared).protocol if api == "v2" and hasattr(prepared, "jobName") else prepared
    )


def all_bytes(text):
    """Return all that a job has in clear: the text, what is base64 in it, and what is in a zip file there."""
    found = [text.encode()]
    for word in re.findall(r"[A-Za-z0-9+/=]{16,}", re.sub(r"secrets:.*", "", text, flags=re.DOTALL)):
        try:
            found.append(base64.b64decode(word, validate=True))
        except binascii.Error:
            continue
        if found[-1].startswith(b"PK"):
            with zipfile.ZipFile(BytesIO(found[-1])) as archive:
                found += [archive.read(name) for name in archive.namelist()]
    assert len(found) > 5
    return b"\n".join(found)


def assert_clean(text):
    """Fail if a job has in clear what others may not read."""
    data = all_bytes(text)
    for secret in (PRIVATE, IN_ENVIRONMENT, PASSWORD, "of no use to anybody"):
        for form in (secret, secret[::-1], base64.b64encode(secret.encode()).decode()):
            assert form.encode() not in data, form


@pytest.fixture(autouse=True)
def _environment(monkeypatch, settings):
    """An environment with a secret, and a configuration with a password."""
    monkeypatch.setenv("API_TOKEN", IN_ENVIRONMENT)
    for number in range(8):
        monkeypatch.setenv(f"OF_HERE_{number}", f"of no use to anybody {number}")
    settings(pai_url="http://127.0.0.1:1", username="u", password=PASSWORD)


# ---------------------------------------------------------------- refused

LIVE = {
    "sys.argv": (
        "argv",
        "",
        r"argv, used in Job.work \(job.py:\d+\), .*write `import sys` and sys.argv in work",
    ),
    "another name": ("P", "P = sys.path\n", "P, used in Job.work .*sys.path"),
    "sys.modules": ("len(M)", "M = sys.modules\n", "M, used in Job.work .*sys.modules"),
    "in containers": ("T", "T = {'a': [(argv,)]}\n", "T, used in Job.work .*sys.argv"),
    "a logger": ("L", "L = logging.getLogger('x')\n", "L, used in Job.work .*a Logger in it.*getLogger"),
    "an adapter": ("L", "L = logging.LoggerAdapter(logging.root, {})\n", "L, used in .*logging.getLogger"),
    "a handler": ("L", "L = logging.NullHandler()\n", "L, used in .*a NullHandler"),
    "a file": ("F", "F = io.BufferedReader(io.BytesIO())\n", "F, used in .*open it in work"),
    "stdout": ("stdout", "", "stdout, used in .*open file"),
    "a socket": ("S", "S = socket.socket()\n", "S, used in .*a socket in it.*connect in work"),
    "a session": ("S", "S = requests.Session()\n", "S, used in .*a Session in it.*make it in work"),
    "cookies": ("C", "C = http.cookiejar.CookieJar()\n", "C, used in .*a CookieJar"),
    "a cluster": ("C", "C = OpenPai().cluster()\n", "uses C in Job.work .*no luigi"),
    "settings": ("C", "C = OpenPai()\n", "uses C in Job.work .*no luigi"),
    "settings in a list": ("C", "C = [OpenPai()]\n", "C, used in .*luigi_pai.config.OpenPai in it"),
    "a thread": ("T", "T = threading.Thread()\n", "T, used in .*cannot be pickled"),
    "a default": (
        "f()",
        "def f(x=argv): return x\n",
        r"a default argument, used in f \(job.py:\d+\).*sys.argv",
    ),
    "a keyword's": ("f()", "def f(*, x=[path]): return x\n", r"a default argument, used in f .*sys.path"),
    "an attribute of a function": (
        "f()",
        "def f(): return f.x\nf.x = argv\n",
        r"f.x, used in f \(.*sys.argv",
    ),
    "a partial": ("f()", "f = functools.partial(len, argv)\n", "f, used in Job.work .*sys.argv"),
    "a closure": (
        "f()",
        "def make(x):\n    def inner(): return x\n    return inner\nf = make(argv)\n",
        "x, used in make.<locals>.inner .*sys.argv",
    ),
    "a decorator": (
        "f()",
        "def with_(x):\n    return lambda f: lambda: (x, f())\n@with_(path)\ndef f(): pass\n",
        "x, used in .*sys.path",
    ),
    "an instance": (
        "V.x",
        "class Value:\n    def __init__(self, x): self.x = x\nV = Value(argv)\n",
        "V, used in Job.work .*sys.argv",
    ),
    "a class": ("Value.x", "class Value:\n    x = argv\n", "Value, used in Job.work .*sys.argv"),
    "a dataclass": (
        "V",
        "@dataclasses.dataclass\nclass Value:\n    x: list\nV = Value(logging.root)\n",
        "V, used in Job.work .*a RootLogger",
    ),
}

COPIES = {
    "a dict": "E = dict(environ)\n",
    "a copy": "E = environ.copy()\n",
    "values": "E = [value for name, value in environ.items() if name != 'API_TOKEN']\n",
    "pairs": "E = list(os.environ.items())\n",
    "a repr": "E = repr(environ)\n",
    "JSON": "E = json.dumps(dict(environ))\n",
    "bytes": "E = dict(environb)\n",
    "a file": "E = io.StringIO('\\n'.join(f'{k}={v}' for k, v in environ.items()))\n",
    "in an instance": "class V: pass\nE = V()\nE.env = [dict(environ)]\n",
    "without the secret": "E = {k: v for k, v in environ.items() if k != 'API_TOKEN'}\n",
}

SECRETS = {
    "a variable": ("T", "T = environ['API_TOKEN']\n", "T, used in .*environment variable API_TOKEN"),
    "inside": ("T", "T = ['Bearer ' + environ['API_TOKEN']]\n", "T, used in .*API_TOKEN"),
    "in bytes": ("T", "T = {b'x': environb[b'API_TOKEN']}\n", "T, used in .*API_TOKEN"),
    "the password": ("U", f"U = 'http://u:{PASSWORD}@h'\n", r"U, used in .*a password or token of luigi.cfg"),
    "in code": (f"'{PASSWORD}'", "", r"work\(\) contains a password or token of luigi.cfg"),
    "a constant": ("C", f"C = {{1: '{PRIVATE}'}}\n", "C, used in .*the private parameter p"),
    "a default": ("f()", f"def f(x='{PRIVATE}'): return x\n", "a default argument.*private parameter p"),
}


@pytest.mark.parametrize("case", LIVE)
def test_live_objects_are_refused_with_their_place(case):
    work, before, wanted = LIVE[case]
    with pytest.raises(SpecError) as caught:
        posted(task_of(work, before=before))
    assert re.search(wanted, str(caught.value))


@pytest.mark.parametrize("inside", ["x = logging.root", "x = argv", "x = [requests.Session()]"])
def test_a_live_object_of_the_class_is_refused(inside):
    with pytest.raises(SpecError, match=r"Job.x, used in Job.work \(job.py:\d+\), cannot be pickled: it has"):
        posted(task_of("self.x", inside=inside))


@pytest.mark.parametrize("value", ["argv", "[logging.root]", "OpenPai()", "OpenPai().cluster()"])
def test_a_live_object_of_the_task_is_refused(value):
    with pytest.raises(SpecError, match=r"self.derived.* cannot be pickled: it has"):
        posted(task_of("self.derived", inside=DERIVED.format(value)))


@pytest.mark.parametrize("case", COPIES)
def test_a_copy_of_the_environment_is_refused(case):
    with pytest.raises(SpecError, match=r"E, used in Job.work.* contains (a copy of|the value of)") as caught:
        posted(task_of("E", before=COPIES[case]))
    assert IN_ENVIRONMENT not in str(caught.value)


@pytest.mark.parametrize("case", SECRETS)
def test_a_known_secret_is_refused(case):
    work, before, wanted = SECRETS[case]
    with pytest.raises(SpecError, match=wanted) as caught:
        posted(task_of(work, before=before))
    assert not [secret for secret in (PRIVATE, IN_ENVIRONMENT, PASSWORD) if secret in str(caught.value)]


@pytest.mark.parametrize(
    ("inside", "wanted"),
    [
        ("name = property(lambda self: f'train-{self.p}')", "self.name contains .*private parameter p"),
        ("tags = property(lambda self: [self.p])", r"job\(\): contains .*private parameter p"),
        ("gpu_type = property(lambda self: self.p)", r"job\(\): contains .*private parameter p"),
        (f"virtual_cluster = '{PASSWORD}'", r"job\(\): contains a password or token of luigi.cfg"),
        (f"other = luigi.Parameter(default='x/{PRIVATE}')", "self.other contains .*private parameter p"),
        (
            "q = luigi.Parameter('ab', visibility=ParameterVisibility.PRIVATE)\nr = luigi.Parameter('ab')",
            "self.r contains .*q",
        ),
    ],
)
def test_a_secret_in_the_job_or_a_public_parameter_is_refused(inside, wanted):
    with pytest.raises(SpecError, match=wanted) as caught:
        posted(task_of("self.number", inside=inside))
    assert "work: self" not in wanted or PRIVATE not in str(caught.value)


def test_a_short_password_is_found_in_values(settings):
    """A word is not looked for in code, where it may be a name."""
    settings(password="letme")
    posted(task_of("letme", before="letme = 3\n"))
    with pytest.raises(SpecError, match=r"T, used in .* contains a password or token of luigi.cfg"):
        posted(task_of("T", before="T = ['x-letme']\n"))


def test_a_secret_in_a_package_is_refused(tmp_path, monkeypatch):
    (tmp_path / "leaky.py").write_text(f"TOKEN = {IN_ENVIRONMENT!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SpecError, match=r"packages: leaky.py contains .*API_TOKEN"):
        posted(task_of("1", inside="packages = ['leaky']"))


def test_attributes_with_a_private_value_are_refused_on_v1(settings):
    settings(api_version="v1")
    with pytest.raises(SpecError, match="uses derived, private parameters") as caught:
        posted(task_of("self.derived", inside=DERIVED.format("'x/' + self.p")), "v1")
    assert PRIVATE not in str(caught.value)


# ---------------------------------------------------------------- what travels

CLEAN = {
    "another object's": ("[o.password for o in ()]", "", "password = 'of no use to anybody'"),
    "another module's": ("re.password", "import re\n", "password = 'of no use to anybody'"),
    "an argument's": ("f(3)", "def f(o): return o.rate\n", "rate = 'of no use to anybody'"),
    "beside a helper": (
        "(f(self), argv_.password)",
        "import io as argv_\ndef f(t): return t.data\n",
        "password = 'of no use to anybody'",
    ),
    "after an escape": ("[t.password for t in [self]]", "", "password = 'of no use to anybody'"),
    "an attribute": ("self.derived", "", DERIVED.format("'x/' + self.p")),
    "in a dict": ("self.derived", "", DERIVED.format("{'k': [b'x' + self.p.encode()]}")),
    "in an object": (
        "self.derived.url",
        "class Client:\n    def __init__(self, p): self.url = f'x/{p}'\n",
        DERIVED.format("Client(self.p)"),
    ),
    "a property": ("self.url", "", "url = property(lambda self: 'x/' + self.p)"),
    "a cached property": ("self.url", "", "url = functools.cached_property(lambda self: 'x/' + self.p)"),
    "an unused one": ("1", "", DERIVED.format("self.p")),
    "environ": ("environ.get('API_TOKEN')", "", ""),
    "environb": ("environb.get(b'API_TOKEN')", "", ""),
    "nested": ("T['e'][0]['API_TOKEN']", "T = {'e': [environ]}\n", ""),
    "bound": ("get('API_TOKEN')", "get = environ.get\n", ""),
    "partial": ("f()", "f = functools.partial(environ.get, 'API_TOKEN')\n", ""),
    "default": ("f()", "def f(e=environ): return e\n", ""),
    "os": ("os.environ", "", ""),
}


@pytest.mark.parametrize("case", CLEAN)
def test_no_byte_of_a_secret_is_in_the_job(case):
    work, before, inside = CLEAN[case]
    assert_clean(posted(task_of(work, before=before, inside=inside)))


@pytest.mark.parametrize("value", ["3", "'ab'", "datetime.date(2026, 1, 2)", "1.5"])
@pytest.mark.parametrize("form", ["self.q", "[self.q]"])
def test_an_attribute_that_equals_a_private_value_is_a_secret(value, form):
    """However short it is. A public parameter may be equal to a private number by chance."""
    kind = {"3": "Int", "'ab'": "", "1.5": "Float"}.get(value, "Date")
    inside = f"q = luigi.{kind}Parameter(default={value}, visibility=ParameterVisibility.PRIVATE)\n"
    task = task_of("self.derived", inside=inside + DERIVED.format(form), number=3)
    assert sorted(task._values(task._payload())[1]) == ["derived"]
    assert "number" in task._values(task._payload())[0]


def test_values_and_not_keys_of_a_private_dict_are_secret():
    """All of it is redacted in errors of a task that has an attribute with one of the values."""
    inside = "q = luigi.DictParameter({'data': 'abcd'}, visibility=ParameterVisibility.PRIVATE)\n"
    task = task_of("self.derived", inside=inside + DERIVED.format("'x/' + self.q['data']"))
    assert_clean(posted(task))
    assert "x/abcd" in task._secret_texts()
    assert PRIVATE in task._secret_texts()


# ---------------------------------------------------------------- in the container

USES = {
    "environ": ("[environ.get('API_TOKEN'), environ['PAI_JOB_NAME'] == self.name]", "", "", [None, True]),
    "nested": ("T[0].get('API_TOKEN', get('API_TOKEN', 3))", "T, get = [environ], environ.get\n", "", 3),
    "helper": (
        "[f(self), f(task=self), f(self, n=len('ab'))]",
        "def f(task, n=1): return task.rate * n\n",
        "rate = 2",
        [2, 2, 4],
    ),
    "alias": ("(lambda t: [t.rate, getattr(t, 'size')])(self)", "", "rate = 2\nsize = 3", [2, 3]),
    "list": ("sum(t.rate for t in [self, self])", "", "rate = 2", 4),
    "kept": (
        "Net(self).double()",
        "class Net:\n    def __init__(self, t): self.t = t\n    def double(self): return 2 * self.t.rate\n",
        "rate = 2",
        4,
    ),
    "decorated": (
        "[self.twice(), self.fixed(), self.own()]",
        "def loud(f):\n    @functools.wraps(f)\n    def inner(*a): return f(*a)\n    return inner\n",
        (
            "rate = 2\n@loud\ndef twice(self): return self.rate * 2\n@staticmethod\ndef fixed(): return 5\n"
            "@classmethod\ndef own(cls): return cls.rate"
        ),
        [4, 5, 2],
    ),
    "changed": (
        "[self.add(), self.number]",
        "",
        "count = 1\ndef add(self):\n    self.count += 1\n    return self.count",
        [2, 7],
    ),
    "values": (
        "[D.x, str(P), W.isoformat(), B.getvalue().decode(), C.A.name, sorted(S)]",
        (
            "@dataclasses.dataclass\nclass Data:\n    x: int\nclass C(enum.Enum):\n    A = 1\n"
            "D, P, W = Data(4), pathlib.Path('/x'), datetime.date(2026, 1, 2)\n"
            "B, S = io.BytesIO(b'b'), {1, 2}\n"
        ),
        "",
        [4, "/x", "2026-01-02", "b", "A", [1, 2]],
    ),
    "secret": ("self.derived", "", DERIVED.format("len(self.p), 'x/' + self.p"), [13, f"x/{PRIVATE}"]),
    "private": (
        "[f(self), self.url]",
        "def f(t): return len(t.p)\n",
        "url = property(lambda self: 'x/' + self.p)",
        [13, f"x/{PRIVATE}"],
    ),
}


@pytest.mark.slow
@pytest.mark.usefixtures("any_cluster")
@pytest.mark.parametrize("any_cluster", [("v2", False)], indirect=True, ids=label)
@pytest.mark.parametrize("case", USES)
def test_a_method_reads_in_the_container_what_it_reads_here(run_id, case):
    """And the job, as the server has it, has no secret in it. The environment is the container's."""
    work, before, inside, wanted = USES[case]
    task = task_of(work, before=before, inside=inside, base=InImage, run_id=run_id, data=case)
    task.run()
    assert task.result() == {"is": wanted}
    assert_clean(json.dumps(OpenPai().cluster().job(task.name).config()))
    assert os.environ["API_TOKEN"] == IN_ENVIRONMENT
