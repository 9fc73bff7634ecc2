"""The users, their passwords and their tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.local.store.records import User

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from luigi_pai.local.store.jobs import Store

_ITERATIONS = 20_000


class Users:
    """The users, in the database."""

    def __init__(self, store: Store, virtual_clusters: Sequence[str]) -> None:
        self._store = store
        self._virtual_clusters = tuple(virtual_clusters)

    def get(self, name: str) -> User | None:
        """Return the user, or None."""
        rows = self._store.rows("SELECT * FROM users WHERE name = ?", (name,))
        return User(rows[0]["name"], rows[0]["password"], admin=bool(rows[0]["admin"])) if rows else None

    def save(self, user: User) -> None:
        """Add the user, or replace an existing user of the same name."""
        row = (user.name, user.password, int(user.admin))
        self._store.rows("INSERT OR REPLACE INTO users (name, password, admin) VALUES (?, ?, ?)", row)

    async def add(self, name: str, password: str) -> bool:
        """Add a plain user and return True. If the name is in use, return False."""
        user = User(name, await asyncio.to_thread(_hash_password, password), admin=False)
        if self.get(name) is not None:
            return False
        self.save(user)
        return True

    def ensure_admin(self, name: str, password: str) -> None:
        """Create the administrator, or give an existing user this password and administrator rights."""
        self.save(User(name, _hash_password(password), admin=True))

    def is_admin(self, name: str) -> bool:
        """Return whether a user is an administrator now, regardless of their token."""
        user = self.get(name)
        return user is not None and user.admin

    def virtual_clusters(self, name: str) -> tuple[str, ...]:
        """Return the virtual clusters that a user may use: all for administrators, ``default`` for others."""
        return self._virtual_clusters if self.is_admin(name) else ("default",)


def _hash_password(password: str) -> str:
    """Return ``SALT$HASH``, both hexadecimal."""
    salt = os.urandom(16)
    return f"{salt.hex()}${_derive(password, salt).hex()}"


async def password_matches(user: User, password: str) -> bool:
    """Return whether this is the user's password. A thread hashes it, so the event loop is not blocked."""
    salt, _, expected = user.password.partition("$")
    derived = await asyncio.to_thread(_derive, password, bytes.fromhex(salt))
    return hmac.compare_digest(derived.hex(), expected)


def _derive(password: str, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode("utf-8", "surrogatepass"), salt, _ITERATIONS)


_DAY = 24 * 3600


@dataclass(frozen=True)
class Bearer:
    """A valid token's user and claims; ``admin`` is True if the token was issued to an administrator."""

    username: str
    admin: bool
    application: bool = False
    claims: Mapping[str, Any] = field(default_factory=dict, compare=False)


class Tokens:
    """The valid tokens, in the database: JSON Web Tokens with random numbers as signatures."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def issue(self, username: str, *, admin: bool, expiration: int | None) -> str:
        """Return a token valid for ``expiration`` seconds, or an endless application token if it is None."""
        claims = {
            "username": username,
            "admin": admin,
            "application": expiration is None,
            "jobSpecific": False,
            "encodedFrameworkName": "",
        }
        return self._add(username, claims, expiration)

    def _add(self, owner: str, claims: Mapping[str, Any], expiration: int | None) -> str:
        now = int(time.time())
        times = {"iat": now} if expiration is None else {"iat": now, "exp": now + expiration}
        token = f"{_encode(_HEADER)}.{_encode({**claims, **times})}.{secrets.token_urlsafe(32)}"
        with self._store.changing():
            self._store.execute("DELETE FROM tokens WHERE ends <= ?", (now,))
            self._store.insert("tokens", token=token, username=owner, ends=times.get("exp"))
        return token

    def _valid(self, column: str, value: str, seconds: int = 0) -> list[sqlite3.Row]:
        """Return the tokens with ``value`` in ``column`` that remain valid for over ``seconds`` seconds."""
        sql = f"SELECT * FROM tokens WHERE {column} = ? AND ifnull(ends, 1e99) > ? ORDER BY rowid"  # noqa: S608
        return self._store.rows(sql, (value, time.time() + seconds))

    def check(self, token: str) -> Bearer | None:
        """Return a token's user, or None if the token is not valid."""
        claims = _decode(token) if self._valid("token", token) else {}
        if "username" not in claims:
            return None
        return Bearer(claims["username"], claims["admin"], claims["application"], claims)

    def valid_tokens(self, username: str) -> list[str]:
        """Return a user's valid tokens."""
        return [row["token"] for row in self._valid("username", username)]

    def log_token(self, container_id: str) -> str:
        """Return a token that gives access to one task's logs for at least half a day."""
        known = self._valid("username", f"log:{container_id}", _DAY // 2)
        if known:
            return str(known[0]["token"])
        return self._add(f"log:{container_id}", {"log": container_id}, _DAY)

    def opened_log(self, token: str) -> str | None:
        """Return the container id of the task whose logs a token gives access to, or None."""
        return _decode(token).get("log") if self._valid("token", token) else None

    def revoke(self, token: str) -> None:
        """Revoke a token."""
        self._store.execute("DELETE FROM tokens WHERE token = ?", (token,))


_HEADER = {"alg": "HS256", "typ": "JWT"}


def _encode(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode()).rstrip(b"=").decode()


def _decode(token: str) -> dict[str, Any]:
    """Return a token's claims without checking that it is valid; empty if the string is not a token."""
    part = token.partition(".")[2].partition(".")[0]
    try:
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        return {}
    return claims if isinstance(claims, dict) else {}
