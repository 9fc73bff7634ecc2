"""Virtual clusters and help of the command line."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from local_cases import cases

from luigi_pai.cli.local import local
from luigi_pai.errors import ConfigError
from luigi_pai.local.config.settings import Resources, virtual_clusters

BASE = Resources(cpu=64, memory=262144, gpu=8)
"""A job of a large machine runs on a laptop, too."""


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], {"default": BASE}),
        (["vc1"], {"default": BASE, "vc1": BASE}),
        (["default"], {"default": BASE}),
        (["gpu-cluster:gpu=4"], {"default": BASE, "gpu-cluster": Resources(64, 262144, 4)}),
        (["default:cpu=1"], {"default": Resources(1, 262144, 8)}),
        (["a:gpu=3,memory=5", "a"], {"default": BASE, "a": BASE}),
        (["a:cpu=0,memory=0,gpu=0"], {"default": BASE, "a": Resources()}),
    ],
)
def test_what_is_not_said_is_as_everywhere(texts, expected):
    """There is always a default, and it comes first."""
    found = virtual_clusters(texts)
    assert found == expected
    assert next(iter(found)) == "default"


@pytest.mark.parametrize(("text", "complaint"), cases("anything_else_is_refused"))
def test_anything_else_is_refused(text, complaint):
    """With what is right."""
    with pytest.raises(ConfigError) as error:
        virtual_clusters([text])
    assert complaint in str(error.value)


@pytest.mark.parametrize("sentence", cases("the_help_says_what_surprises"))
def test_the_help_says_what_surprises(sentence):
    """Before a job waits for ever, or a server does not start."""
    shown = CliRunner().invoke(local, ["--help"], terminal_width=300).output
    assert sentence in " ".join(shown.split())
