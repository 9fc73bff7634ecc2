"""The routes of OpenPAI 1.8 and LTP for what the cluster has: virtual clusters, storages and users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.local.json_http import ApiError
from luigi_pai.local.rest.base.api import route
from luigi_pai.local.rest.base.bodies import checked_body

if TYPE_CHECKING:
    from luigi_pai.local.config.settings import Resources
    from luigi_pai.local.launcher.scheduler import Scheduler
    from luigi_pai.local.rest.v2.access import AccessV2

__all__ = ["ROUTES"]

_HUNDRED = 100
_ADMINISTRATORS = "admingroup"
_NEW = {"username": "[A-Za-z0-9_-][A-Za-z0-9_.-]*", "password": ".{6,}"}
_PLAIN: dict[str, Any] = {
    "email": ("",),
    "virtualCluster": ([], ["default"]),
    "admin": (False,),
    "extension": ({},),
}


def _resources(of: Resources) -> dict[str, int]:
    return {"cpu": of.cpu, "memory": of.memory, "gpu": of.gpu, "vCores": of.cpu, "GPUs": of.gpu}


def _virtual_clusters(scheduler: Scheduler) -> dict[str, dict[str, Any]]:
    """Return every virtual cluster; percentages are of all GPUs, as the server counts them."""
    all_gpus = scheduler.total.gpu
    shown: dict[str, dict[str, Any]] = {}
    for cluster in scheduler.clusters.values():
        used = scheduler.used(cluster.name)
        total = _resources(cluster.has)
        capacity = _HUNDRED * cluster.has.gpu / all_gpus if all_gpus else 0
        shown[cluster.name] = {
            "capacity": capacity,
            "usedCapacity": _HUNDRED * used.gpu / all_gpus if all_gpus else 0,
            "dedicated": False,
            "resourcesUsed": _resources(used),
            "resourcesGuaranteed": total,
            "resourcesTotal": total,
            **({"maxCapacity": capacity} if all_gpus else {}),
        }
    return shown


async def _all_virtual_clusters(handler: AccessV2) -> None:
    user = handler.user_of(handler.who())
    shown = _virtual_clusters(handler.api.launcher.scheduler)
    if handler.release.own_virtual_clusters:
        shown = {name: shown[name] for name in handler.api.users.virtual_clusters(user)}
    handler.answer(200, shown)


async def _one_virtual_cluster(handler: AccessV2, name: str) -> None:
    handler.who()
    shown = _virtual_clusters(handler.api.launcher.scheduler)
    if name not in shown:
        raise ApiError(404, "NoVirtualClusterError", f"Vc {name} not found")
    handler.answer(200, shown[name])


async def _storages(handler: AccessV2) -> None:
    handler.who()
    known, defaults = handler.api.storages, handler.default_storages()
    only_defaults = handler.get_query_argument("default", "") == "true"
    names = defaults if only_defaults else known.names()
    shown = [{**known.summary(name), "default": name in defaults} for name in names]
    handler.answer(200, {"storages": shown})


async def _one_storage(handler: AccessV2, name: str) -> None:
    handler.who()
    if name not in handler.api.storages.names():
        raise ApiError(404, "NoStorageError", f"Storage {name} is not found.")
    handler.answer(200, handler.api.storages.detail(name))


async def _user(handler: AccessV2, name: str) -> None:
    handler.who()
    users = handler.api.users
    user = users.get(name)
    if user is None:
        raise ApiError(400, "NoUserError", f"User {name} is not found.")
    clusters = list(users.virtual_clusters(user))
    shown = {
        "username": user.name,
        "grouplist": [*clusters, _ADMINISTRATORS] if user.admin else clusters,
        "email": "",
        "extension": {},
        "admin": user.admin,
        "virtualCluster": clusters,
        "storageConfig": handler.api.storages.names(),
    }
    handler.answer(200, shown)


async def _new_user(handler: AccessV2) -> None:
    """Add a plain user, who has the virtual cluster ``default``."""
    bearer = handler.person()
    asked = checked_body(handler.body, _NEW, _PLAIN)
    handler.require_admin(bearer)
    if not await handler.api.users.add(asked["username"], asked["password"]):
        raise ApiError(409, "ConflictUserError", f"User name {asked['username']} already exists.")
    handler.answer(201, {"message": "User is created successfully"})


ROUTES = (
    route("GET", "/api/v2/virtual-clusters", _all_virtual_clusters),
    route("GET", "/api/v2/virtual-clusters/:name", _one_virtual_cluster),
    route("GET", "/api/v2/storages", _storages),
    route("GET", "/api/v2/storages/:name", _one_storage),
    route("GET", "/api/v1/user/:name", _user),
    *(
        found
        for prefix in ("/api/v2/users", "/api/v2/user")
        for found in (route("POST", prefix, _new_user), route("GET", f"{prefix}/:name", _user))
    ),
)
