"""Exit codes and lines of commands that fail."""

from __future__ import annotations

import configparser
import contextlib

import click
import pytest

from luigi_pai.cli.failures import plain_failures
from luigi_pai.config_file import FIRST_FILE, no_file
from luigi_pai.errors import (
    ClusterUnreachable,
    ConfigError,
    InvalidReply,
    JobNotFound,
    PaiNameTaken,
    Problem,
    SpecError,
)
from luigi_pai.files import HdfsError, HdfsUnreachable


@contextlib.contextmanager
def failures_of_status(interrupted="stopped"):
    with click.Context(click.Command("status"), info_name="status"), plain_failures(interrupted):
        yield


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("pai_url is empty"), 2, "pai_url is empty"),
        (configparser.Error("no section"), 2, "luigi.cfg cannot be read: no section"),
        (
            configparser.InterpolationSyntaxError("password", "OpenPai", "found: '%secret'"),
            2,
            "luigi.cfg cannot be read: password of [OpenPai] contains a single %; write %%",
        ),
        (
            ClusterUnreachable("cannot reach http://h"),
            2,
            f"pai_url is not set: {no_file()}; {FIRST_FILE}. At the default address: cannot reach http://h",
        ),
        (
            SpecError("x", [Problem("image", "is missing")]),
            1,
            f"{SpecError('x', [Problem('image', 'is missing')])}",
        ),
        (HdfsUnreachable("cannot reach\nhttp://h", operation="read", path="/p"), 3, "cannot reach http://h"),
        (HdfsError("no path", operation="resolve", path="p"), 2, "no path"),
        (HdfsError("denied", operation="read", path="/p"), 1, "denied"),
        (
            InvalidReply("a page"),
            2,
            f"pai_url is not set: {no_file()}; {FIRST_FILE}. At the default address: a page",
        ),
        (JobNotFound("no job x"), 1, "no job x"),
        (PaiNameTaken("taken", "j"), 1, "taken"),
        (KeyboardInterrupt(), 1, "interrupted; nothing is lost"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_an_error_is_one_line_and_an_exit_code(error, code, line, capsys, monkeypatch):
    """0 success, 1 failure, 2 usage or configuration, 3 unreachable."""
    monkeypatch.setattr("luigi_pai.config_file.ignored_files", list)
    with pytest.raises(SystemExit) as caught, failures_of_status("interrupted; nothing is lost"):
        raise error
    assert caught.value.code == code
    assert capsys.readouterr().err == f"luigi-pai status: {line}\n"


@pytest.mark.parametrize(
    ("content", "encoding", "why"),
    [
        ("[OpenPai]\npassword = süß\n", "latin-1", " is not UTF-8; save it as UTF-8"),
        (  # as on Windows
            "[OpenPai]\npassword = süß\n",
            "utf-8-sig",
            " starts with a byte order mark (BOM); save it as UTF-8 without BOM",
        ),
        ("password = x\n", "utf-8", ", line 1: this line is not in a section; write [OpenPai] above it"),
        ("[OpenPai]\nhidden\n", "utf-8", ", line 2: this is not key = value"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_named(tmp_path, capsys, content, encoding, why):
    """Its line is not shown: it may be a password."""
    path = tmp_path / "luigi.cfg"
    path.write_text(content, encoding)
    with pytest.raises(SystemExit) as caught, failures_of_status():
        configparser.ConfigParser().read(path, encoding="utf-8")
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"luigi-pai status: luigi.cfg cannot be read: {path}{why}\n"


@pytest.mark.parametrize("error", [ZeroDivisionError(), UnicodeDecodeError("ascii", b"\xe4", 0, 1, "")])
def test_an_unexpected_error_keeps_its_traceback(error):
    """A defect of the program is not a failure of the command."""
    with pytest.raises(type(error)), failures_of_status():
        raise error
