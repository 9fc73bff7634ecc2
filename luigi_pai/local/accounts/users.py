"""The users, their passwords and their tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import math
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.local.store.records import User

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from luigi_pai.local.store.jobs import Store

__all__ = ["Bearer", "TokenRegister", "Tokens", "Users", "hash_password", "password_matches"]

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
        """Add the user, or replace the one of this name."""
        row = (user.name, user.password, int(user.admin))
        self._store.rows("INSERT OR REPLACE INTO users (name, password, admin) VALUES (?, ?, ?)", row)

    async def add(self, name: str, password: str) -> bool:
        """Add a plain user; False if the name is in use."""
        user = User(name, await asyncio.to_thread(hash_password, password), admin=False)
        if self.get(name) is not None:
            return False
        self.save(user)
        return True

    def ensure_admin(self, name: str, password: str) -> None:
        """Create the administrator, or give them this password."""
        self.save(User(name, hash_password(password), admin=True))

    async def with_password(self, name: str, password: str) -> User | None:
        """Return the user if this is their password, which a thread checks; else None."""
        user = self.get(name)
        if user is None or not await asyncio.to_thread(password_matches, user, password):
            return None
        return user

    def virtual_clusters(self, user: User) -> tuple[str, ...]:
        """Return the virtual clusters that a user may submit to: an administrator to all of them."""
        return self._virtual_clusters if user.admin else ("default",)


def hash_password(password: str) -> str:
    """Return ``SALT$HASH``, both hexadecimal."""
    salt = os.urandom(16)
    return f"{salt.hex()}${_derive(password, salt).hex()}"


def password_matches(user: User, password: str) -> bool:
    """Return whether this is the user's password."""
    salt, _, expected = user.password.partition("$")
    return hmac.compare_digest(_derive(password, bytes.fromhex(salt)).hex(), expected)


def _derive(password: str, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode("utf-8", "surrogatepass"), salt, _ITERATIONS)


_KEY_BYTES = 32


@dataclass(frozen=True)
class Bearer:
    """The user of a valid token, with its claims; ``admin`` says what they were when it was issued."""

    username: str
    admin: bool
    application: bool = False
    claims: Mapping[str, Any] = field(default_factory=dict, compare=False)


class Tokens:
    """Signs and checks tokens (HS256)."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def from_file(cls, path: Path) -> Tokens:
        """Read the signing key, or make one that only this user can read; raises OSError."""
        try:
            key = path.read_bytes()
        except FileNotFoundError:
            key = b""
        if len(key) != _KEY_BYTES:
            key = os.urandom(_KEY_BYTES)
            path.unlink(missing_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
        return cls(key)

    def issue(self, claims: Mapping[str, Any], expiration: int | None = None) -> str:
        """Return a token with these claims, valid for ``expiration`` seconds from now; None: for ever."""
        now = int(time.time())
        times = {"iat": now} if expiration is None else {"iat": now, "exp": now + expiration}
        signed = f"{_encode(_HEADER)}.{_encode({**claims, **times})}"
        return f"{signed}.{self._signature(signed)}"

    def claims(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token, or None if it is forged, damaged or expired."""
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(self._signature(signed).encode(), signature.encode("utf-8", "replace")):
            return None
        claims = _decode(signed.rpartition(".")[2])
        return claims if claims.get("exp", math.inf) > time.time() else None

    def _signature(self, signed: str) -> str:
        digest = hmac.digest(self._key, signed.encode("utf-8", "replace"), hashlib.sha256)
        return _unpadded(digest)


class TokenRegister:
    """The valid tokens."""

    def __init__(self, tokens: Tokens, store: Store) -> None:
        self._tokens = tokens
        self._store = store

    def log_in(self, username: str, *, admin: bool, expiration: int) -> str:
        """Return a token for a user who gave their password, valid for ``expiration`` seconds."""
        return self._issue(username, admin=admin, application=False, expiration=expiration)

    def application(self, username: str, *, admin: bool) -> str:
        """Return a token for a program, which does not expire."""
        return self._issue(username, admin=admin, application=True, expiration=None)

    def _issue(self, username: str, *, admin: bool, application: bool, expiration: int | None) -> str:
        claims = {
            "username": username,
            "admin": admin,
            "application": application,
            "jobSpecific": False,
            "encodedFrameworkName": "",
        }
        token = self._tokens.issue(claims, expiration)
        now = int(time.time())
        ends = None if expiration is None else now + expiration
        with self._store.changing():
            self._store.rows("DELETE FROM tokens WHERE ends <= ?", (now,))
            self._store.rows("INSERT OR IGNORE INTO tokens VALUES (?, ?, ?)", (token, username, ends))
        return token

    def check(self, token: str) -> Bearer | None:
        """Return the user of a token, or None if it is not valid."""
        claims = self._tokens.claims(token)
        if claims is None or not self._store.rows("SELECT 1 FROM tokens WHERE token = ?", (token,)):
            return None
        return Bearer(
            str(claims.get("username", "")),
            admin=claims.get("admin") is True,
            application=claims.get("application") is True,
            claims=claims,
        )

    def of_user(self, username: str) -> list[str]:
        """Return the valid tokens of a user."""
        rows = self._store.rows("SELECT token FROM tokens WHERE username = ? ORDER BY rowid", (username,))
        return [row["token"] for row in rows if self._tokens.claims(row["token"]) is not None]

    def owner(self, token: str) -> str | None:
        """Return the user of a token, valid or revoked; None if another server issued it."""
        claims = self._tokens.claims(token)
        return None if claims is None else str(claims.get("username", ""))

    def for_log(self, container_id: str, expiration: int) -> str:
        """Return a token with which the logs of one task can be read."""
        return self._tokens.issue({"log": container_id}, expiration)

    def log_of(self, token: str) -> str | None:
        """Return the container id of the task whose logs a token opens, or None."""
        claims = self._tokens.claims(token) or {}
        return str(claims["log"]) if "log" in claims else None

    def revoke_all(self) -> None:
        """Revoke every token of every user."""
        self._store.rows("DELETE FROM tokens")

    def revoke(self, token: str) -> None:
        """Revoke a token."""
        self._store.rows("DELETE FROM tokens WHERE token = ?", (token,))


_HEADER = {"alg": "HS256", "typ": "JWT"}


def _encode(part: dict[str, Any]) -> str:
    return _unpadded(json.dumps(part, separators=(",", ":")).encode())


def _unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(part: str) -> dict[str, Any]:
    """Return the claims of a part whose signature has been checked."""
    decoded = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return decoded if isinstance(decoded, dict) else {}
