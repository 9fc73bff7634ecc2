"""What is installed, and what lies beside it, says the same as the code."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from luigi.configuration.cfg_parser import LuigiConfigParser
from places import ROOT

from luigi_pai.config import OpenPai


def minima():
    """Return the declared minimum of each library that the package or its extras optuna and python need."""
    stated = [line.partition(";") for line in metadata.requires("luigi-pai")]
    required = [line for line, _, extra in stated if not extra or "optuna" in extra or "python'" in extra]
    pattern = re.compile(r"([\w-]+)(?:<[\d.]+,)?>=([\d.]+)(?:,<[\d.]+)?")
    return dict(pattern.fullmatch(line.replace(" ", "")).groups() for line in required)


def test_the_oldest_versions_tested_are_the_declared_minima():
    """What pyproject.toml promises is what `make test-oldest` runs on."""
    lines = (ROOT / "tests" / "constraints-oldest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    declared = minima()
    for name, minimum in declared.items():
        assert f"{pinned[name]}.".startswith(f"{minimum}."), name
    assert pinned.keys() >= declared.keys()


def test_the_command_is_installed():
    """luigi-pai is a console script that exists."""
    (script,) = metadata.entry_points(group="console_scripts", name="luigi-pai")
    assert callable(script.load())


@pytest.mark.tree
def test_the_example_configuration_has_every_key_with_its_default():
    """luigi.cfg.example: each key of [OpenPai] once; a commented key shows the default."""
    text = (ROOT / "luigi.cfg.example").read_text()
    section = text.split("[OpenPai]")[1].split("\n[")[0]
    shown = re.findall(r"^(#?)([a-z_]+) =[ ]?(.*)$", section, flags=re.MULTILINE)
    defaults = OpenPai().param_kwargs
    assert sorted(key for _, key, _ in shown) == sorted(defaults)
    for hidden, key, value in shown:
        if hidden:
            assert value == str("" if defaults[key] is None else defaults[key]), key


@pytest.mark.tree
def test_the_example_configuration_is_read_by_luigi(monkeypatch):
    """The password comes from the environment as it is there, percent signs and all."""
    parser = LuigiConfigParser()
    parser.read(ROOT / "luigi.cfg.example")
    monkeypatch.setenv("PAI_PASSWORD", "50%off$x")
    assert parser.get("OpenPai", "password") == "50%off$x"
    assert parser.get("OpenPai", "pai_url") == "http://127.0.0.1:9186"
    monkeypatch.delenv("PAI_PASSWORD")
    with pytest.raises(configparser.InterpolationError, match="PAI_PASSWORD"):
        parser.get("OpenPai", "password")


@pytest.mark.tree
def test_the_changelog_knows_this_version():
    """A version is not released without its chapter."""
    assert metadata.version("luigi-pai") in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.tree
@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_between_files_lead_somewhere(page):
    """A link to a file of this project, relative or to its repository, names one that exists."""
    urls = dict(line.split(", ") for line in metadata.metadata("luigi-pai").get_all("Project-URL"))
    repository = re.escape(urls["Source"])
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text())
    own = [re.sub(rf"^{repository}/(blob|tree)/main/", "", link) for link in links]
    assert [link for link in own if ":" not in link and not (ROOT / link).exists()] == []


@pytest.mark.tree
def test_the_readme_can_stand_on_a_package_index():
    """Its links are absolute, and it is read in a minute or two."""
    readme = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", readme)
    assert len(links) >= 10
    assert [link for link in links if not link.startswith("https://")] == []
    assert len(readme.splitlines()) <= 115


@pytest.mark.slow
@pytest.mark.tree
def test_the_commands_of_the_readme_run(tmp_path):
    """The pipeline of README.md runs on the local OpenPAI as it says."""
    readme = (ROOT / "README.md").read_text()
    (task,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    folder = shutil.copytree(ROOT / "examples" / "first", tmp_path / "examples" / "first")
    (folder / "rates.py").write_text(task)
    (shown,) = re.findall(r"```console\n(.*?)```", readme, flags=re.DOTALL)
    install, *commands = [line.removeprefix("$ ") for line in shown.splitlines() if line.startswith("$ ")]
    assert install.startswith("pip install ")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-ec", "\n".join(commands)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1:] == shown.splitlines()[-1:]


@pytest.mark.slow
@pytest.mark.tree
def test_the_script_without_luigi_runs(local_pai_v2, capsys):
    """What the page shows of Cluster and Job runs as it is, but for the address and the password."""
    page = "docs/cluster.md"
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    (script,) = (block for block in blocks if "import Cluster" in block)
    for shown, real in (
        ("http://HOST:9186", local_pai_v2.url),
        ('"anna"', f'"{local_pai_v2.username}"'),
        ('"..."', f'"{local_pai_v2.password}"'),
        ('PaiJob("hello"', f'PaiJob("hello-{Path(page).stem}"'),
    ):
        assert shown in script
        script = script.replace(shown, real)
    exec(compile(script, page, "exec"), {})
    assert "JobState.SUCCEEDED" in capsys.readouterr().out
