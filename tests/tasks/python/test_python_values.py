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
import yaml
from places import ROOT
from python_clusters import on
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


def filled(text):
    """Return a text of a case with the secrets, and with the method that sets ``derived``."""
    text = re.sub(r"(?<!\.)PRIVATE", PRIVATE, text).replace("PASSWORD", PASSWORD)
    return re.sub("^derived = (.*)$", lambda found: DERIVED.format(found[1]), text, flags=re.MULTILINE)


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

CASES = yaml.safe_load((ROOT / "tests" / "data" / "tasks" / "python_values.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES["live"])
def test_live_objects_are_refused_with_their_place(case):
    work, before, wanted = CASES["live"][case]
    with pytest.raises(SpecError) as caught:
        posted(task_of(work, before=before))
    assert re.search(wanted, str(caught.value))


@pytest.mark.parametrize("inside", CASES["members"])
def test_a_live_object_of_the_class_or_the_task_is_refused(inside):
    work = "self.derived" if "derived" in inside else "self.x"
    wanted = "self.derived.*" if "derived" in inside else r"Job.x, used in Job.work \(job.py:\d+\),"
    with pytest.raises(SpecError, match=f"{wanted} cannot be pickled: it contains"):
        posted(task_of(work, inside=filled(inside)))


@pytest.mark.parametrize("case", CASES["copies"])
def test_a_copy_of_the_environment_is_refused(case):
    with pytest.raises(SpecError, match=r"E, used in Job.work.* contains (a copy of|the value of)") as caught:
        posted(task_of("E", before=CASES["copies"][case] + "\n"))
    assert IN_ENVIRONMENT not in str(caught.value)


@pytest.mark.parametrize("case", CASES["secrets"])
def test_a_known_secret_is_refused(case):
    work, before, wanted = map(filled, CASES["secrets"][case])
    with pytest.raises(SpecError, match=wanted) as caught:
        posted(task_of(work, before=before))
    assert not [secret for secret in (PRIVATE, IN_ENVIRONMENT, PASSWORD) if secret in str(caught.value)]


@pytest.mark.parametrize("case", CASES["public"])
def test_a_secret_in_the_job_or_a_public_parameter_is_refused(case):
    inside, wanted = map(filled, CASES["public"][case])
    with pytest.raises(SpecError, match=wanted):
        posted(task_of("self.number", inside=inside))


def test_a_short_password_is_found_in_values(settings):
    """A word is not looked for in code, where it may be a name."""
    settings(password="letme")
    posted(task_of("letme", before="letme = 3\n"))
    with pytest.raises(SpecError, match=r"T, used in .* contains a password or token from luigi.cfg"):
        posted(task_of("T", before="T = ['x-letme']\n"))


def test_an_ordinary_variable_and_the_path_of_a_key_are_not_secrets(monkeypatch):
    monkeypatch.setenv("SSH_KEY", "/home/anna/key")
    posted(task_of("V", before="V = ['of no use to anybody 0', '/home/anna/key']\n"))


def test_a_secret_in_a_package_is_refused(tmp_path, monkeypatch):
    (tmp_path / "leaky.py").write_text(f"TOKEN = {IN_ENVIRONMENT!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SpecError, match=r"packages: leaky.py contains .*API_TOKEN"):
        posted(task_of("1", inside="packages = ['leaky']"))


def test_attributes_with_a_private_value_are_refused_on_v1(settings):
    settings(api_version="v1")
    with pytest.raises(
        SpecError, match=r"uses the private parameters derived: OpenPAI 0\.7 to 0\.14"
    ) as caught:
        posted(task_of("self.derived", inside=DERIVED.format("'x/' + self.p")), "v1")
    assert PRIVATE not in str(caught.value)


# ---------------------------------------------------------------- what travels


@pytest.mark.parametrize("case", CASES["clean"])
def test_no_byte_of_a_secret_is_in_the_job(case):
    work, before, inside = map(filled, CASES["clean"][case])
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
    assert "x/abcd" in task._redacted()
    assert PRIVATE in task._redacted()


# ---------------------------------------------------------------- in the container


@on(("v2", False))
@pytest.mark.parametrize("case", CASES["uses"])
def test_a_method_reads_in_the_container_what_it_reads_here(run_id, case):
    """And the job, as the server has it, has no secret in it. The environment is the container's."""
    uses = CASES["uses"][case]
    work = ", ".join(f"{name!r}: {row[0]}" for name, row in uses.items())
    before, inside = (filled("\n".join(row[place] for row in uses.values())) for place in (1, 2))
    task = task_of(f"{{{work}}}", before=before, inside=inside, base=InImage, run_id=run_id, data=case)
    task.run()
    wanted = json.dumps({name: row[3] for name, row in uses.items()})
    assert json.dumps(task.result()["is"]) == filled(wanted)
    assert_clean(json.dumps(OpenPai().cluster().job(task.name).config()))
    assert os.environ["API_TOKEN"] == IN_ENVIRONMENT
