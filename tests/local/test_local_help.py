"""What ``luigi-pai local --help`` tells somebody who has never run it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from luigi_pai.cli.local import local


@pytest.mark.parametrize(
    "sentence",
    [
        "set LUIGI_PAI_LOCAL_PASSWORD for another. Only you can connect.",
        "A job that asks for more than there is waits until it is stopped",
        "[default: ~/.local/share/luigi_pai/local; with COMMAND a temporary folder]",
        "OpenPAI 1.8 and LTP have the storage `nfs1`, which jobs mount at /mnt/nfs1; 0.7.1 has an HDFS.",
        "--hdfs [URL] Have an HDFS: the one whose WebHDFS is at URL, or without URL one of its own.",
        "Usage: local [OPTIONS] [-- COMMAND ...]",
        "--api [v2|v1|ltp]",
        "ltp is their successor LTP 1.5",
    ],
)
def test_the_help_says_what_surprises(sentence):
    """Before a job waits for ever, or a server does not start."""
    shown = CliRunner().invoke(local, ["--help"], terminal_width=300).output
    assert sentence in " ".join(shown.split())
