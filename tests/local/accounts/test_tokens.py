"""Tokens end, can be revoked, and are worth nothing under another key."""

from __future__ import annotations

import stat
import time

import pytest

from luigi_pai.local.accounts.users import Bearer, TokenRegister, Tokens
from luigi_pai.local.store.jobs import Store

ZOE = {"username": "zoe"}


def test_a_token_speaks_for_its_user_until_it_ends(monkeypatch):
    """Its exp is honoured."""
    tokens = Tokens(b"k" * 32)
    token = tokens.issue(ZOE, 60)
    assert tokens.claims(token)["username"] == "zoe"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 58)
    assert tokens.claims(token)["username"] == "zoe"
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert tokens.claims(token) is None


def test_the_key_is_made_once_and_private(tmp_path):
    """A token of one server is taken by the next one on the same folder, and by no other."""
    path = tmp_path / "token.key"
    token = Tokens.from_file(path).issue(ZOE, 60)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Tokens.from_file(path).claims(token)["username"] == "zoe"
    assert Tokens.from_file(tmp_path / "other.key").claims(token) is None


def test_a_damaged_key_is_replaced(tmp_path):
    """An empty key would let anybody sign."""
    path = tmp_path / "token.key"
    path.write_bytes(b"")
    token = Tokens.from_file(path).issue(ZOE, 60)
    assert len(path.read_bytes()) == 32
    assert Tokens(b"").claims(token) is None


@pytest.fixture
def register(tmp_path):
    store = Store(tmp_path / "server.sqlite")
    yield TokenRegister(Tokens(b"k" * 32), store)
    store.close()


def test_a_token_is_in_force_until_it_is_revoked(register):
    """Only what was issued and kept counts; what has ended is forgotten."""
    login = register.log_in("zoe", admin=True, expiration=60)
    program = register.application("zoe", admin=True)
    assert register.check(login) == Bearer("zoe", admin=True)
    assert register.check(program) == Bearer("zoe", admin=True, application=True)
    assert register.of_user("zoe") == [login, program]
    register.revoke(program)
    assert register.check(program) is None
    assert register.of_user("zoe") == [login]
    assert register.check(Tokens(b"k" * 32).issue({"username": "zoe", "admin": True}, 60)) is None


def test_a_token_for_a_log_is_for_nothing_else(register):
    """It stands in an address that may be passed on."""
    token = register.for_log("container", 60)
    assert register.log_of(token) == "container"
    assert register.check(token) is None
    assert register.log_of(register.log_in("zoe", admin=True, expiration=60)) is None
