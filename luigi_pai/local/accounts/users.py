"""Users of the local server: passwords and permissions, as OpenPAI 0.7.1 has them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import ConfigError
from luigi_pai.local.accounts.user_records import UserRecords
from luigi_pai.local.config.settings import DEFAULT_PASSWORD
from luigi_pai.local.node.http import ApiError
from luigi_pai.local.store.records import User

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.store.jobs import Store

__all__ = ["Users", "hash_password", "job_ssh", "password_matches"]

_ITERATIONS = 20_000


class Users(UserRecords):
    """The users of a data folder."""

    def __init__(self, store: Store, virtual_clusters: Sequence[str]) -> None:
        super().__init__(store)
        self._virtual_clusters = tuple(virtual_clusters)
        self._without_password: set[str] = set()

    def ensure_admin(self, name: str, password: str | None) -> None:
        """Create the administrator if there is none; a given password replaces the stored one."""
        user = self.get(name)
        if user is None:
            user = User(name, hash_password(password or DEFAULT_PASSWORD), admin=True, virtual_clusters="")
        elif password is not None and not password_matches(user, password):
            user.password = hash_password(password)
        user.admin = True
        user.virtual_clusters = self._names(self._virtual_clusters)
        self.save(user)

    def refuse_default_passwords(self) -> None:
        """Raise ConfigError, to serve no other machines, while users have the default password."""
        open_to_all = [user.name for user in self.all() if password_matches(user, DEFAULT_PASSWORD)]
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
        now = self.get(name)
        return now if now is not None and now.password == user.password else None

    def save(self, user: User) -> None:
        """Add the user, or replace the one of this name."""
        super().save(user)
        self._without_password.discard(user.name)

    def disable_password(self, name: str) -> None:
        """Make password logins of a user fail until their record is saved again, or the server restarts."""
        self._without_password.add(name)

    def has_password(self, name: str) -> bool:
        """Return whether a user can log in with a password."""
        return name not in self._without_password

    def rows(self) -> list[dict[str, str]]:
        """Return what GET /user shows: every value a string, no password."""
        return [
            {
                "username": user.name,
                "admin": "true" if user.admin else "false",
                "virtualCluster": user.virtual_clusters or "default",
            }
            for user in self.all()
        ]

    def put(self, body: dict[str, Any], password_hash: str) -> None:
        """Create or modify a user from a body that `body_rules.USER_PUT` accepts.

        Raises:
            ApiError: 409 to create one that is there, 404 to modify one that is not.
        """
        name = body["username"]
        user = self.get(name)
        if user is not None and not body["modify"]:
            raise ApiError(409, "ConflictUserError", f"User name {name} already exists.")
        if user is None and body["modify"]:
            raise ApiError(404, "NoUserError", f"User {name} not found.")
        if user is None:
            user = User(name, password_hash, admin=False, virtual_clusters="")
        user.password = password_hash
        if "admin" in body:
            user.admin = body["admin"]
        self.save(user)

    def remove(self, name: str) -> None:
        """Remove a user; raises ApiError 404 if there is none, 403 for an administrator."""
        user = self._found(name)
        if user.admin:
            raise ApiError(403, "RemoveAdminError", f"Admin {name} is not allowed to remove.")
        self.remove_user(name)

    def set_virtual_clusters(self, name: str, wanted: str) -> None:
        """Set which virtual clusters a user may use; an administrator may use all.

        Raises:
            ApiError: 404 for an unknown user, 400 for an unknown virtual cluster.
        """
        user = self._found(name)
        names = self._virtual_clusters if user.admin else [part for part in wanted.split(",") if part]
        for item in names:
            if item not in self._virtual_clusters:
                raise ApiError(400, "NoVirtualClusterError", f"Virtual cluster {item} not found.")
        user.virtual_clusters = self._names(names)
        self.save(user)

    def _found(self, name: str) -> User:
        user = self.get(name)
        if user is None:
            raise ApiError(404, "NoUserError", f"User {name} not found.")
        return user

    @staticmethod
    def _names(names: Sequence[str]) -> str:
        return ",".join(sorted({*names, "default"}))


def job_ssh(name: str) -> dict[str, str]:
    """Return a sham of the key pair that LTP makes for each user, to log in to the tasks of jobs.

    Tasks have no sshd here.
    """
    digits = b"".join(hashlib.sha512(f"{name} {part}".encode()).digest() for part in range(18))
    text = base64.b64encode(digits).decode()
    lines = "\n".join(text[start : start + 64] for start in range(0, len(text), 64))
    kind = "RSA PRIVATE KEY"
    private = f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"
    return {"key": private, "pubKey": f"ssh-rsa {text[:372]} pai-job-ssh"}


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
