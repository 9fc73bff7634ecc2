"""What the runtime makes of exit codes and output, by itself."""

from __future__ import annotations

import time

import pytest
from local_cases import cases

from luigi_pai.local.container.runtime import runtime_exit
from luigi_pai.local.container.task_files import redactor


@pytest.fixture
def translate(tmp_path):
    """Return what a code and an output become."""

    def translated(code, stdout="", stderr="", runtime=""):
        for name, text in (("stdout", stdout), ("stderr", stderr), ("runtime", runtime)):
            (tmp_path / name).write_bytes(text.encode())
        logs = (tmp_path / "stdout", tmp_path / "stderr")
        return runtime_exit(code, logs, tmp_path / "runtime", redactor({}))

    return translated


@pytest.mark.parametrize(("code", "stdout", "expected", "matched"), cases("the_first_pattern_that_fits_wins"))
def test_the_first_pattern_that_fits_wins(code, stdout, expected, matched, translate):
    """Within one line, whatever the case."""
    found, info = translate(code, stdout)
    assert found == expected
    assert info.get("matchedUserLogString") == matched


@pytest.mark.slow
@pytest.mark.parametrize(
    "word", ["tensorflow ", "torch/install/share/lua.c.", "nameerror: name", "indexerror:"]
)
def test_a_log_that_is_one_long_line_is_searched_in_no_time(word, translate):
    """A progress bar writes no newline; the whole server would wait."""
    begun = time.thread_time()
    assert translate(1, word * (4_000_000 // len(word)))[0] == 255
    assert time.thread_time() - begun < 10


def test_secrets_are_hidden_line_by_line_but_for_the_shortest():
    """A brace is everywhere; a secret of one line is hidden however short it is."""
    hide = redactor(
        {"pin": "77\n", "key": "{\n  private one\n}", "more": [None, {"y": "deep-one"}], "n": 12345}
    )
    assert hide("{ 77 private one deep-one 12345 }") == "{ ****** ****** ****** ****** }"
