"""Tokens end, can be revoked, and are worth nothing on another server."""

from __future__ import annotations

import time

import pytest

from luigi_pai.local.accounts.users import Bearer, Tokens
from luigi_pai.local.store.jobs import Store


@pytest.fixture
def tokens(tmp_path):
    store = Store(tmp_path / "server.sqlite")
    yield Tokens(store)
    store.close()


def test_a_token_speaks_for_its_user_until_it_ends(tokens, monkeypatch):
    """Only what was issued and kept counts; what has ended is forgotten."""
    login = tokens.issue("zoe", admin=True, expiration=60)
    program = tokens.issue("zoe", admin=False, expiration=None)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 58)
    assert tokens.check(login) == Bearer("zoe", admin=True)
    assert tokens.check(program) == Bearer("zoe", admin=False, application=True)
    assert tokens.valid_tokens("zoe") == [login, program]
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert tokens.check(login) is None
    assert tokens.valid_tokens("zoe") == [program]
    tokens.revoke(program)
    assert tokens.check(program) is None


def test_a_token_of_another_server_is_worth_nothing(tokens, tmp_path):
    """Nor one that somebody has changed, nor what is no token."""
    other = Store(tmp_path / "other.sqlite")
    token = Tokens(other).issue("zoe", admin=True, expiration=60)
    other.close()
    assert tokens.check(token) is None
    mine = tokens.issue("zoe", admin=True, expiration=60)
    assert tokens.check(f"{mine[:-1]}{'a' if mine[-1] != 'a' else 'b'}") is None
    assert [tokens.check(word) for word in ("", "x", "a.b.c", "a.bnVsbA.c")] == [None] * 4


def test_a_token_for_a_log_is_for_nothing_else(tokens, monkeypatch):
    """It stands in an address that may be passed on; it is the same for half a day, and good for a day."""
    token = tokens.log_token("container")
    assert tokens.opened_log(token) == "container"
    assert tokens.check(token) is None
    assert tokens.opened_log(tokens.issue("zoe", admin=True, expiration=60)) is None
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 11 * 3600)
    assert tokens.log_token("container") == token
    monkeypatch.setattr(time, "time", lambda: now + 13 * 3600)
    assert tokens.log_token("container") != token
    assert tokens.opened_log(token) == "container"
    monkeypatch.setattr(time, "time", lambda: now + 25 * 3600)
    assert tokens.opened_log(token) is None
