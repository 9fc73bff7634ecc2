"""Tokens of the v1 API: stateless JSON Web Tokens, signed with a key of the data folder.

A token outlives a restart and ends at its ``exp``; nothing is stored about it,
as on OpenPAI 0.7.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Bearer", "Tokens"]

_KEY_BYTES = 32


@dataclass(frozen=True)
class Bearer:
    """Who a valid token speaks for."""

    username: str
    admin: bool


class Tokens:
    """Signs and checks tokens (HS256)."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def from_file(cls, path: Path) -> Tokens:
        """Read the signing key, or make one that only this user can read.

        Raises:
            OSError: the file can be neither read nor written.
        """
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

    def issue(self, username: str, *, admin: bool, expiration: int) -> str:
        """Return a token that is valid for ``expiration`` seconds from now."""
        now = int(time.time())
        claims = {"username": username, "admin": admin, "iat": now, "exp": now + expiration}
        signed = f"{_encode(_HEADER)}.{_encode(claims)}"
        return f"{signed}.{self._signature(signed)}"

    def check(self, token: str) -> Bearer | None:
        """Return whom the token speaks for, or None if it is forged, damaged or has ended."""
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(self._signature(signed).encode(), signature.encode("utf-8", "replace")):
            return None
        claims = _decode(signed.rpartition(".")[2])
        if claims.get("exp", 0) <= time.time():
            return None
        return Bearer(str(claims.get("username", "")), admin=claims.get("admin") is True)

    def _signature(self, signed: str) -> str:
        digest = hmac.digest(self._key, signed.encode("utf-8", "replace"), hashlib.sha256)
        return _unpadded(digest)


_HEADER = {"alg": "HS256", "typ": "JWT"}


def _encode(part: dict[str, Any]) -> str:
    return _unpadded(json.dumps(part, separators=(",", ":")).encode())


def _unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(part: str) -> dict[str, Any]:
    """Return the claims of a part whose signature has been checked."""
    decoded = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return decoded if isinstance(decoded, dict) else {}
