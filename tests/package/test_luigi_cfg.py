"""luigi.cfg means the same to commands that do not import Luigi as to Luigi."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CASES = yaml.safe_load((Path(__file__).parents[1] / "data/luigi_cfg.yaml").read_text("utf-8"))
READ_BOTH = """
import importlib, json, os, sys, types, warnings
warnings.simplefilter("ignore")
try:
    import toml
except ImportError:
    import tomllib
    load = lambda path: tomllib.loads(open(path).read())
    sys.modules["toml"] = types.SimpleNamespace(load=load)
import luigi.configuration.cfg_parser, luigi.configuration.core, luigi.configuration.toml_parser
from luigi_pai import config_file, luigi_cfg
from luigi_pai.config import OpenPai

def outcome(read):
    try:
        return repr(read())
    except Exception as error:
        return type(error).__name__

def luigis():
    for name in ("cfg_parser", "toml_parser", "core"):
        importlib.reload(sys.modules[f"luigi.configuration.{name}"])
    importlib.reload(luigi.configuration)
    return luigi.configuration.get_config()

def without_luigi():
    luigi_cfg.parser.cache_clear()
    return luigi_cfg.parser()

def read(parser, value):
    try:
        parser = parser()
    except Exception as error:
        return type(error).__name__
    found = {key: outcome(lambda: value(key, parameter)) for key, parameter in OpenPai.get_params()}
    written = getattr(parser, "data", None)
    if written is None:
        written = {name: dict(parser.items(name, raw=True)) for name in parser}
    return [found, repr(written), list(parser._config_paths)]

results = {}
for name, (folder, variables) in json.load(sys.stdin).items():
    os.chdir(folder)
    os.environ.update(variables)
    theirs = read(luigis, lambda key, parameter: parameter.task_value("OpenPai", key))
    loaded, config_file._parser = config_file._parser, without_luigi
    ours = read(without_luigi, lambda key, _parameter: config_file.configuration().read("OpenPai", key))
    config_file._parser = loaded
    results[name] = ours, theirs
    for variable in variables:
        del os.environ[variable]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return what both read, by case. Luigi reads its files only once, so its modules are reloaded."""
    cases = {}
    for name, given in CASES.items():
        folder = tmp_path_factory.mktemp("case")
        for file, content in given.items():
            if not file.isupper():
                (folder / file).write_text(content, "utf-8")
        variables = {key: value.replace("HERE", str(folder)) for key, value in given.items() if key.isupper()}
        cases[name] = str(folder), variables
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LUIGI_")}
    run = subprocess.run(
        [sys.executable, "-c", READ_BOTH],
        input=json.dumps(cases),
        env=kept,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs tomllib if toml is not installed")
@pytest.mark.parametrize("name", CASES)
def test_luigi_reads_the_same(results, name):
    """The files, their sections, and the value or error of each key of [OpenPai]."""
    ours, theirs = results[name]
    assert ours == theirs


WITHOUT_TASKS = """
import sys
from luigi_pai.cli import main
for line in ("list", "status x", "logs x", "stop x", "clusters", "submit --like x"):
    words = line.split()
    try:
        main(words)
    except SystemExit as end:
        print(words[0], end.code)
print([name for name in sys.modules if name.partition(".")[0] == "luigi"])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        ("[OpenPai]\npai_url = http://127.0.0.1:9\n", 3, "cannot reach http://127.0.0.1:9"),
        ("[OpenPai]\npassword = ${NO_SUCH_VARIABLE}\n", 2, "password needs the environment variable NO_SUCH"),
        (
            "pai_url = http://127.0.0.1:9\n",
            2,
            "luigi.cfg cannot be read: luigi.cfg, line 1: this line is not in a section",
        ),
    ],
)
def test_a_command_without_a_task_does_not_import_luigi(text, code, error, tmp_path):
    """Luigi takes longer to import than all the rest."""
    (tmp_path / "luigi.cfg").write_text(text)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LUIGI_")}
    command = [sys.executable, "-c", WITHOUT_TASKS]
    run = subprocess.run(command, cwd=tmp_path, env=kept, capture_output=True, text=True, check=True)
    commands = ("list", "status", "logs", "stop", "clusters", "submit")
    assert run.stdout.splitlines() == [*(f"{command} {code}" for command in commands), "[]"]
    assert run.stderr.count(error) == len(commands)
