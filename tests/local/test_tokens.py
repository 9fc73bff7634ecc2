"""Tokens end, and are worth nothing under another key."""

from __future__ import annotations

import stat
import time

from luigi_pai.local.tokens import Bearer, Tokens


def test_a_token_speaks_for_its_user_until_it_ends(monkeypatch):
    """Its exp is honoured."""
    tokens = Tokens(b"k" * 32)
    token = tokens.issue("zoe", admin=False, expiration=60)
    assert tokens.check(token) == Bearer("zoe", admin=False)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 58)
    assert tokens.check(token) == Bearer("zoe", admin=False)
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert tokens.check(token) is None


def test_the_key_is_made_once_and_private(tmp_path):
    """A token of one server is taken by the next one on the same folder, and by no other."""
    path = tmp_path / "token.key"
    token = Tokens.from_file(path).issue("zoe", admin=True, expiration=60)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Tokens.from_file(path).check(token) == Bearer("zoe", admin=True)
    assert Tokens.from_file(tmp_path / "other.key").check(token) is None


def test_a_damaged_key_is_replaced(tmp_path):
    """An empty key would let anybody sign."""
    path = tmp_path / "token.key"
    path.write_bytes(b"")
    token = Tokens.from_file(path).issue("zoe", admin=True, expiration=60)
    assert len(path.read_bytes()) == 32
    assert Tokens(b"").check(token) is None
