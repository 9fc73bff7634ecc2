"""Users and groups as rows of the database."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from luigi_pai.local.store.records import Group, User

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from luigi_pai.local.store.jobs import Store

__all__ = ["UserRecords"]


class UserRecords:
    """The users and groups of a data folder."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, name: str) -> User | None:
        """Return the user, or None."""
        rows = self._store.rows("SELECT * FROM users WHERE name = ?", (name,))
        return _user(rows[0]) if rows else None

    def all(self) -> list[User]:
        """Return every user, by name."""
        return [_user(row) for row in self._store.rows("SELECT * FROM users ORDER BY name")]

    def save(self, user: User) -> None:
        """Add the user, or replace the one of this name."""
        self._store.rows(
            "INSERT OR REPLACE INTO users"
            " (name, password, admin, virtual_clusters, email, extension, groups)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                user.name,
                user.password,
                int(user.admin),
                user.virtual_clusters,
                user.email,
                json.dumps(user.extension),
                ",".join(user.groups),
            ),
        )

    def remove_user(self, name: str) -> None:
        """Remove the user; their jobs stay."""
        self._store.rows("DELETE FROM users WHERE name = ?", (name,))
        self._store.rows("DELETE FROM past_virtual_clusters WHERE username = ?", (name,))

    def record_clusters(self, name: str, clusters: Iterable[str]) -> None:
        """Record virtual clusters that a user may use."""
        for cluster in clusters:
            self._store.rows("INSERT OR IGNORE INTO past_virtual_clusters VALUES (?, ?)", (name, cluster))

    def past_clusters(self, name: str) -> list[str]:
        """Return the virtual clusters recorded for a user, and those of their jobs."""
        sql = (
            "SELECT name FROM past_virtual_clusters WHERE username = ?"
            " UNION SELECT virtual_cluster FROM jobs WHERE username = ? AND api = 'v2'"
        )
        return [row["name"] for row in self._store.rows(sql, (name, name))]

    def groups(self) -> list[Group]:
        """Return every group in the database, by name."""
        rows = self._store.rows("SELECT * FROM groups ORDER BY name")
        return [Group(**{**dict(row), "extension": json.loads(row["extension"])}) for row in rows]

    def save_group(self, group: Group) -> None:
        """Add the group, or replace the one of this name."""
        self._store.rows(
            "INSERT OR REPLACE INTO groups (name, description, external_name, extension) VALUES (?, ?, ?, ?)",
            (group.name, group.description, group.external_name, json.dumps(group.extension)),
        )

    def remove_group(self, name: str) -> None:
        """Remove the group."""
        self._store.rows("DELETE FROM groups WHERE name = ?", (name,))


def _user(row: sqlite3.Row) -> User:
    values = dict(row)
    values["admin"] = bool(row["admin"])
    values["extension"] = json.loads(row["extension"])
    values["groups"] = tuple(name for name in row["groups"].split(",") if name)
    return User(**values)
