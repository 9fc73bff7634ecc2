"""What a local server can be, and that each release is told apart as real ones are."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from luigi_pai.cli.local import local
from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai
from luigi_pai.local.config.settings import Address, HdfsAddress, Settings
from luigi_pai.local.luigi_config import open_pai_section
from luigi_pai.local.releases import RELEASES


@pytest.mark.slow
def test_a_wrong_name_is_refused():
    server = LocalPai(api="lpt")
    with pytest.raises(ConfigError, match=r"api 'lpt': it must be one of v1, v2, ltp"):
        server.start()
    assert not server.data.exists()


def test_the_configuration_for_ltp_is_that_of_v2(tmp_path):
    """To Luigi, and to the client, it is one dialect."""
    address = Address("127.0.0.1", 1)
    hdfs = HdfsAddress(address.url, f"hdfs://{address.netloc}")
    settings = {api: Settings(tmp_path, api=api) for api in RELEASES}
    apis = {api: open_pai_section(address, hdfs, settings[api])["api_version"] for api in RELEASES}
    assert apis == {"v1": "v1", "v2": "v2", "ltp": "v2"}


def test_the_command_says_what_it_is():
    shown = CliRunner().invoke(local, ["--help"], terminal_width=100).output
    assert "[v2|v1|ltp]" in shown
    assert "ltp is their successor LTP 1.5" in " ".join(shown.split())


@pytest.mark.slow
def test_the_command_serves_ltp(tmp_path):
    """For the length of a command, whose configuration says v2."""
    code = (
        "import os, configparser, urllib.request as u; c = configparser.RawConfigParser();"
        " c.read(os.environ['LUIGI_CONFIG_PATH']); s = c['OpenPai'];"
        " print(s['api_version'], u.urlopen(s['pai_url'] + '/api/v2/info').read().decode())"
    )
    run = subprocess.run(
        [sys.executable, "-m", "luigi_pai", "local", "--api", "ltp", "--", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("v2 ")
    assert '"version":"v1.8.1"' in run.stdout
