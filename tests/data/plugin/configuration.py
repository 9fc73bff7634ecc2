"""Luigi's configuration in tests with the plugin: where it points, and which parts are restored afterwards.

tests/testing/test_plugin.py runs them after it has set LUIGI_CONFIG_PATH to user.cfg and XDG_STATE_HOME to
``mine``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import luigi.configuration
import pytest
from pipeline import Train

SHOW = "import luigi.configuration as c; g = c.get_config().get; "
SHOW += "print(g('OpenPai', 'pai_url'), g('Train', 'Rate'), repr(g('OpenPai', 'token')))"


def settings():
    config = luigi.configuration.get_config()
    return [config.get(section, "pai_url", None) for section in ("OpenPai", "OpenPai:new")]


def test_a_configuration_that_a_test_reads_does_not_point_elsewhere(pai):
    """Luigi then reads all its files again, the user's own among them."""
    luigi.configuration.add_config_path("test.cfg")
    assert settings() == [pai.url, pai.url]
    assert luigi.configuration.get_config().get("Other", "key") == "1"
    Train(command="true").run()
    assert pai.submitted == ["train"]
    os.environ["SET_IN_A_TEST"] = "1"
    assert os.environ["LUIGI_CONFIG_PATH"].endswith("luigi.cfg")


def test_nor_does_a_new_parser(pai):
    luigi.configuration.LuigiConfigParser._instance = None  # as tests do to start anew
    assert settings() == [pai.url, pai.url]


def test_the_users_own_is_restored():
    """Variables that a test sets remain, as those of a module that it imports, which happens once."""
    assert settings() == ["http://real.example:1", None]
    assert os.environ["SET_IN_A_TEST"] == "1"
    assert os.environ["LUIGI_CONFIG_PATH"] == "user.cfg"


def test_other_processes_have_the_rest_of_the_users_configuration(pai):
    """The sections of the file that LUIGI_CONFIG_PATH named before."""
    shown = subprocess.check_output([sys.executable, "-W", "ignore", "-c", SHOW], text=True)
    assert shown.split() == [pai.url, "7%", "''"]


@pytest.mark.parametrize("fixture", ["pai", "pai_mock"])
def test_each_test_has_a_new_folder_for_claims(fixture, request):
    before = os.environ["XDG_STATE_HOME"]
    request.getfixturevalue(fixture)
    assert os.environ["XDG_STATE_HOME"] != before
    Path(os.environ["XDG_STATE_HOME"]).mkdir(parents=True)


def test_the_users_own_folder_is_named_again():
    assert os.environ["XDG_STATE_HOME"] == "mine"
