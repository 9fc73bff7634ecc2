"""What ``luigi-pai local --help`` tells somebody who has never run it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from local_cases import cases

from luigi_pai.cli.local import local


@pytest.mark.parametrize("sentence", cases("the_help_says_what_surprises"))
def test_the_help_says_what_surprises(sentence):
    """Before a job waits for ever, or a server does not start."""
    shown = CliRunner().invoke(local, ["--help"], terminal_width=300).output
    assert sentence in " ".join(shown.split())
