"""Luigi's configuration in tests with the plugin: where it leads, and what is as before afterwards."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_configuration_that_a_test_reads_does_not_lead_elsewhere(run, tmp_path):
    """Luigi then reads all its files again, the user's own among them.

    Environment variables that a test sets remain, as those of a module that it imports, which happens once.
    """
    (tmp_path / "luigi.cfg").write_text("[OpenPai]\npai_url = http://real.example:1\n")
    (tmp_path / "test.cfg").write_text("[OpenPai:new]\npai_url = http://new.example:1\n[Other]\nkey = 1\n")
    code, out = run("""
import os
import luigi.configuration

def settings():
    config = luigi.configuration.get_config()
    return [config.get(section, "pai_url", None) for section in ("OpenPai", "OpenPai:new")]

def test_in(pai):
    luigi.configuration.add_config_path("test.cfg")
    assert settings() == [pai.url, pai.url]
    assert luigi.configuration.get_config().get("Other", "key") == "1"
    Train(command="true").run()
    assert pai.submitted == ["train"]
    os.environ["SET_IN_A_TEST"] = "1"
    assert os.environ["LUIGI_CONFIG_PATH"].endswith("luigi.cfg")

def test_with_a_new_parser(pai):
    luigi.configuration.LuigiConfigParser._instance = None  # as tests do to start anew
    assert settings() == [pai.url, pai.url]

def test_after():
    assert settings() == ["http://real.example:1", None]
    assert os.environ["SET_IN_A_TEST"] == "1"
    assert "LUIGI_CONFIG_PATH" not in os.environ
""")
    assert code == 0, out


def test_a_test_leaves_no_claims_in_the_state_of_the_user(run, tmp_path):
    """Each test has a new folder; afterwards the user's own is named again."""
    code, out = run(
        """
import os
import pytest

@pytest.mark.parametrize("fixture", ["pai", "pai", "pai_mock"])
def test_in(fixture, request):
    before = os.environ["XDG_STATE_HOME"]
    request.getfixturevalue(fixture)
    state = os.environ["XDG_STATE_HOME"]
    assert state != before
    assert not os.path.exists(state)
    os.makedirs(state)

def test_after():
    assert os.environ["XDG_STATE_HOME"].endswith("/mine")
""",
        XDG_STATE_HOME=str(tmp_path / "mine"),
    )
    assert code == 0, out
    assert not (tmp_path / "mine").exists()


def test_other_processes_have_the_rest_of_the_users_configuration(run):
    """The sections of the file that LUIGI_CONFIG_PATH named before."""
    code, out = run(
        """
import subprocess, sys
SHOW = "import luigi.configuration as c; g = c.get_config().get; "
SHOW += "print(g('OpenPai', 'pai_url'), g('Train', 'Rate'), repr(g('OpenPai', 'token')))"

def test_it(pai):
    shown = subprocess.check_output([sys.executable, "-W", "ignore", "-c", SHOW], text=True)
    assert shown.split() == [pai.url, "7%", "''"]
""",
        config="[OpenPai]\npai_url = http://real.example:1\ntoken = secret\n[Train]\nRate = 7%%\n",
    )
    assert code == 0, out
