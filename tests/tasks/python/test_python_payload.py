"""luigi-pai payload: what a task sends, and nothing is sent."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from click.testing import CliRunner
from places import PROGRAMS

from luigi_pai.cli import main


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with a module, which is imported once: Luigi knows the classes of each import."""
    folder = tmp_path_factory.mktemp("sends")
    shutil.copy(PROGRAMS / "sends.py", folder)
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text("x" * 1200)
    return folder


@pytest.fixture
def payload(folder, monkeypatch):
    """Run luigi-pai payload for a task of the module, and return what it prints."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)

    def run(*words, expect=0):
        result = CliRunner().invoke(main, ["payload", *words], catch_exceptions=False)
        assert result.exit_code == expect, result.output
        return result.output

    return run


def test_it_shows_files_values_and_the_names_of_secrets(payload):
    text = payload("sends", "PayloadFit", "--rate", "0.1")
    assert re.search(r"^work.pickle +[\d,]+$", text, re.MULTILINE)
    assert re.search(r"^total +[\d,]{6}$", text, re.MULTILINE)
    assert "functions: PayloadFit.work, helper" in text
    assert re.search(r"^self.rate +float +21 +0.1$", text, re.MULTILINE)
    table = r"^TABLE +dict +\d+ +\{'a': \[1, 2\]\} +PayloadFit.work \(sends.py:\d+\)$"
    assert re.search(table, text, re.MULTILINE)
    assert text.splitlines()[-1] == "secrets: self.url"
    assert "s3cret" not in text


def test_as_json(payload):
    found = json.loads(payload("--json", "sends", "PayloadFit", "--rate", "0.1"))
    assert found["secrets"] == ["self.url"]
    assert {"name": "self.rate", "type": "float", "size": 21, "value": "0.1", "place": ""} in found["values"]
    assert set(found["parts"]) == {"__main__.py", "cloudpickle", "luigi_pai", "task.json", "work.pickle"}


def test_uploads_have_their_sizes(payload):
    assert payload("sends", "PayloadSends").splitlines() == [
        "upload  to the cluster  files  bytes",
        "code    /Data/code      1      1,200",
        "",
    ]
    assert payload("sends", "PayloadBare") == "PayloadBare() sends only its job: see luigi-pai render\n"


def test_what_cannot_be_sent_is_an_error(payload):
    text = payload("sends", "PayloadLeaking", "--rate", "0.1", expect=1)
    assert "work() contains the value of the private parameter key" in text
    assert "s3cret" not in text
    assert "PayloadProtocol in sends is not a PaiTask" in payload("sends", "PayloadProtocol", expect=2)
