"""The pages whose files and commands run from top to bottom, on an OpenPAI of this machine."""

from __future__ import annotations

import configparser

import pytest
from pages import blocks, file_name, run_page
from places import ROOT

from luigi_pai.local import LocalPai

PAGES = (
    "index.md",
    "get-started.md",
    "python.md",
    "tasks.md",
    "running-again.md",
    "files.md",
    "configuration.md",
    "protocol.md",
    "recipes.md",
    "coming-from-contrib.md",
    "reference/job-formats.md",
    "reliability.md",
)

pytestmark = [pytest.mark.tree, pytest.mark.timeout(400), pytest.mark.slow]  # a process for each command


@pytest.fixture(scope="module")
def server():
    with LocalPai(password="admin-password") as running:
        yield running


@pytest.mark.parametrize("name", PAGES)
def test_the_page_runs_as_it_says(name, server, tmp_path):
    """Its pipelines, its commands, and what they print."""
    server.empty()
    config = configparser.RawConfigParser()
    config["OpenPai"] = server.luigi_section
    with (tmp_path / "server.cfg").open("w", encoding="utf-8") as file:
        config.write(file)
    page = ROOT / "docs" / name
    has_own = any(file_name(block) == "luigi.cfg" and "pai_url" in block.text for block in blocks(page))
    environment = {
        "HOME": str(tmp_path),
        "PAI_PASSWORD": server.password,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
    }
    if not has_own:
        environment["LUIGI_CONFIG_PATH"] = str(tmp_path / "server.cfg")
    folder = tmp_path / "pipeline"
    folder.mkdir()
    replaced = {
        "http://127.0.0.1:9186": server.url,
        "hdfs://127.0.0.1:9186": server.fs_uri,
        "PYTHONPATH=. ": f"PYTHONPATH=.:{ROOT} ",
    }
    assert run_page(page, folder, environment, replaced) > 0
