"""Groups of users as OpenPAI 1.8 has them: one for each virtual cluster, the administrators', and others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from luigi_pai.local.accounts.user_records import UserRecords
from luigi_pai.local.config.settings import FIRST_STORAGE
from luigi_pai.local.node.http import ApiError
from luigi_pai.local.store.records import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import User

__all__ = ["ADMINISTRATORS", "Groups"]

ADMINISTRATORS = "admingroup"
_DEFAULT = "default"


class Groups:
    """The groups of users, and their permissions.

    The v1 API, too, sets whether a user is in the group of a virtual cluster, or is an administrator.
    Every user is in the group of the virtual cluster ``default``.
    """

    def __init__(
        self, store: Store, virtual_clusters: Sequence[str], storage_names: Callable[[], Sequence[str]]
    ) -> None:
        self._records = UserRecords(store)
        self._virtual_clusters = tuple(virtual_clusters)
        self._storage_names = storage_names

    def all(self) -> list[Group]:
        """Return every group: the administrators', those of virtual clusters, the others by name."""
        everything = self._acls(self._virtual_clusters, admin=True)
        known = {ADMINISTRATORS: Group(ADMINISTRATORS, "admin", "", everything)}
        for name in self._virtual_clusters:
            known[name] = Group(name, f"group for {name} vc", "", self._acls((name,), admin=False))
        for group in self._records.groups():
            known[group.name] = group
        return list(known.values())

    def _acls(self, virtual_clusters: Sequence[str], *, admin: bool) -> dict[str, Any]:
        storages = sorted(self._storage_names(), key=lambda name: (name != FIRST_STORAGE, name))
        acls = {"admin": admin, "virtualClusters": list(virtual_clusters), "storageConfigs": storages}
        return {"acls": acls}

    def get(self, name: str) -> Group | None:
        """Return the group, or None."""
        return next((group for group in self.all() if group.name == name), None)

    def save(self, group: Group) -> None:
        """Add the group, or replace the one of this name."""
        self._records.save_group(group)

    def remove(self, name: str) -> None:
        """Remove the group; its members are in it no longer.

        One of a virtual cluster, and the administrators', are there again at once, without members.
        """
        members = [user for user in self._records.all() if name in self.of(user)]
        for user in members:
            self.record_virtual_clusters(user)
        self._records.remove_group(name)
        for user in members:
            names = self.of(user)
            if name in names:
                self._records.save(self.with_groups(user, [item for item in names if item != name]))

    def of(self, user: User) -> list[str]:
        """Return the names of a user's groups."""
        clusters = user.virtual_clusters.split(",") if user.virtual_clusters else [_DEFAULT]
        return [*clusters, *user.groups, *([ADMINISTRATORS] if user.admin else [])]

    def with_groups(self, user: User, names: Iterable[str]) -> User:
        """Return a user who is in these groups, and in that of ``default``, and in no other."""
        chosen = dict.fromkeys((_DEFAULT, *names))
        clusters = [name for name in chosen if name in self._virtual_clusters]
        others = tuple(name for name in chosen if name not in clusters and name != ADMINISTRATORS)
        return replace(
            user,
            admin=ADMINISTRATORS in chosen,
            virtual_clusters=",".join(sorted(clusters)),
            groups=others,
        )

    def _lists(self, user: User) -> list[dict[str, Any]]:
        known = {group.name: group for group in self.all()}
        return [known[name].extension.get("acls") or {} for name in self.of(user) if name in known]

    def is_admin(self, user: User) -> bool:
        """Return whether a group of a user makes them an administrator."""
        return any(acls.get("admin") is True for acls in self._lists(user))

    def virtual_clusters(self, user: User) -> list[str]:
        """Return the virtual clusters that a user may submit to."""
        if self.is_admin(user):
            return list(self._virtual_clusters)
        named = [name for acls in self._lists(user) for name in acls.get("virtualClusters") or ()]
        return [name for name in dict.fromkeys(named) if name in self._virtual_clusters]

    def record_virtual_clusters(self, user: User) -> None:
        """Record the virtual clusters that a user may use now."""
        self._records.record_clusters(user.name, self.virtual_clusters(user))

    def past_virtual_clusters(self, user: User) -> list[str]:
        """Return the virtual clusters that a user may use, or could use before."""
        return list(dict.fromkeys((*self._records.past_clusters(user.name), *self.virtual_clusters(user))))

    def storages(self, user: User) -> list[Any]:
        """Return the storages that a user's groups name; 1.8 does not check them.

        Raises:
            ApiError: 500 where a group has something else than a list, over which the server fails.
        """
        named = {}
        for acls in self._lists(user):
            storages = acls.get("storageConfigs")
            if isinstance(storages, list):
                named.update({json.dumps(item): item for item in storages})
            elif storages or isinstance(storages, dict):
                problem = "groupItem.extension.acls.storageConfigs.forEach is not a function"
                raise ApiError(500, None, problem)
        return list(named.values())

    def default_storages(self, user: User) -> list[Any]:
        """Return the storages of a job that asks for storages and names none: the first of each group."""
        named = (acls.get("storageConfigs") for acls in self._lists(user))
        return [storages[0] for storages in named if isinstance(storages, list | str) and storages]

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Return the names that no group has."""
        known = {group.name for group in self.all()}
        return [name for name in names if name not in known]

    def of_virtual_clusters(self, names: Iterable[str]) -> list[str]:
        """Return the groups that permit exactly the virtual cluster of their own name."""
        own = {
            group.name
            for group in self.all()
            if (group.extension.get("acls") or {}).get("virtualClusters") == [group.name]
        }
        return [name for name in names if name in own]
