"""Redaction of secrets in texts and in what urllib3 logs."""

from __future__ import annotations

import io
import logging

import pytest

from luigi_pai.jobspec.templates import secrets
from luigi_pai.redaction import (
    MASK,
    logged_forms,
    redact,
    redact_urllib3_logs,
    redact_values,
    redacted_parts,
    wrapped,
)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


def test_lines_break_between_words_on_a_terminal(monkeypatch):
    """Words that are longer than the terminal, and lines that fit, stay as they are; so does indentation."""
    monkeypatch.setenv("COLUMNS", "30")
    url = "http://pai.example.org/job-detail.html?username=anna"
    long = "a line that is longer than thirty columns\n  an indented-line of more than thirty"
    text = f"{long}\nsee  {url}\n      {url}\n  a  b\n"
    assert wrapped(text, Terminal()).split("\n") == [
        *("a line that is longer than", "thirty columns"),
        *("  an indented-line of more", "  than thirty"),
        *("see", url, f"      {url}", "  a  b", ""),
    ]
    coloured = "\x1b[32mSUCCEEDED\x1b[0m and thirty columns"
    assert wrapped(coloured, Terminal()) == coloured
    assert wrapped(text, io.StringIO()) == text


@pytest.mark.parametrize("key", ["delegation", "token", "sig"])
def test_a_token_in_a_url_is_redacted(key):
    """Up to the end of its value; the rest of the URL stays."""
    url = f"http://h:50075/webhdfs/v1/f?{key}=abc%2Fhush&op=OPEN"
    assert redact(f"GET '{url}' failed") == f"GET 'http://h:50075/webhdfs/v1/f?{key}=******&op=OPEN' failed"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (
            "key: -----BEGIN RSA PRIVATE KEY-----\nhush\n-----END RSA PRIVATE KEY----- after",
            "key: ****** after",
        ),
        ("key: -----BEGIN RSA PRIVATE KEY-----\nhush\n", "key: ******"),
        *(("no token for job tokens: the signature is missing",) * 2,),
    ],
)
def test_a_private_key_is_redacted(text, redacted):
    """Also one that is cut off. A word of a URL's parameters is not a token of one."""
    assert redact(text) == redacted


@pytest.mark.parametrize(
    ("text", "secrets", "redacted"),
    [
        ("hush-hush and hush", ["hush", "hush-hush"], "****** and ******"),
        ("a job of abc", ["abc", "", None], "a job of abc"),
    ],
)
def test_known_secrets_are_redacted_the_longest_first(text, secrets, redacted):
    """Not one of three characters, which is part of ordinary words."""
    assert redact_values(text, secrets) == redacted


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_secrets_across_the_parts_of_a_file_are_redacted(size):
    """However it is cut, and whichever of two secrets that contain each other comes first."""
    text = b"a hush, a hush-hush, a hush-hus, hush"
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    redacted = b"".join(redacted_parts(parts, ["hush", None, "hush-hush"]))
    assert redacted == b"a ******, a ******, a ******-hus, ******"
    assert list(redacted_parts(iter(parts), [None])) == parts


def test_logged_forms_of_a_secret():
    """Whole, by lines, and as the runtime escapes it."""
    forms = {"a&b\nsecond", "a&b", "second", "a&amp;b\nsecond", "a&amp;b"}
    assert set(logged_forms(["a&b\nsecond "])) == forms


def test_there_is_one_mask():
    """That of OpenPAI's servers; the job model uses the same."""
    assert MASK == "******"
    assert secrets.masked({"secrets": {"key": "hush"}}) == {"secrets": {"key": MASK}}


def test_urllib3_logs_no_token(caplog):
    """However often the filter is installed."""
    redact_urllib3_logs()
    redact_urllib3_logs()
    logger = logging.getLogger("urllib3.connectionpool")
    caplog.set_level(logging.DEBUG, logger=logger.name)
    logger.debug("GET %s", "/logs?token=hush")
    logger.debug("GET %s", "/logs")
    assert caplog.messages == ["GET /logs?token=******", "GET /logs"]
