"""The users of a data folder: the administrator, and plain users beside them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.settings import DEFAULT_PASSWORD
from luigi_pai.local.store.records import User

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.store.jobs import Store

__all__ = ["Users", "hash_password", "password_matches"]

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

    def ensure_admin(self, name: str, password: str | None) -> None:
        """Create the administrator if there is none; a given password replaces the stored one."""
        user = self.get(name)
        if user is None:
            user = User(name, hash_password(password or DEFAULT_PASSWORD), admin=True)
        elif password is not None and not password_matches(user, password):
            user.password = hash_password(password)
        user.admin = True
        self.save(user)

    def refuse_default_passwords(self) -> None:
        """Raise ConfigError, to serve no other machines, while users have the default password."""
        names = [row["name"] for row in self._store.rows("SELECT name FROM users ORDER BY name")]
        users = [user for name in names if (user := self.get(name)) is not None]
        open_to_all = [user.name for user in users if password_matches(user, DEFAULT_PASSWORD)]
        if open_to_all:
            raise ConfigError(
                f"users of this data folder still have the default password: {', '.join(open_to_all)}; "
                "give them others before other machines can reach it, or use another --data"
            )

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
